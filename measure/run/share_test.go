//go:build linux

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/measure/load"
	"ceiling/record"
)

// notes is a Sink that keeps what it is told.
type notes struct {
	mu          sync.Mutex
	established int
	rows        []record.LoadRow
	observed    map[string]int // rows by their host
	missing     []record.NotMeasured
	windows     int
	onWindow    func()
}

func (n *notes) Connected(established, _ int, _ time.Time) { n.established = established }
func (n *notes) Interval(t *load.Tally, late bool)         { n.rows = append(n.rows, LoadRow("", t, late)) }
func (n *notes) AgentInterval(string, *load.Tally, bool)   {}
func (n *notes) Window(bool, time.Time) {
	if n.windows++; n.onWindow != nil {
		n.onWindow()
	}
}
func (n *notes) Observed(row record.ObservedRow) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.observed == nil {
		n.observed = map[string]int{}
	}
	n.observed[row.Observed().Host]++
}
func (n *notes) NotMeasured(m record.NotMeasured) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.missing = append(n.missing, m)
}

// TestSharesOfARun: two that load and one that observes do one run together; each
// answers for its own, in a form that survives JSON, and the observer alone
// tells of the server.
func TestSharesOfARun(t *testing.T) {
	needs.Engine(t)
	c := startServer(t, "nethttp")
	s := specOf(c.Addr, "/simple")
	s.Connections, s.Threads, s.Requests, s.Duration, s.Warmup = 9, 5, 1001, 0, 0
	shares, err := load.Split([]int{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var starts []chan time.Time
	var ready, loads, all sync.WaitGroup
	sinks, done := make([]*notes, 3), make([]*ShareResult, 3)
	for i := range sinks {
		start := make(chan time.Time, 1)
		starts = append(starts, start)
		sinks[i] = &notes{}
		o := ShareOptions{Host: fmt.Sprint("agent", i), Version: "test", Start: start, Ready: func(int, int) { ready.Done() }}
		if i < 2 {
			o.Load, o.Share = true, shares[i]
			loads.Add(1)
		} else {
			o.Observe, o.Over = true, over
		}
		ready.Add(1)
		all.Go(func() {
			d, err := DoShare(t.Context(), &s, o, sinks[i])
			if o.Load {
				loads.Done()
			}
			if err != nil {
				t.Errorf("agent %d: %v", i, err)
				return
			}
			done[i] = d
		})
	}
	ready.Wait()
	at := time.Now().Add(50 * time.Millisecond)
	for _, start := range starts {
		start <- at
	}
	loads.Wait()
	close(over)
	all.Wait()
	if t.Failed() {
		return
	}
	completed := uint64(0)
	for i, share := range shares {
		d := done[i]
		a := AgentOf(&s, share, d, sinks[i].rows)
		if d.Connections != int(share.Part(9)) || d.Threads > d.Connections || a.Requests.Completed != share.Part(1001) ||
			a.Requests.Due != share.Part(1001) ||
			a.Load.Connections != d.Connections || a.Share.Count != share.Count || a.StartSkewNs < 0 || a.Generator.CPUNsPerRequest <= 0 ||
			a.Environment.Version != "test" {
			t.Errorf("agent %d: %+v of %+v", i, a.Requests, d)
		}
		if len(d.Identities) > 0 || sinks[i].windows != 2 {
			t.Errorf("agent %d identified %v", i, d.Identities)
		}
		completed += a.Requests.Completed
	}
	if completed != 1001 {
		t.Errorf("%d completed", completed)
	}
	text, err := json.Marshal(done[2])
	if err != nil {
		t.Fatal(err)
	}
	var observer ShareResult
	if err := json.Unmarshal(text, &observer); err != nil {
		t.Fatal(err)
	}
	if len(observer.Identities) != 1 || observer.Identities[0].PID != c.PID || observer.Identities[0].Host != "agent2" ||
		observer.Identities[0].BinaryID == "" {
		t.Errorf("the server is %+v; %v", observer.Identities, sinks[2].missing)
	}
	if observer.Result != nil || AgentOf(&s, load.Share{}, &observer, nil).Environment.Version != "test" || len(sinks[2].observed) != 1 ||
		sinks[2].observed["agent2"] == 0 {
		t.Errorf("observed %v", sinks[2].observed)
	}
}

// TestShareIsRefused: before anything is sent.
func TestShareIsRefused(t *testing.T) {
	server, err := faultserver.Listen("tcp4", "127.0.0.1:0", faultserver.Every(faultserver.Stall()))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s := specOf(server.Address(), "/")
	for says, o := range map[string]ShareOptions{
		"8 connections are too few for so many agents": {Load: true, Share: load.Share{First: 8, Count: 1, Of: 9}},
		"cannot be":         {Load: true, Share: load.Share{First: 9, Count: 1, Of: 9}},
		"not on the list":   {Load: true, Permit: func(to netip.AddrPort, _ string) error { return fmt.Errorf("%s is not on the list", to) }},
		"to nobody's taste": {Observe: true, Permit: func(netip.AddrPort, string) error { return errors.New("to nobody's taste") }},
	} {
		if _, err := DoShare(t.Context(), &s, o, &notes{}); !errors.Is(err, exit.ErrRefused) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	s.Targets[0].URL = "unix:/nosuch.sock:/"
	_, err = DoShare(t.Context(), &s, ShareOptions{Load: true, Permit: func(to netip.AddrPort, unix string) error {
		return fmt.Errorf("%s %v", unix, to.IsValid())
	}}, &notes{})
	if err == nil || !strings.Contains(err.Error(), "/nosuch.sock false") {
		t.Error(err)
	}
	if server.Accepted() > 0 {
		t.Errorf("%d connections were made", server.Accepted())
	}
}

// TestObserverEnds: where the context ends, or the start never comes, and by
// itself where nobody says that the load is over.
func TestObserverEnds(t *testing.T) {
	c := startServer(t, "nethttp")
	s := specOf(c.Addr, "/simple")
	s.Duration, s.Timeout, s.Warmup = time.Hour, time.Second, 0
	ctx, cancel := context.WithCancel(t.Context())
	start := make(chan time.Time)
	close(start)
	n := &notes{}
	if d, err := DoShare(ctx, &s, ShareOptions{Observe: true, Start: start}, n); err != nil || d.Result != nil || n.windows != 0 {
		t.Errorf("%+v, %v, %d", d, err, n.windows)
	}
	n.onWindow = cancel // as it opens
	if _, err := DoShare(ctx, &s, ShareOptions{Observe: true}, n); err != nil || n.windows != 2 {
		t.Errorf("%v, %d", err, n.windows)
	}
}

// TestFleetCannotDoEverything: what needs this machine is refused in words.
func TestFleetCannotDoEverything(t *testing.T) {
	o := Options{Out: filepath.Join(t.TempDir(), "plan"), Work: elsewhere{}}
	e := sweepOf(t, ownServer("nethttp"))
	if _, _, err := Explore(t.Context(), e, o, nil); !errors.Is(err, exit.ErrRefused) || !strings.Contains(err.Error(), "give their URLs") {
		t.Error(err)
	}
	for want, change := range map[string]func(*spec.Experiment){
		"link: with --agents the load crosses": func(e *spec.Experiment) { e.Link.Rate = "1Gbit/s" },
		"--pin-generator":                      func(e *spec.Experiment) { e.Load.PinGenerator = "0" },
		"--source-ips":                         func(e *spec.Experiment) { e.Load.SourceIPs = []string{"127.0.0.1"} },
	} {
		e = sweepOf(t, spec.Server{URL: "http://127.0.0.1:1"})
		change(&e)
		if _, _, err := Explore(t.Context(), e, o, nil); !errors.Is(err, exit.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	e = sweepOf(t, spec.Server{URL: "http://127.0.0.1:1"})
	e.Kind = spec.KindProve
	if _, _, err := Explore(t.Context(), e, o, nil); !errors.Is(err, exit.ErrRefused) || !strings.Contains(err.Error(), "a proof takes CPUs") {
		t.Error(err)
	}
}

// elsewhere is a Work that does nothing.
type elsewhere struct{}

func (elsewhere) Prepare(context.Context, *spec.Spec) (Job, error) {
	return nil, errors.New("nobody is there")
}

// TestPausedObservers: while they pause, nothing is observed, and afterwards it is again.
func TestPausedObservers(t *testing.T) {
	needs.Engine(t)
	c := startServer(t, "nethttp")
	s := specOf(c.Addr, "/simple")
	s.Connections, s.Duration, s.Warmup = 4, 1500*time.Millisecond, 0
	n := &notes{}
	rows := func() (sum int) {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, k := range n.observed {
			sum += k
		}
		return sum
	}
	var counts []int
	_, err := DoShare(t.Context(), &s, ShareOptions{Load: true, Observe: true, Observing: func(*load.Tally) bool {
		counts = append(counts, rows())
		return len(counts) < 4 || len(counts) >= 10
	}}, n)
	if err != nil {
		t.Fatal(err)
	}
	if len(counts) < 14 {
		t.Fatalf("%d intervals", len(counts))
	}
	// The fifth call is the first one after the pause began.
	if counts[3] == 0 || counts[4] != counts[9] || rows() <= counts[9] {
		t.Errorf("rows at the ends of the intervals: %d, at last %d; intervals 5 to 10 were not observed", counts, rows())
	}
}
