package fleet

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/measure/run"
	"ceiling/record"
)

var _ run.Host = (*Work)(nil)

// serveWithin is how long a server may take to start: a database initializes its files first.
const serveWithin = time.Minute

// Hosting implements run.Host: the address of the agent that observes.
func (w *Work) Hosting(ctx context.Context) (netip.Addr, error) {
	p, err := w.server(ctx)
	if err != nil {
		return netip.Addr{}, err
	}
	at, err := netip.ParseAddr(p.about.Serves)
	if err != nil {
		return at, fmt.Errorf("agent %s: what it says of itself is malformed: %w", p.name, err)
	}
	return at, nil
}

// server returns the agent that starts servers: the one that observes them.
func (w *Work) server(ctx context.Context) (*present, error) {
	if len(w.o.Observe) != 1 {
		return nil, fmt.Errorf("%w: serve: servers are started by the agent on their machine, which observes them; name it: --observe NAME",
			exit.ErrRefused)
	}
	here, err := w.discover(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range here {
		names = append(names, p.name)
	}
	i, err := observer(w.o.Observe[0], names)
	if err != nil {
		return nil, err
	}
	p := &here[i]
	if err = p.about.speaks(); err == nil && p.about.Serves == "" {
		err = errServesNone
	}
	if err != nil {
		return nil, fmt.Errorf("%w: serve: agent %s: %w", exit.ErrRefused, p.name, err)
	}
	return p, nil
}

// Start implements run.Host.
func (w *Work) Start(ctx context.Context, o *spec.Own, cpus []int) (run.Instance, string, error) {
	if _, err := w.hold(ctx, "an experiment"); err != nil {
		return nil, "", err
	}
	p, err := w.server(ctx)
	if err != nil {
		return nil, "", err
	}
	if err := w.command(p); err != nil {
		return nil, "", err
	}
	r := &remote{w: w, on: p, server: server{record.NewID(time.Now())}}
	ctx, cancel := context.WithTimeout(ctx, serveWithin)
	defer cancel()
	r.keep()
	answer, err := w.ask(ctx, p, verbServe, "", serveOrder{Protocol: Protocol, ID: r.ID, Own: *o, CPUs: cpus})
	if err != nil {
		r.Stop()
		return nil, "", fmt.Errorf("start %s: %w", strings.Join(o.Args, " "), err)
	}
	return r, answer.Address, nil
}

// remote is a server that an agent runs.
type remote struct {
	w  *Work
	on *present
	server
	done context.CancelFunc // ends the heartbeats
}

// keep tells the agent once a second that the server is needed.
func (r *remote) keep() {
	s := &r.w.serve
	if s.until == nil {
		s.until, s.cancel = context.WithCancel(context.Background())
	}
	ctx, cancel := context.WithCancel(s.until)
	r.done = cancel
	s.beats.Go(func() {
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// What it answers is asked for where it matters, by Died.
				_, _ = r.w.say(ctx, r.on, verbKeep, "", r.server)
			}
		}
	})
}

// Died implements run.Instance.
func (r *remote) Died() error {
	_, err := r.w.say(context.Background(), r.on, verbKeep, "", r.server)
	return err
}

// Stop implements run.Instance. A server whose agent cannot be reached ends by itself, after the
// agent's grace.
func (r *remote) Stop() {
	r.done()
	if _, err := r.w.say(context.Background(), r.on, verbDismiss, "", r.server); err != nil && !isAnswered(err) {
		r.w.o.Log("server on " + err.Error())
	}
}
