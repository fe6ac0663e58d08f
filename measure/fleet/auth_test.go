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

// agentOf is an agent as a driver finds it, without a run.
func agentOf(t *testing.T, w *Work, name string) *present {
	t.Helper()
	all, err := w.discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Name == name {
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
	b := parallel(t)
	a := b.agent("a1", func(o *AgentOptions) {
		o.About.Caps = Caps{MaxTime: time.Minute, MaxRate: 1000, MaxConnections: 20}
		o.About.Observes = false
	})
	both := b.agent("a2", nil)
	w, _ := b.work(WorkOptions{Agents: 1})
	to, other := agentOf(t, w, "a1"), agentOf(t, w, "a2")
	whole := load.Share{First: 0, Count: 1, Of: 1}
	mine := func(change func(*order)) command {
		s := request(nobody, nil)
		o := order{Load: true, Share: whole, Spec: &s}
		change(&o)
		return command{Verb: verbPrepare, Run: "r", Order: &o}
	}
	of := func(c command, change func(*command)) command {
		change(&c)
		return c
	}
	rate, err := unit.ParseRate("10:2k")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		do   command
		want string
	}{
		"target": {mine(func(o *order) { o.Spec.Targets[0].URL = "http://198.18.0.1/" }), "198.18.0.1:80 is not on its allow-list"},
		"unix socket": {mine(func(o *order) { o.Spec.Targets[0].URL = "unix:/run/docker.sock:/" }),
			"unix:/run/docker.sock is not on its allow-list"},
		"rate":        {mine(func(o *order) { o.Spec.Rate, o.Spec.Arrivals = rate, spec.Constant }), "its cap is 1000 (--max-rate)"},
		"time":        {mine(func(o *order) { o.Spec.Duration = time.Hour }), "--max-time"},
		"connections": {mine(func(o *order) { o.Spec.Connections = 21 }), "--max-connections"},
		"role":        {mine(func(o *order) { o.Observe = true }), "it only loads"},
		"no role":     {mine(func(o *order) { o.Load = false }), "neither load nor observe"},
		"share":       {mine(func(o *order) { o.Share = load.Share{First: 3, Count: 1, Of: 2} }), "cannot be"},
		"no share":    {mine(func(o *order) { o.Share = load.Share{} }), "no share"},
		"pprof": {of(mine(func(o *order) { o.Load, o.Observe, o.Spec.Pprof = false, true, "http://198.18.0.1/debug/pprof/" }),
			func(c *command) { c.Run = "o" }), "198.18.0.1:80 is not on its allow-list"},
		"spec":               {mine(func(o *order) { o.Spec.Connections = -1 }), "connections"},
		"no spec":            {mine(func(o *order) { o.Spec = nil }), "no spec"},
		"no order":           {command{Verb: verbPrepare, Run: "r"}, "no spec"},
		"run name":           {of(mine(func(*order) {}), func(c *command) { c.Run = "../r" }), "run"},
		"verb":               {command{Verb: "execute", Run: "r"}, "no such verb"},
		"server":             {command{Verb: verbServe, Server: "s"}, "it starts no servers"},
		"start without run":  {command{Verb: verbStart, Run: "r", AtNs: 1}, "no run"},
		"stop without run":   {command{Verb: verbStop, Run: "r"}, "no run"},
		"ping without run":   {command{Verb: verbPing, Run: "r"}, "no run"},
		"finish without run": {command{Verb: verbFinish, Run: "r"}, "no run"},
	} {
		to, a := to, a
		if c.do.Run == "o" {
			to, a = other, both
		}
		_, err := w.say(t.Context(), to, c.do)
		if err == nil || !strings.Contains(err.Error(), c.want) || !isAnswered(err) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if c.do.Verb == verbPrepare && !a.Has("refused prepare "+c.do.Run) {
			t.Errorf("%s: the agent did not say that it refused", name)
		}
	}
	for body, want := range map[string]string{
		`{"protocol":4,"verb":"prepare","execute":"rm"}`: "malformed", `[1]`: "malformed", `{"protocol":4} {}`: "malformed",
		`{"protocol":7,"verb":"prepare","run":"r"}`: "the driver speaks version 7",
	} {
		if answer, err := w.conn.Ask(t.Context(), to.id, []byte(body)); err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%s: %s, %v", body, answer, err)
		}
	}
	if !a.Has("refused execute") || !a.Has("refused start") {
		t.Error("the agent did not say what it refused")
	}
	if p := agentOf(t, w, "a1").Phase; p != Idle {
		t.Errorf("it is %s", p)
	}
}

// TestAboveTheCap: a closed loop's rate shows only while it runs.
func TestAboveTheCap(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	a := b.agent("a1", func(o *AgentOptions) { o.About.Caps.MaxRate = 15_999 })
	w, _ := b.work(WorkOptions{Agents: 1})
	worked := b.run(w, 20*time.Second, &notes{})
	if lost := worked.Agents[0].Lost; !strings.Contains(lost, "it sent 16000 requests/s, its cap is 15999 (--max-rate)") ||
		!a.Has("--max-rate") {
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
	b := parallel(t)
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
	f.Add(text(command{Protocol: Protocol, Verb: verbOffer, Order: &order{Load: true, Share: load.Share{Count: 1, Of: 1}, Spec: &s}}))
	f.Add(text(command{Protocol: Protocol, Verb: verbStart, AtNs: 1}))
	f.Add(text(command{Protocol: Protocol, Verb: verbStop, Why: "x"}))
	a := &Agent{o: AgentOptions{Allow: Loopback(), About: About{Loads: true, Caps: Caps{MaxTime: time.Minute}}, Log: func(string) {},
		now: func() int64 { return 1 }, find: names}}
	f.Fuzz(func(t *testing.T, body []byte) {
		var c command
		err := readMessage(body, &c)
		if c.Verb == verbPrepare {
			return // it begins a run
		}
		if r := a.answer(&c, err); r.Phase != Idle {
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
	f.Add([]byte("o\x00\x00\x00\x02{}"))
	s := request(nobody, nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &Work{o: WorkOptions{Log: func(string) {}, AllowLoss: true}, base: time.Now()}
		m := &member{present: present{id: "a1", Name: "a1"}, load: true, share: load.Share{Count: 1, Of: 1}, saidIt: true}
		j := &job{w: w, spec: &s, members: []*member{m}, sink: &notes{}}
		j.merger = load.NewMerger(1, 1, mergeEvery, j.sink)
		j.take(&bus.Report{Agent: "a1", Body: data})
		j.take(&bus.Report{Agent: "somebody", Body: data})
		_, _ = j.merger.Result(), m.over()
	})
}
