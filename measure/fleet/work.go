package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
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
}

const (
	lossDefault = 10 * time.Second
	// startAhead is how long before a start it is announced, without the way of the announcement.
	startAhead = 500 * time.Millisecond
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
	said  string // last description of the members

	// Of the servers that it has had started: their heartbeats, until quit.
	beats   sync.WaitGroup
	serving context.Context
	quit    context.CancelFunc
}

// NewWork returns a fleet over a driver's connection.
func NewWork(conn *bus.Conn, o WorkOptions) *Work {
	o.lossAfter = cmp.Or(o.lossAfter, lossDefault)
	serving, quit := context.WithCancel(context.Background())
	return &Work{o: o, conn: conn, base: time.Now(), serving: serving, quit: quit}
}

// hold takes the test bed's lease, unless it is held already. taken is closed when another driver
// takes it.
func (w *Work) hold(ctx context.Context, purpose string) (taken <-chan struct{}, err error) {
	if w.lease != nil {
		select {
		case <-w.lease.Lost(): // another driver may have it since
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
	if errors.Is(err, bus.ErrHeld) {
		return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	return nil, err
}

// Close releases the test bed.
func (w *Work) Close() error {
	w.quit()
	w.beats.Wait()
	if w.lease == nil {
		return nil
	}
	defer func() { w.lease = nil }()
	ctx, cancel := context.WithTimeout(context.Background(), sayWithin)
	defer cancel()
	return w.lease.Release(ctx)
}

// discover returns the agents that are present, and asks each for its state.
func (w *Work) discover(ctx context.Context) ([]present, error) {
	found, err := w.conn.Agents(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]present, len(found))
	for i, f := range found {
		all[i] = present{id: f.ID, Name: f.Name}
		if err := readMessage(f.Offer, &all[i].About); err != nil {
			w.o.Log(fmt.Sprintf("agent %s: what it says of itself is %v; is it of another version?", f.Name, err))
			continue
		}
	}
	_ = each(all, func(p *present) error {
		r, err := w.say(ctx, p, command{Verb: verbPing})
		if r != nil {
			p.State = r.State
		} else if !errors.Is(err, bus.ErrGone) { // else it has just left
			w.o.Log(err.Error())
		}
		return nil
	})
	return slices.DeleteFunc(all, func(p present) bool { return p.Protocol == 0 || p.Phase == "" }), ctx.Err()
}

// each calls do for all of a list concurrently.
func each[T any](list []T, do func(*T) error) error {
	errs := make([]error, len(list))
	var group sync.WaitGroup
	for i := range list {
		group.Go(func() { errs[i] = do(&list[i]) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// usable returns the agents that a run may use, each by its name.
func (w *Work) usable(ctx context.Context) ([]present, error) {
	all, err := w.discover(ctx)
	for i := 1; i < len(all); i++ {
		if name := all[i].Name; name == all[i-1].Name { // they joined at the same moment, or one lies
			return nil, fmt.Errorf("%w: two agents are called %s; start one with another --name", exit.ErrRefused, name)
		}
	}
	return all, err
}

// now is the driver's clock.
func (w *Work) now() int64 { return int64(time.Since(w.base)) }

// say sends a command and returns the agent's reply; a refusal is an error that names the agent.
func (w *Work) say(ctx context.Context, to *present, c command) (*reply, error) {
	limit := sayWithin
	if c.Verb == verbServe {
		limit = serveWithin
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c.Protocol = Protocol
	body := text(c)
	sent := w.now()
	answer, err := w.conn.Ask(ctx, to.id, body)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %s: %w", to.Name, c.Verb, err)
	}
	r := reply{ping: clock.Ping{Sent: sent, Received: w.now(), WallHere: time.Now().UnixNano()}}
	if err := readMessage(answer, &r); err != nil {
		return nil, fmt.Errorf("%s: its answer is %w", to.Name, err)
	}
	r.ping.There, r.ping.WallThere = r.NowNs, r.WallNs
	if r.Error != "" {
		return &r, fmt.Errorf("%s: %w", to.Name, answered(r.Error))
	}
	return &r, nil
}

// answered is an agent's refusal.
type answered string

func (a answered) Error() string { return string(a) }

// isAnswered reports whether err is a refusal, not an unreachable agent.
func isAnswered(err error) bool {
	_, is := errors.AsType[answered](err)
	return is
}

// pings makes several exchanges in a row and adds them to a clock.
func (w *Work) pings(ctx context.Context, to *present, c *clock.Clock) error {
	for range pingsMany {
		r, err := w.say(ctx, to, command{Verb: verbPing})
		if err != nil {
			return err
		}
		c.Add(r.ping)
	}
	return nil
}
