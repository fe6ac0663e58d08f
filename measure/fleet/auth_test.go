//go:build linux

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/needs"
	"ceiling/internal/unit"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/load"
	"ceiling/measure/run"
)

// agentOf is a driver's line to an agent, without a run.
func agentOf(t *testing.T, w *Work, name string) *present {
	t.Helper()
	all, err := w.discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.name == name {
			if err := w.command(&p); err != nil {
				t.Fatal(err)
			}
			return &p
		}
	}
	t.Fatalf("agent %s is not here", name)
	return nil
}

// TestAgentHoldsItsOwn: a driver that asks no leave is refused, and the agent
// says so.
func TestAgentHoldsItsOwn(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	b := newBed(t)
	a := b.agent("a1", func(o *AgentOptions) {
		o.Caps = Caps{MaxTime: time.Minute, MaxRate: 1000, MaxConnections: 20}
		o.Observes = false
	})
	both := b.agent("a2", nil)
	w, _ := b.work(WorkOptions{Agents: 1})
	to, other := agentOf(t, w, "a1"), agentOf(t, w, "a2")
	whole := load.Share{First: 0, Count: 1, Of: 1}
	mine := func(change func(*order)) order {
		s := request(nobody, nil)
		o := order{Protocol: Protocol, Load: true, Share: whole, Spec: &s}
		change(&o)
		return o
	}
	rate, err := unit.ParseRate("10:2k")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		verb, run string
		body      any
		want      string
	}{
		"target": {verbPrepare, "r", mine(func(o *order) { o.Spec.Targets[0].URL = "http://198.18.0.1/" }),
			"198.18.0.1:80 is not on its allow-list"},
		"unix socket": {verbPrepare, "r", mine(func(o *order) { o.Spec.Targets[0].URL = "unix:/run/docker.sock:/" }),
			"unix:/run/docker.sock is not on its allow-list"},
		"rate": {verbPrepare, "r", mine(func(o *order) { o.Spec.Rate, o.Spec.Arrivals = rate, spec.Constant }),
			"its cap is 1000 (--max-rate)"},
		"time":        {verbPrepare, "r", mine(func(o *order) { o.Spec.Duration = time.Hour }), "--max-time"},
		"connections": {verbPrepare, "r", mine(func(o *order) { o.Spec.Connections = 21 }), "--max-connections"},
		"role":        {verbPrepare, "r", mine(func(o *order) { o.Observe = true }), "it only loads"},
		"no role":     {verbPrepare, "r", mine(func(o *order) { o.Load = false }), "neither load nor observe"},
		"share":       {verbPrepare, "r", mine(func(o *order) { o.Share = load.Share{First: 3, Count: 1, Of: 2} }), "cannot be"},
		"no share":    {verbPrepare, "r", mine(func(o *order) { o.Share = load.Share{} }), "no share"},
		"pprof": {verbPrepare, "o", mine(func(o *order) {
			o.Load, o.Observe, o.Spec.Pprof = false, true,
				"http://198.18.0.1/debug/pprof/"
		}), "198.18.0.1:80 is not on its allow-list"},
		"version":            {verbPrepare, "r", mine(func(o *order) { o.Protocol = 7 }), "the driver speaks version 7"},
		"spec":               {verbPrepare, "r", mine(func(o *order) { o.Spec.Connections = -1 }), "connections"},
		"no spec":            {verbPrepare, "r", mine(func(o *order) { o.Spec = nil }), "no spec"},
		"kept spec":          {verbPrepare, "r", mine(func(o *order) { o.Spec, o.SpecID = nil, "00" }), "not found"},
		"another shape":      {verbPrepare, "r", map[string]any{"execute": "rm"}, "malformed"},
		"not an object":      {verbPrepare, "r", []int{1}, "malformed"},
		"run name":           {verbPrepare, "../r", mine(func(*order) {}), "run"},
		"verb":               {"execute", "r", struct{}{}, "no such verb"},
		"start without run":  {verbStart, "r", begin{AtNs: 1}, "no run"},
		"stop without run":   {verbStop, "r", stopping{}, "no run"},
		"alive without run":  {verbAlive, "r", struct{}{}, "no run"},
		"start of no shape":  {verbStart, "r", "now", "malformed"},
		"finish without run": {verbFinish, "r", struct{}{}, "no run"},
	} {
		to, a := to, a
		if c.run == "o" {
			to, a = other, both
		}
		_, err := w.say(t.Context(), to, c.verb, c.run, c.body)
		if err == nil || !strings.Contains(err.Error(), c.want) || !isAnswered(err) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if c.verb == verbPrepare && !a.has("refused run "+c.run) {
			t.Errorf("%s: the agent did not say that it refused", name)
		}
	}
	if !a.has("refused execute") || !a.has("refused start") {
		t.Error("the agent did not say what it refused")
	}
	if p := agentOf(t, w, "a1").about.Phase; p != Idle {
		t.Errorf("it is %s", p)
	}
}

// TestReplay sends what a driver has sealed a second time, changed, and to
// another life.
func TestReplay(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	b := newBed(t)
	conn, err := bus.Join(t.Context(), b.URL(), b.Token().String(), "a1", bus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var said log
	a := newAgent(conn, AgentOptions{Log: said.add, Allow: Loopback(), Loads: true, Caps: Caps{MaxTime: time.Minute}, engine: pretend})
	var sealed []byte
	stop, err := conn.Present(bus.Service{
		Version: "1.0.0", Ping: func([]byte) []byte { return a.pong() }, About: func() []byte { return text(a.about()) },
		Command: func(s []byte, answer func([]byte)) { sealed = s; a.hear(s, answer) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop() //nolint:errcheck // the connection is closed right after
	w, _ := b.work(WorkOptions{Agents: 1})
	if _, err := w.say(t.Context(), agentOf(t, w, "a1"), verbStart, "r", begin{AtNs: 1}); !isAnswered(err) {
		t.Fatal(err)
	}
	hear := func(b []byte) string {
		var r reply
		a.hear(b, func(answer []byte) {
			if err := json.Unmarshal(answer, &r); err != nil {
				t.Error(err)
			}
		})
		return r.Error
	}
	changed := append([]byte(nil), sealed...)
	changed[len(changed)/2] ^= 1
	for name, c := range map[string]struct {
		sealed []byte
		want   error
	}{"again": {sealed, bus.ErrReplay}, "changed": {changed, bus.ErrSignature}, "cut": {sealed[:10], bus.ErrMalformed},
		"nothing": {nil, bus.ErrMalformed}} {
		if got := hear(c.sealed); got != c.want.Error() || !said.has("refused a command: "+c.want.Error()) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	a.opener.Session[0] ^= 1
	if got := hear(sealed); got != bus.ErrSession.Error() {
		t.Errorf("to another life: %q", got)
	}
}

// TestAboveTheCap: a closed loop's rate shows only while it runs.
func TestAboveTheCap(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	b := newBed(t)
	a := b.agent("a1", func(o *AgentOptions) { o.Caps.MaxRate = 15_999 })
	w, _ := b.work(WorkOptions{Agents: 1})
	worked, err := one(t.Context(), w, request(nobody, func(s *spec.Spec) { s.Duration = 20 * time.Second }), &notes{})
	if err != nil {
		t.Fatal(err)
	}
	if lost := worked.Agents[0].Lost; !strings.Contains(lost, "it sent 16000 requests/s, its cap is 15999 (--max-rate)") ||
		!a.has("--max-rate") {
		t.Errorf("lost: %q", lost)
	}
	if n := worked.Result.Total.Completed; n < 16_000 || n > 100_000 {
		t.Errorf("%d completed", n)
	}
}

// TestEngineIsAsked: the address that the engine takes is checked too, which is
// another than the one the order was checked with.
func TestEngineIsAsked(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	b := newBed(t)
	b.agent("a1", func(o *AgentOptions) {
		o.engine = func(ctx context.Context, s *spec.Spec, so run.ShareOptions, sink run.Sink) (*run.ShareResult, error) {
			if err := so.Permit(netip.MustParseAddrPort("198.18.0.1:9"), ""); err != nil {
				return nil, errors.Join(exit.ErrRefused, err)
			}
			return pretend(ctx, s, so, sink)
		}
	})
	w, _ := b.work(WorkOptions{Agents: 1})
	_, err := one(t.Context(), w, request(nobody, nil), &notes{})
	if err == nil || !strings.Contains(err.Error(), "agent a1: ") || !strings.Contains(err.Error(), "198.18.0.1:9 is not on its allow-list") {
		t.Error(err)
	}
}

// FuzzCommand: whatever a signed command holds, an agent answers and stays whole.
func FuzzCommand(f *testing.F) {
	s := request(nobody, nil)
	good, _ := json.Marshal(order{Protocol: Protocol, Load: true, Share: load.Share{Count: 1, Of: 1}, Spec: &s})
	f.Add(verbOffer, good)
	f.Add(verbStart, []byte(`{"at_ns":1}`))
	f.Add(verbStop, []byte(`{"why":"x"}`))
	a := &Agent{o: AgentOptions{Allow: Loopback(), Loads: true, Caps: Caps{MaxTime: time.Minute}, Log: func(string) {},
		clock: &ownClock{base: time.Now()}, find: names}, life: newLife(time.Second)}
	f.Fuzz(func(t *testing.T, verb string, body []byte) {
		if verb == verbPrepare || strings.Contains(string(body), "spec_id") {
			return // that one begins a run, this one asks NATS
		}
		if r := a.command(t.Context(), verb, "r", body); r.Phase != Idle {
			t.Fatalf("it is %s", r.Phase)
		}
	})
}

// FuzzDriver: whatever an agent tells, the driver takes or refuses.
func FuzzDriver(f *testing.F) {
	var out outlet
	_ = out.object(frameReady, readiness{1, 1})
	t := &load.NewResult(1).Total
	t.EndNs = 1
	b, _ := t.AppendBinary([]byte{0})
	_ = out.frame(frameTally, b)
	_ = out.object(frameEnd, ending{Done: json.RawMessage(`{"threads":1}`)})
	f.Add(out.message())
	f.Add([]byte("o\x02{}"))
	s := request(nobody, nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &Work{o: WorkOptions{Log: func(string) {}, AllowLoss: true}, base: time.Now()}
		m := &member{present: present{name: "a1"}, load: true, share: load.Share{Count: 1, Of: 1}, saidIt: true}
		j := &job{w: w, spec: &s, members: []*member{m}, byName: map[string]*member{"a1": m}, sink: &notes{}}
		j.merger = load.NewMerger(1, 1, mergeEvery, j.sink)
		j.take(&bus.Sample{Agent: "a1", Sequence: 1, Body: data})
		j.take(&bus.Sample{Agent: "somebody", Sequence: 1, Body: data})
		_, _ = j.merger.Result(), m.over()
	})
}
