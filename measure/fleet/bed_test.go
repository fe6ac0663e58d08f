//go:build linux

package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/natstest"
	"ceiling/internal/ring"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/controller"
	"ceiling/measure/load"
	"ceiling/measure/run"
	"ceiling/record"
)

// bed is a controller, and what joins it.
type bed struct {
	t *testing.T
	*natstest.Controller
}

// parallel is a bed for a test of its own.
func parallel(t *testing.T) *bed {
	t.Helper()
	t.Parallel()
	return newBed(t, controller.Options{})
}

func newBed(t *testing.T, o controller.Options) *bed {
	t.Helper()
	return &bed{t, natstest.Serve(t, o)}
}

// joined is an agent of a bed.
type joined struct {
	natstest.Log
	leave context.CancelFunc // as with SIGTERM
	ended chan error
}

// agent joins one, with the pretended engine unless another is given.
func (b *bed) agent(name string, change func(*AgentOptions), tokens ...bus.Token) *joined {
	b.t.Helper()
	conn, err := b.TryJoin(append(tokens, b.Token())[0], name, bus.Watch{})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	j := &joined{leave: cancel, ended: make(chan error, 1)}
	o := AgentOptions{
		About: About{Version: "test", Loads: true, Observes: true, Caps: Caps{MaxTime: time.Minute}}, Allow: Loopback(),
		Log: j.Add, engine: pretend,
	}
	if change != nil {
		change(&o)
	}
	here := make(chan struct{})
	o.here = func() { close(here) }
	go func() { j.ended <- Serve(ctx, conn, o) }()
	select {
	case <-here:
	case err := <-j.ended:
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		cancel()
		if err := <-j.ended; err != nil && !errors.Is(err, bus.ErrGone) {
			b.t.Logf("agent %s: %v", name, err)
		}
		if b.t.Failed() {
			b.t.Logf("agent %s said:\n%s", name, j)
		}
	})
	return j
}

func (b *bed) agents(n int, change func(*AgentOptions)) []*joined {
	b.t.Helper()
	var all []*joined
	for i := range n {
		all = append(all, b.agent(fmt.Sprintf("a%d", i+1), change))
	}
	return all
}

// work is a driver.
func (b *bed) work(o WorkOptions) (*Work, *natstest.Log) {
	b.t.Helper()
	l := &natstest.Log{}
	o.Log, o.Version = l.Add, "test"
	w := NewWork(b.Drive(), o)
	b.t.Cleanup(func() {
		if err := w.Close(); err != nil && !b.t.Failed() {
			b.t.Logf("close: %v", err)
		}
		if b.t.Failed() {
			b.t.Logf("the driver said:\n%s", l)
		}
	})
	return w, l
}

// notes is a sink that keeps what it is told.
type notes struct {
	mu                 sync.Mutex
	established, asked int
	window             []bool
	rows               []record.LoadRow
	agentRows          map[string]int
	observed           []record.ObservedRow
	missing            []record.NotMeasured
	each               func(record.LoadRow)
}

func (n *notes) Connected(established, asked int, _ time.Time) {
	n.established, n.asked = established, asked
}
func (n *notes) Window(open bool, _ time.Time) { n.window = append(n.window, open) }
func (n *notes) Interval(t *load.Tally, late bool) {
	n.rows = append(n.rows, run.LoadRow("", t, late))
	if n.each != nil {
		n.each(n.rows[len(n.rows)-1])
	}
}
func (n *notes) Observed(r record.ObservedRow) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.observed = append(n.observed, r)
}
func (n *notes) NotMeasured(m record.NotMeasured) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.missing = append(n.missing, m)
}
func (n *notes) AgentInterval(agent string, _ *load.Tally, _ bool) {
	if n.agentRows == nil {
		n.agentRows = map[string]int{}
	}
	n.agentRows[agent]++
}

// one does a run.
func one(ctx context.Context, w *Work, s spec.Spec, sink *notes) (*run.RunResult, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	j, err := w.Prepare(ctx, &s)
	if err != nil {
		return nil, err
	}
	worked, err := j.Do(ctx, sink)
	return worked, errors.Join(err, j.Close())
}

// run does one of a length, which must succeed.
func (b *bed) run(w *Work, length time.Duration, n *notes) *run.RunResult {
	b.t.Helper()
	worked, err := one(b.t.Context(), w, request(nobody, func(s *spec.Spec) { s.Duration = length }), n)
	if err != nil {
		b.t.Fatal(err)
	}
	return worked
}

// third does something after the third row.
func third(do func()) *notes {
	n := &notes{}
	n.each = func(record.LoadRow) {
		if len(n.rows) == 3 {
			do()
		}
	}
	return n
}

// request is a run for tests.
func request(url string, change func(*spec.Spec)) spec.Spec {
	s := spec.Spec{
		Targets:   []spec.Target{{Method: "GET", URL: url, Weight: 1}},
		Condition: spec.Condition{Connections: 16, Pipelining: 1}, Seed: 1, Duration: time.Second, Timeout: time.Second,
		Settings: spec.Settings{Engine: spec.EngineAuto}, Common: spec.Common{Pprof: "off"},
	}
	if change != nil {
		change(&s)
	}
	return s
}

const nobody = "http://127.0.0.1:9/" // the pretended engine sends nothing

// pretend is an engine that sends nothing and counts a request for each of its
// connections and milliseconds.
func pretend(ctx context.Context, s *spec.Spec, o run.ShareOptions, sink run.Sink) (*run.ShareResult, error) {
	done := &run.ShareResult{Target: "127.0.0.1:9"}
	if o.Permit != nil {
		if err := o.Permit(netip.MustParseAddrPort("127.0.0.1:9"), ""); err != nil {
			return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
		}
	}
	asked := 0
	if o.Load {
		asked = int(o.Share.Part(uint64(s.Connections)))
		done.Connections, done.Threads, done.Result = asked, 1, load.NewResult(len(s.Targets))
	}
	o.Ready(asked, asked)
	var start time.Time
	select {
	case start = <-o.Start:
	case <-ctx.Done():
		return done, nil
	}
	if !o.Load {
		row := &record.ListenerRow{}
		row.Kind, row.Host, row.TNs = record.KindListener, o.Host, 1
		sink.Observed(row)
		done.CPUProfile = slices.Repeat([]byte("profile "), chunkMost/4)
		select {
		case <-o.Over:
		case <-ctx.Done():
		case <-time.After(time.Until(start.Add(s.Warmup + s.Duration + 10*time.Second))):
		}
		return done, nil
	}
	r := done.Result
	r.Established, r.Opened, r.Engine = asked, asked, "pretended"
	r.Started = start.Add(s.Warmup)
	step := int64(100 * time.Millisecond)
	for at := step; at <= int64(s.Duration); at += step {
		select {
		case <-ctx.Done():
			r.Interrupted = true
			return done, nil
		case <-time.After(time.Until(r.Started.Add(time.Duration(at)))):
		}
		t := &load.NewResult(len(s.Targets)).Total
		t.StartNs, t.EndNs, t.Connected = at-step, at, asked
		t.Sent, t.Completed = uint64(100*asked), uint64(100*asked)
		for range asked {
			t.Response.RecordN(at/step*1000, 100)
		}
		r.Total.Sent += t.Sent
		r.Total.Completed += t.Completed
		r.Total.Response.Merge(&t.Response)
		r.WindowNs = at
		sink.Interval(t, false)
	}
	return done, nil
}

// loadOnly is the engine of loads, without what observes.
func loadOnly(ctx context.Context, s *spec.Spec, o run.ShareOptions, sink run.Sink) (*run.ShareResult, error) {
	to, path, host, err := spec.ParseTarget(s.Targets[0].URL)
	if err != nil {
		return nil, err
	}
	at := netip.MustParseAddrPort(to.String())
	r, err := load.Run(ctx, load.Config{
		To: load.To(ring.TCPAddr(at)), Connections: s.Connections, Threads: 1, Pipelining: s.Pipelining,
		Mix:  []load.Request{{Bytes: []byte("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"), Weight: 1}},
		Rate: s.Rate, Seed: s.Seed, Warmup: s.Warmup, Duration: s.Duration, Requests: s.Requests, Timeout: s.Timeout,
		Engine: s.Engine, Share: o.Share, Ready: o.Ready, Start: o.Start,
	}, sink)
	if err != nil {
		return nil, err
	}
	return &run.ShareResult{Result: r, Threads: 1, Connections: int(o.Share.Part(uint64(s.Connections))), Target: at.String()}, nil
}
