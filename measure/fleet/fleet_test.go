//go:build linux

package fleet

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/leak"
	"ceiling/internal/needs"
	"ceiling/internal/unit"
	"ceiling/measure/fleet/controller"
	"ceiling/measure/run"
)

func TestMain(m *testing.M) {
	if os.Getenv(childURL)+os.Getenv(childState) != "" {
		fmt.Println(runChild())
		os.Exit(1)
	}
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() == "" { // tests wait, most of the time; fuzzers do not
		if err := flag.Set("test.parallel", "12"); err != nil {
			panic(err)
		}
	}
	runtime.GOMAXPROCS(24) // sixteen engines in one process: load.Run says why
	leak.Main(m)
}

func TestRunOfThree(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	b.agents(3, nil)
	b.agent("web1", func(o *AgentOptions) { o.About.Loads = false })
	w, said := b.work(WorkOptions{Agents: 3, Observe: []string{"web1"}})
	var n notes
	worked := b.run(w, time.Second, &n)
	if got, want := worked.Result.Total.Completed, uint64(16*1000); got != want {
		t.Errorf("%d completed, want %d", got, want)
	}
	if n.established != 16 || n.asked != 16 || len(n.window) != 2 || len(n.rows) != 10 || len(n.agentRows) != 3 || len(n.observed) != 1 {
		t.Errorf("told: %d of %d, windows %v, %d rows, by agent %v, %d observed", n.established, n.asked, n.window, len(n.rows), n.agentRows,
			len(n.observed))
	}
	if want := slices.Repeat([]byte("profile "), chunkMost/4); !bytes.Equal(worked.CPUProfile, want) {
		t.Errorf("the profile of web1 has %d bytes, not %d", len(worked.CPUProfile), len(want))
	}
	if len(n.observed) == 1 && n.observed[0].Observed().Host != "web1" {
		t.Errorf("observed on %q", n.observed[0].Observed().Host)
	}
	if len(worked.Agents) != 4 || worked.Connections != 16 || worked.Target != "127.0.0.1:9" || worked.Fleet.Bed != "lab" ||
		worked.Fleet.LostShare != 0 {
		t.Errorf("worked: %d agents, %+v", len(worked.Agents), worked.Fleet)
	}
	for _, a := range worked.Agents {
		if a.Lost != "" || a.Clock.Pings < 2*pingsMany || a.Clock.ErrorNs < a.Clock.RTTMinNs/2 {
			t.Errorf("agent %s: lost %q, clock %+v", a.Name, a.Lost, a.Clock)
		}
	}
	if !said.Has("a1, a2, a3 load, 1/3 each; web1 observes") {
		t.Errorf("said:\n%s", said)
	}
	var want hist.Hist // of all, not made from quantiles
	for i := range int64(10) {
		want.RecordN((i+1)*1000, 1600)
	}
	got := &worked.Result.Total.Response
	for _, q := range []float64{0, 0.1, 0.5, 0.9, 0.99, 1} {
		if got.Quantile(q) != want.Quantile(q) || got.Count() != want.Count() || got.Mean() != want.Mean() {
			t.Errorf("quantile %g: %d of %d, want %d of %d", q, got.Quantile(q), got.Count(), want.Quantile(q), want.Count())
		}
	}
	// The test bed is its driver's until that closes it.
	second, _ := b.work(WorkOptions{Agents: 3})
	short := request(nobody, func(s *spec.Spec) { s.Duration = 100 * time.Millisecond })
	if _, err := one(t.Context(), second, short, &notes{}); err == nil || !strings.Contains(err.Error(), "in use by run ") {
		t.Errorf("%v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b.run(second, short.Duration, &notes{})
}

// TestExact counts at the server what the agents say they did.
func TestExact(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	var served atomic.Uint64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	defer server.Close()
	b := newBed(t, controller.Options{})
	b.agents(16, func(o *AgentOptions) { o.engine = loadOnly })
	closed := request(server.URL+"/", func(s *spec.Spec) { s.Connections, s.Requests, s.Duration = 40, 2003, 0 })
	for _, agents := range []int{1, 2, 3, 5, 16} {
		t.Run(fmt.Sprint(agents), func(t *testing.T) {
			served.Store(0)
			worked := b.exact(t, agents, closed, &served)
			if worked.Result.Total.Completed != 2003 || worked.Connections != 40 {
				t.Errorf("%d completed over %d connections", worked.Result.Total.Completed, worked.Connections)
			}
		})
	}
	// The union of the agents' schedules is the run's: as many requests as are due, at about the times
	// they are.
	t.Run("open loop", func(t *testing.T) {
		served.Store(0)
		rate, err := unit.ParseRate("301")
		if err != nil {
			t.Fatal(err)
		}
		worked := b.exact(t, 3, request(server.URL+"/", func(s *spec.Spec) {
			s.Rate, s.Arrivals, s.Timeout = rate, spec.Constant, 10*time.Second
		}), &served)
		if r := worked.Result; r.Asked != 301 || r.Total.Completed+r.Unsent != 301 {
			t.Errorf("asked for %d, completed %d, unsent %d; 301 are due", r.Asked, r.Total.Completed, r.Unsent)
		}
		if worked.Fleet.StartSkewNs < 0 {
			t.Errorf("the first request left %d ns before it was due", -worked.Fleet.StartSkewNs)
		}
	})
}

// exact does a run that the server counts.
func (b *bed) exact(t *testing.T, agents int, s spec.Spec, served *atomic.Uint64) *run.RunResult {
	t.Helper()
	w, _ := b.work(WorkOptions{Agents: agents})
	var n notes
	worked, err := one(t.Context(), w, s, &n)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	checkSums(t, worked, &n, served.Load())
	return worked
}

// checkSums: requests counted by the server = sum over the agents = the merged
// ones, in the total, the rows and the histogram.
func checkSums(t *testing.T, worked *run.RunResult, n *notes, served uint64) {
	t.Helper()
	var agents, rows uint64
	for _, a := range worked.Agents {
		agents += a.Requests.Completed
	}
	for _, r := range n.rows {
		rows += r.Completed
	}
	total := &worked.Result.Total
	if total.Completed != served || agents != served || rows != served || total.Response.Count() != served || total.Failed != 0 {
		t.Errorf("the server served %d; agents say %d, rows %d, the total %d, the histogram %d", served, agents, rows, total.Completed,
			total.Response.Count())
	}
}

// TestClocks: one agent's clock is 2 s ahead and fast, another's behind and
// slow; they start together all the same.
func TestClocks(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	base := time.Now()
	for i, c := range []struct{ offset, drift float64 }{{2e9, 100e-6}, {-2e9, -100e-6}, {}} {
		b.agent(fmt.Sprintf("a%d", i+1), func(o *AgentOptions) {
			o.now = func() int64 { return int64(c.offset + float64(time.Since(base))*(1+c.drift)) }
		})
	}
	w, _ := b.work(WorkOptions{Agents: 3})
	var n notes
	worked := b.run(w, time.Second, &n)
	ahead, behind := worked.Agents[0].Clock, worked.Agents[1].Clock
	apart, drifted := ahead.OffsetNs-behind.OffsetNs, time.Since(base)/5000 // 200 ppm
	if far := max(apart-4e9, 4e9-apart); far > int64(drifted)+ahead.ErrorNs+behind.ErrorNs {
		t.Errorf("the clocks are %d ns apart, set were 4 s", apart)
	}
	for _, r := range n.rows {
		if r.Completed != 1600 {
			t.Errorf("a row of %d: not all agents are in it", r.Completed)
		}
	}
	for _, a := range worked.Agents {
		if a.Clock.ErrorNs > int64(time.Second) {
			t.Errorf("the clock of %s is known to %d ns only", a.Name, a.Clock.ErrorNs)
		}
	}
}

func TestInterrupted(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	all := b.agents(2, nil)
	w, _ := b.work(WorkOptions{Agents: 2})
	ctx, cancel := context.WithCancel(t.Context())
	n := third(cancel)
	worked, err := one(ctx, w, request(nobody, func(s *spec.Spec) { s.Duration = time.Minute / 2 }), n)
	if err != nil {
		t.Fatal(err)
	}
	if !worked.Result.Interrupted || worked.Result.Total.Completed < 3*1600 || worked.Agents[0].Lost != "" {
		t.Errorf("interrupted %v, %d completed, %q", worked.Result.Interrupted, worked.Result.Total.Completed, worked.Agents[0].Lost)
	}
	for _, a := range all {
		if !a.Has("stopped because the driver said: the run was ended before its time") {
			t.Errorf("agent said:\n%s", a)
		}
	}
	// They are free again.
	b.run(w, 200*time.Millisecond, &notes{})
}

func TestTooFew(t *testing.T) {
	needs.Engine(t)
	b := parallel(t)
	w, _ := b.work(WorkOptions{Agents: 3, Observe: []string{"web1"}})
	refused := func(s spec.Spec, want ...string) {
		t.Helper()
		_, err := one(t.Context(), w, s, &notes{})
		for _, text := range append(want, "refused") {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%v\nlacks %q", err, text)
			}
		}
	}
	refused(request(nobody, nil), "no agents connected")
	b.agent("a1", nil)
	refused(request(nobody, nil), "--observe web1: no agent of that name is here, but a1")
	b.agent("web1", nil)
	b.agent("a2", func(o *AgentOptions) { o.Allow, _ = ParseAllow([]string{"10.0.0.0/8"}) })
	b.agent("a3", func(o *AgentOptions) { o.About.Loads = false })
	b.agent("a4", func(o *AgentOptions) { o.About.Caps.MaxTime = time.Millisecond })
	refused(request(nobody, nil), "3 agents are wanted to load, 1 of the 5 here would", "a1: would load",
		"a2: 127.0.0.1:9 is not on its allow-list (10.0.0.0/8); start the agent with --allow 127.0.0.1:9",
		"a3: it only observes", "a4: the run takes 1s, its cap is 1ms (--max-time)", "web1: is to observe")
	refused(request(nobody, func(s *spec.Spec) { s.Connections = 2 }), "2 connections are too few for 3 agents; each needs its own: -c 3")
	refused(request(nobody, func(s *spec.Spec) { s.PinGenerator = "0" }), "--pin-generator")
	refused(request(nobody, func(s *spec.Spec) { s.SourceIPs = []string{"127.0.0.2"} }), "--source-ips")
	refused(request(nobody, func(s *spec.Spec) { s.Proxy = "127.0.0.1:1" }), "--proxy")
}
