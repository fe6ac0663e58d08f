package fleet

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/pause"
	"ceiling/measure/run"
	"ceiling/record"
)

var _ run.Host = (*Work)(nil)

// serveWithin is how long a server may take to start: a database initializes its files first.
const serveWithin = time.Minute

// Hosting implements run.Host: the address of the agent that observes.
func (w *Work) Hosting(ctx context.Context) (netip.Addr, error) {
	_, at, err := w.server(ctx)
	return at, err
}

// server returns the agent that starts servers, which observes them, and its address.
func (w *Work) server(ctx context.Context) (p *present, at netip.Addr, err error) {
	if len(w.o.Observe) != 1 {
		return nil, at, fmt.Errorf("%w: serve: servers are started by the agent on their machine, which observes them; name it: --observe NAME",
			exit.ErrRefused)
	}
	here, err := w.usable(ctx)
	if err == nil {
		p, err = named(w.o.Observe[0], here)
	}
	if err != nil {
		return nil, at, err
	}
	if err = p.speaks(); err == nil && p.Serves == "" {
		err = errServesNone
	}
	if err != nil {
		return nil, at, fmt.Errorf("%w: serve: agent %s: %w", exit.ErrRefused, p.Name, err)
	}
	if at, err = netip.ParseAddr(p.Serves); err != nil {
		return nil, at, fmt.Errorf("agent %s: what it says of itself is malformed: %w", p.Name, err)
	}
	return p, at, nil
}

// Start implements run.Host.
func (w *Work) Start(ctx context.Context, o *spec.Own, cpus []int) (run.Instance, string, error) {
	if _, err := w.hold(ctx, "an experiment"); err != nil {
		return nil, "", err
	}
	p, _, err := w.server(ctx)
	if err != nil {
		return nil, "", err
	}
	needed, done := context.WithCancel(w.serving)
	r := &remote{w: w, on: p, id: record.NewID(time.Now()), done: done}
	w.beats.Go(func() {
		// What it answers is asked for where it matters, by Died.
		pause.Every(needed, beatEvery, func() { _ = r.say(needed, verbKeep) })
	})
	answer, err := w.say(ctx, p, command{Verb: verbServe, Server: r.id, Own: o, CPUs: cpus})
	if err != nil {
		r.Stop()
		return nil, "", fmt.Errorf("start %s: %w", strings.Join(o.Args, " "), err)
	}
	return r, answer.Address, nil
}

// remote is a server that an agent runs.
type remote struct {
	w    *Work
	on   *present
	id   string
	done context.CancelFunc // ends the heartbeats
}

// Died implements run.Instance.
func (r *remote) Died() error {
	return r.say(context.Background(), verbKeep)
}

// Stop implements run.Instance. A server whose agent cannot be reached ends by itself, after the
// agent's grace.
func (r *remote) Stop() {
	r.done()
	if err := r.say(context.Background(), verbDismiss); err != nil && !isAnswered(err) {
		r.w.o.Log("server on " + err.Error())
	}
}

func (r *remote) say(ctx context.Context, verb string) error {
	_, err := r.w.say(ctx, r.on, command{Verb: verb, Server: r.id})
	return err
}
