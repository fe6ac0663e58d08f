package fleet

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/clock"
)

// WorkOptions say who of a fleet does the runs.
type WorkOptions struct {
	// Agents is how many load; Observe names those that watch the server.
	Agents  int
	Observe []string
	// AllowLoss lets a run go on without an agent that is lost.
	AllowLoss bool
	Version   string
	// Log is told of what a person should know, one line each.
	Log func(string)

	lossAfter time.Duration // of silence; 0: 10 s
	lead      time.Duration // of the start; 0: half a second
}

const (
	lossDefault = 10 * time.Second
	leadDefault = 500 * time.Millisecond
	// sayWithin is how long an agent may take to answer.
	sayWithin = 5 * time.Second
	// pingsMany are made before a run and after it.
	pingsMany = 16
)

// Work is a fleet as a run.Work. It holds the test bed's lease from the first
// run until it is closed, and does one run at a time.
type Work struct {
	o     WorkOptions
	conn  *bus.Conn
	base  time.Time // zero of the driver's clock
	lease *bus.Lease
	lines map[bus.Nonce]*lane // to lives of agents
	said  string              // who does what, last
}

// lane is a line to one life of an agent, and how far its clock is ahead of the
// driver's.
type lane struct {
	*bus.Line
	ahead atomic.Int64
}

// present is an agent that is here.
type present struct {
	name  string
	about About
	line  *bus.Line // nil: not commanded yet
}

// NewWork is a fleet over a driver's connection.
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

// Close gives the test bed back.
func (w *Work) Close() error {
	err := w.hangUp()
	if w.lease != nil {
		defer func() { w.lease = nil }()
		ctx, cancel := context.WithTimeout(context.Background(), sayWithin)
		defer cancel()
		err = errors.Join(err, w.lease.Release(ctx))
	}
	return err
}

// hangUp ends the lines to all agents.
func (w *Work) hangUp() error {
	var err error
	for _, l := range w.lines {
		err = errors.Join(err, l.Close())
	}
	w.lines = map[bus.Nonce]*lane{}
	return err
}

// quiet is how long a discovery waits for a further answer.
const quiet = 300 * time.Millisecond

// discover asks who is here.
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

// command opens the line to an agent, or takes the one there is.
func (w *Work) command(p *present) error {
	var nonce bus.Nonce
	if b, err := hex.DecodeString(p.about.Session); err != nil || copy(nonce[:], b) != len(nonce) || len(b) != len(nonce) {
		return fmt.Errorf("agent %s: %q is no session", p.name, p.about.Session)
	}
	l := w.lines[nonce]
	if l == nil {
		l = &lane{}
	}
	// To a round trip, where seconds would do; of each run anew, for clocks drift.
	l.ahead.Store(p.about.NowNs - w.now())
	if l.Line == nil {
		var err error
		l.Line, err = w.conn.Line(p.name, bus.Session{Nonce: nonce, Last: p.about.Last, Clock: func() time.Duration {
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

// say sends a command, and answers with the agent's reply; what the agent does
// not do is an error that names it.
func (w *Work) say(ctx context.Context, to *present, verb, run string, body any) (*reply, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sayWithin)
	defer cancel()
	answer, err := to.line.Do(ctx, verb, run, text)
	if err != nil {
		return nil, err // names it
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

// answered is what an agent answered instead of doing it.
type answered struct{ text string }

func (a answered) Error() string { return a.text }

// isAnswered tells a refusal from an agent that cannot be reached.
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

// pings makes many at once and adds them to a clock.
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
