package fleet

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ceiling/internal/exit"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/clock"
)

// WorkOptions select the agents of a fleet that do the runs.
type WorkOptions struct {
	// Agents is how many load; Observe names those that watch the server.
	Agents  int
	Observe []string
	// AllowLoss lets a run continue without an agent that is lost.
	AllowLoss bool
	Version   string
	// Log receives messages for the user, one line each.
	Log func(string)

	lossAfter time.Duration // of silence; 0: 10 s
	lead      time.Duration // from announcing the start to the start; 0: half a second
}

const (
	lossDefault = 10 * time.Second
	leadDefault = 500 * time.Millisecond
	// sayWithin is how long an agent may take to answer.
	sayWithin = 5 * time.Second
	// pingsMany is how many pings precede a run, and follow it.
	pingsMany = 16
)

// Work is a fleet as a run.Work. It holds the test bed's lease from the first
// run until it is closed, and does one run at a time.
type Work struct {
	o     WorkOptions
	conn  *bus.Conn
	base  time.Time // zero of the driver's clock
	lease *bus.Lease
	lines map[bus.Nonce]*lane // to sessions of agents
	said  string              // last description of the members
	serve serving
}

// serving are the servers that a driver has had started.
type serving struct {
	beats  sync.WaitGroup // a goroutine for each
	cancel context.CancelFunc
	until  context.Context // of the beats; nil: none yet
}

// quit ends the heartbeats.
func (s *serving) quit() {
	if s.cancel != nil {
		s.cancel()
		s.beats.Wait()
	}
}

// lane is a line to one session of an agent, and how far its clock is ahead of the driver's.
type lane struct {
	*bus.Line
	ahead atomic.Int64
}

// present is an agent that is present.
type present struct {
	name  string
	about About
	line  *bus.Line // nil: no commands yet
}

// NewWork returns a fleet over a driver's connection.
func NewWork(conn *bus.Conn, o WorkOptions) *Work {
	if o.lossAfter == 0 {
		o.lossAfter = lossDefault
	}
	if o.lead == 0 {
		o.lead = leadDefault
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	return &Work{o: o, conn: conn, base: time.Now(), lines: map[bus.Nonce]*lane{}}
}

// hold takes the test bed's lease, unless it is held already. taken is closed when another driver
// takes it.
func (w *Work) hold(ctx context.Context, purpose string) (taken <-chan struct{}, err error) {
	if w.lease != nil {
		select {
		case <-w.lease.Lost(): // another driver has commanded the agents since
			if err := w.hangUp(); err != nil {
				return nil, err
			}
		default:
			return w.lease.Lost(), nil
		}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	lease, err := w.conn.Acquire(ctx, fmt.Sprintf("%s (process %d on %s)", purpose, os.Getpid(), host))
	if err == nil {
		w.lease = lease
		return lease.Lost(), nil
	}
	var held *bus.Held
	if errors.As(err, &held) {
		return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	return nil, err
}

// Close releases the test bed.
func (w *Work) Close() error {
	w.serve.quit()
	err := w.hangUp()
	if w.lease != nil {
		defer func() { w.lease = nil }()
		ctx, cancel := context.WithTimeout(context.Background(), sayWithin)
		defer cancel()
		err = errors.Join(err, w.lease.Release(ctx))
	}
	return err
}

// hangUp closes the lines to all agents.
func (w *Work) hangUp() error {
	var err error
	for _, l := range w.lines {
		err = errors.Join(err, l.Close())
	}
	w.lines = map[bus.Nonce]*lane{}
	return err
}

// quiet is how long a discovery waits for another answer.
const quiet = 300 * time.Millisecond

// discover asks which agents are present.
func (w *Work) discover(ctx context.Context) ([]present, error) {
	found, err := w.conn.Discover(ctx, quiet)
	if err != nil {
		return nil, err
	}
	var all []present
	for _, f := range found {
		p := present{name: f.Name}
		if err := readMessage(f.About, &p.about); err != nil {
			w.o.Log(fmt.Sprintf("agent %s: what it says of itself is %v; is it of another version?", f.Name, err))
			continue
		}
		all = append(all, p)
	}
	return all, nil
}

// command opens the line to an agent, or reuses the open one.
func (w *Work) command(p *present) error {
	var nonce bus.Nonce
	if b, err := hex.DecodeString(p.about.Session.Nonce); err != nil || copy(nonce[:], b) != len(nonce) || len(b) != len(nonce) {
		return fmt.Errorf("agent %s: invalid session %q", p.name, p.about.Session.Nonce)
	}
	l := w.lines[nonce]
	if l == nil {
		l = &lane{}
	}
	// Good to a round trip, where seconds would do; set again for each run, since clocks drift.
	l.ahead.Store(p.about.Session.NowNs - w.now())
	if l.Line == nil {
		var err error
		l.Line, err = w.conn.Line(p.name, bus.Session{Nonce: nonce, Last: p.about.Session.Last, Clock: func() time.Duration {
			return time.Duration(w.now() + l.ahead.Load())
		}})
		if err != nil {
			return err
		}
		w.lines[nonce] = l
	}
	p.line = l.Line
	return nil
}

// now is the driver's clock.
func (w *Work) now() int64 { return int64(time.Since(w.base)) }

// say sends a command and returns the agent's reply; a refusal is an error that names the agent.
func (w *Work) say(ctx context.Context, to *present, verb, run string, body any) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, sayWithin)
	defer cancel()
	return w.ask(ctx, to, verb, run, body)
}

// ask is say without a limit of its own.
func (w *Work) ask(ctx context.Context, to *present, verb, run string, body any) (*reply, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	answer, err := to.line.Do(ctx, verb, run, text)
	if err != nil {
		return nil, err // the error names it
	}
	var r reply
	if err := readMessage(answer, &r); err != nil {
		return nil, fmt.Errorf("%s: its answer is %w", to.name, err)
	}
	if r.Error != "" {
		return &r, fmt.Errorf("%s: %w", to.name, answered{r.Error})
	}
	return &r, nil
}

// answered is an agent's refusal.
type answered struct{ text string }

func (a answered) Error() string { return a.text }

// isAnswered reports whether err is a refusal, not an unreachable agent.
func isAnswered(err error) bool {
	var a answered
	return errors.As(err, &a)
}

// ping asks an agent for its clock, once.
func (w *Work) ping(ctx context.Context, to *present) (clock.Ping, error) {
	ctx, cancel := context.WithTimeout(ctx, sayWithin)
	defer cancel()
	p := clock.Ping{Sent: w.now()}
	b, err := w.conn.Ping(ctx, to.name, nil)
	if err != nil {
		return p, err
	}
	p.Received, p.WallHere = w.now(), time.Now().UnixNano()
	var r reply
	if err := readMessage(b, &r); err != nil {
		return p, fmt.Errorf("%s: its clock is %w", to.name, err)
	}
	p.There, p.WallThere = r.NowNs, r.WallNs
	return p, nil
}

// pings makes several in a row and adds them to a clock.
func (w *Work) pings(ctx context.Context, to *present, c *clock.Clock) error {
	for range pingsMany {
		p, err := w.ping(ctx, to)
		if err != nil {
			return err
		}
		c.Add(p)
	}
	return nil
}
