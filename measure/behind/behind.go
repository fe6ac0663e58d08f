// Package behind observes what is behind a server under load: PostgreSQL, over the observer's own
// connection, for its settings, its sessions and what they wait for; and a server of ours for its
// connection pool and for its calls to another service.
//
// Both are polled a few times a second. A failure is reported, and ends no run.
package behind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"ceiling/internal/text"
	"ceiling/record"
)

const (
	every = 200 * time.Millisecond
	// restful times the duration of an answer is the least pause before the next question: they
	// take at most a twentieth of the time, most of it waiting for a CPU. On a busy host they still
	// come once a second.
	restful = 20
	seldom  = time.Second
	// again is the interval of reconnects to a lost database.
	again = time.Second

	openWithin = 3 * time.Second
	answerIn   = time.Second
)

// Config says what to observe.
type Config struct {
	// Database is the URL of a PostgreSQL; "": the one that the server names, if it is on this
	// host.
	Database string
	// Paths of the requests: a server is asked for its status only if one of them is a route that
	// only ours has.
	Paths []string
	// Dial connects to the server; nil: it is not asked. Near reports whether it is on this host.
	Dial func(context.Context) (net.Conn, error)
	Near bool
	// Host names this host in the rows.
	Host string
}

// A Watch observes during one run.
type Watch struct {
	host     string
	status   *statusClient // nil: there is none
	postgres *postgres     // nil: there is none
	database *record.Database
	service  *record.Downstream

	cancel context.CancelFunc
	asking sync.WaitGroup

	mu      sync.Mutex
	missing []record.NotMeasured
}

// Open reads what does not change during a run. Its error is about Config.Database: a database that
// the user names must answer.
func Open(ctx context.Context, c Config) (*Watch, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	w := &Watch{host: c.Host}
	source := c.Database
	if paths := statusPaths(c.Paths); len(paths) > 0 && c.Dial != nil {
		named, err := w.openStatus(ctx, c.Dial, paths)
		if err != nil {
			w.lose("server status", err, 0, false)
		}
		if source == "" && c.Near {
			source = named
		}
	}
	if source == "" {
		return w, nil
	}
	p, about, err := openPostgres(ctx, source)
	switch {
	case err == nil:
	case c.Database != "":
		w.Close()
		return nil, fmt.Errorf("database: %w", err)
	default:
		w.lose("database", err, 0, false)
		return w, nil
	}
	if w.database != nil {
		about.Use = w.database.Use
	}
	w.postgres, w.database = p, about
	if hidden := p.hidden(); hidden != "" {
		w.lose("database sessions", errors.New(hidden), 0, true)
	}
	return w, nil
}

// Database describes the database; nil if there is none.
func (w *Watch) Database() *record.Database { return w.database }

// Downstream returns the service that the server calls; nil if it names none.
func (w *Watch) Downstream() *record.Downstream { return w.service }

// NotMeasured returns what was not answered.
func (w *Watch) NotMeasured() []record.NotMeasured {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.missing)
}

func (w *Watch) lose(what string, err error, tNs int64, part bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.missing, func(n record.NotMeasured) bool { return n.What == what }) {
		w.missing = append(w.missing, record.NotMeasured{What: what, Why: text.Line(err.Error()), TNs: tNs, Host: w.host, Part: part})
	}
}

// Start polls until Stop, and calls told with each row; window is the zero of the run's clock.
func (w *Watch) Start(window time.Time, told func(record.ObservedRow)) {
	if w.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	now := func() int64 { return int64(time.Since(window)) }
	if w.status != nil {
		w.asking.Go(func() { w.askStatus(ctx, now, told) })
	}
	if w.postgres != nil {
		w.asking.Go(func() { w.askPostgres(ctx, now, told) })
	}
}

// Stop ends the polling, and waits for the pending query.
func (w *Watch) Stop() {
	if w.cancel != nil {
		w.cancel()
		w.asking.Wait()
	}
}

// Close stops, and closes the connections.
func (w *Watch) Close() {
	w.Stop()
	if w.status != nil {
		w.status.close()
	}
	if w.postgres != nil {
		w.postgres.close()
	}
}

// clock fills in the heads of rows.
type clock struct {
	host string
	now  func() int64
	last int64
}

func (c *clock) head(kind string, tNs int64) record.ObservedHead {
	h := record.ObservedHead{Kind: kind, Host: c.host, TNs: tNs, WidthNs: tNs - c.last}
	c.last = tNs
	return h
}
