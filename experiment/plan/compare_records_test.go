package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/record"
	"ceiling/record/recordtest"
	"ceiling/verdict/prose"
)

// finished is a run as the store has it.
func finished(id string, perS float64, at time.Time) *record.Run {
	return &record.Run{
		ID: id, Started: at, Target: "http://127.0.0.1:8080/read", ElapsedS: 10,
		Spec: spec.Spec{Targets: []spec.Target{{Method: "GET", URL: "http://127.0.0.1:8080/read", Weight: 1}}, Condition: spec.Condition{Connections: 64, Pipelining: 1},
			Duration: 10 * time.Second},
		Load:     record.Load{Connections: 64, Established: 64, Threads: 1, Pipelining: 1, Mode: "closed", Engine: "uring"},
		Requests: record.Requests{Completed: uint64(10 * perS)},
		Rate:     record.Rate{CompletedPerS: perS, Spread: record.Spread{Samples: 10, StdevPerS: .01 * perS}},
		Latency:  record.Latency{Response: record.Quantiles{P50Ns: int64(64e9 / perS), P99Ns: int64(200e9 / perS)}},
		Environment: record.Environment{
			Host: "h", Kernel: "6.18.1", Arch: "amd64", Version: "1", Go: "go1.26", CPUModel: "X", CoresOnline: 8, CoresAllowed: 8,
			Governor: "performance", IRQBalance: "stopped",
			Interfaces: []record.Interface{{Name: "eth0", Driver: "ena", RxQueues: 2, TxQueues: 2, IRQs: "eth0-Tx-Rx-0:0 eth0-Tx-Rx-1:1"}},
			Sysctls:    map[string]string{"net.core.somaxconn": "4096"}, Limits: map[string]string{"nofile": "1024/4096"},
		},
		Subject: &record.Subject{Processes: []record.SubjectProcess{{PID: 7, Comm: "s", Exe: "/s", BinaryID: "go:a", CPUsAllowed: "0-7",
			Threads: 9}}, CPUNsPerRequest: 1e9 / perS},
		Verdict: record.Verdict{Outcome: record.Valid, Bottleneck: "server CPU"},
	}
}

func noon(minutes int) time.Time {
	return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(minutes) * time.Minute)
}

func TestTheSameRunTwiceDiffersInNothing(t *testing.T) {
	c := CompareRuns([]Kept{{Run: finished("a", 1000, noon(0))}}, []Kept{{Run: finished("b", 1000, noon(1))}})
	if c.Incomparable != nil {
		t.Error(c.Incomparable)
	}
	for _, d := range c.Differences {
		t.Errorf("difference %+v", d)
	}
}

func TestDifferencesAreWeighed(t *testing.T) {
	check := func(what, weight string, change func(*record.Run)) {
		t.Helper()
		b := finished("b", 1000, noon(1))
		change(b)
		c := CompareRuns([]Kept{{Run: finished("a", 1000, noon(0))}}, []Kept{{Run: b}})
		if len(c.Differences) != 1 || c.Differences[0].What != what || c.Differences[0].Weight != weight ||
			c.Differences[0].A == c.Differences[0].B {
			t.Errorf("%s: %+v", what, c.Differences)
		}
		forbidden, says := c.Incomparable != nil, prose.Text(c.Says)
		if forbidden != (weight == WeightForbids) || forbidden && !strings.Contains(says, what) {
			t.Errorf("%s: incomparable %q, says %q", what, c.Incomparable, says)
		}
	}
	check("requests", WeightForbids, func(r *record.Run) { r.Spec.Targets[0].URL = "http://127.0.0.1:8080/list" })
	check("requests", WeightForbids, func(r *record.Run) { r.Spec.Targets[0].Body = []byte("x") })
	check("address", WeightNoted, func(r *record.Run) { r.Spec.Targets[0].URL = "http://127.0.0.1:9090/read" })
	check("connections", WeightForbids, func(r *record.Run) { r.Load.Connections = 100 })
	check("pipelining", WeightForbids, func(r *record.Run) { r.Load.Pipelining = 4 })
	check("new connections", WeightForbids, func(r *record.Run) { r.Spec.NewConnections = 1 })
	check("measured time", WeightNoted, func(r *record.Run) { r.Spec.Duration = time.Minute })
	check("generator threads", WeightExplains, func(r *record.Run) { r.Load.Threads = 2 })
	check("generator engine", WeightExplains, func(r *record.Run) { r.Load.Engine = "epoll" })
	check("generator version", WeightExplains, func(r *record.Run) { r.Environment.Version = "2" })
	check("CPU model", WeightForbids, func(r *record.Run) { r.Environment.CPUModel = "Y" })
	check("cores online", WeightForbids, func(r *record.Run) { r.Environment.CoresOnline = 4 })
	check("kernel", WeightExplains, func(r *record.Run) { r.Environment.Kernel = "6.1.0" })
	check("governor", WeightExplains, func(r *record.Run) { r.Environment.Governor = "powersave" })
	check("irqbalance", WeightExplains, func(r *record.Run) { r.Environment.IRQBalance = "running" })
	check("eth0 RPS", WeightExplains, func(r *record.Run) { r.Environment.Interfaces[0].RPS = "0-1:0-3" })
	check("eth0 interrupts", WeightExplains, func(r *record.Run) { r.Environment.Interfaces[0].IRQs = "eth0-Tx-Rx-0:0 eth0-Tx-Rx-1:0" })
	check("sysctl net.core.somaxconn", WeightExplains, func(r *record.Run) { r.Environment.Sysctls["net.core.somaxconn"] = "128" })
	check("limit nofile", WeightNoted, func(r *record.Run) { r.Environment.Limits["nofile"] = "1/1" })
	check("server binary", WeightExplains, func(r *record.Run) { r.Subject.Processes[0].BinaryID = "go:b" })
	check("server GOMAXPROCS", WeightExplains, func(r *record.Run) { r.Subject.Processes[0].GOMAXPROCS = 4 })
	check("server CPUs", WeightExplains, func(r *record.Run) { r.Subject.Processes[0].CPUsAllowed = "0-3" })
	check("server processes", WeightExplains, func(r *record.Run) {
		r.Subject.Processes = append(r.Subject.Processes, record.SubjectProcess{Exe: "/s", BinaryID: "go:a", CPUsAllowed: "0-7"})
	})
	check("server CPUs as asked", WeightExplains, func(r *record.Run) { r.Spec.PinServer = "0" })
}

func TestWhatARecordDoesNotKnowIsNamed(t *testing.T) {
	old := func(id string) *record.Run {
		r := finished(id, 1000, noon(0))
		r.Subject.Processes[0] = record.SubjectProcess{PID: 7, Comm: "s"}
		return r
	}
	c := CompareRuns([]Kept{{Run: old("a")}}, []Kept{{Run: old("b")}})
	unknown := map[string]bool{}
	for _, d := range c.Differences {
		if d.A == notRecorded && d.B == notRecorded && d.Weight == WeightNoted {
			unknown[d.What] = true
		}
	}
	for _, what := range []string{"server binary", "server GOMAXPROCS", "server CPUs"} {
		if !unknown[what] {
			t.Errorf("%s is not named among %+v", what, c.Differences)
		}
	}
	c = CompareRuns([]Kept{{Run: old("a")}}, []Kept{{Run: finished("b", 1000, noon(1))}})
	for _, d := range c.Differences {
		if d.A != notRecorded {
			t.Errorf("%+v", d)
		}
	}
}

func TestOneRunEachDecidesLittle(t *testing.T) {
	compare := func(b float64) record.Comparison {
		return CompareRuns([]Kept{{Run: finished("a", 1000, noon(0))}}, []Kept{{Run: finished("b", b, noon(1))}})
	}
	c := compare(880)
	if ch := c.Changes[0]; ch.Decision != record.CannotTell || !strings.Contains(prose.Text(ch.Says), "inconclusive from one run each") ||
		math.Abs(ch.Relative.Mid+.12) > 1e-9 {
		t.Errorf("%+v", ch)
	}
	if !strings.Contains(prose.Text(c.Says), "ceiling compare --serve") || !has(c.Caveats, "not interleaved") {
		t.Errorf("says %q, doubts %q", c.Says, c.Caveats)
	}
	c = compare(400)
	if ch := c.Changes[0]; ch.Decision != record.Worse || !(ch.Relative.Low < -.6 && ch.Relative.High > -.6 && ch.Relative.High < 0) ||
		ch.Relative.Confidence != 0 {
		t.Errorf("%+v", ch)
	}
	// Nothing is known of how its latency varied.
	if ch := c.Changes[2]; ch.Decision != record.CannotTell || !strings.Contains(prose.Text(ch.Says), "is unknown") {
		t.Errorf("%+v", ch)
	}
}

func TestSpreadWithinARun(t *testing.T) {
	series := &record.Series{}
	for i := range 100 {
		level := 1 + .1*float64(i/10%2) // every other second 10 % more
		series.Load = append(series.Load, record.LoadRow{TNs: int64(i+1) * 1e8, WidthNs: 1e8, Completed: 100, P50Ns: int64(1e6 * level),
			P99Ns: int64(3e6 * level)})
		series.Observed.Add(
			&record.ProcessRow{ObservedHead: record.ObservedHead{TNs: int64(i+1) * 1e8, WidthNs: 1e8}, Role: record.RoleSubject,
				CPUNs: int64(1e6 * level)})
	}
	f := figuresOf(&Kept{Run: finished("a", 1000, noon(0)), Series: series})
	want := math.Log(1.1) / 2 * math.Sqrt(10./9)
	for _, name := range []string{metricP50, metricP99, metricCPU} {
		if got := f.Spread[name]; math.Abs(got-want) > .15*want {
			t.Errorf("%s varies by %v, want %v", name, got, want)
		}
	}
	if f.Spread[metricRPS] != .01 {
		t.Errorf("rate varies by %v", f.Spread[metricRPS])
	}
}

func TestRunsMadeInTurnsHaveAnInterval(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 1))
	side := func(from int, step int, perS float64) []Kept {
		var list []Kept
		for i := range 8 {
			r := finished(fmt.Sprint("r", from+i*step), perS*math.Exp(.02*chance.NormFloat64()), noon(from+i*step))
			h := new(hist.Hist)
			h.RecordN(r.Latency.Response.P50Ns, 98)
			h.RecordN(r.Latency.Response.P99Ns, 2)
			list = append(list, Kept{Run: r, Response: h})
		}
		return list
	}
	c := CompareRuns(side(0, 2, 1000), side(1, 2, 900))
	for _, ch := range c.Changes {
		if ch.Decision != record.Worse || ch.Relative.Confidence < .9875 {
			t.Errorf("%+v", ch)
		}
	}
	if c := CompareRuns(side(0, 2, 1000), side(1, 2, 1000)); c.Changes[0].Decision == record.Worse || c.Changes[0].Decision == record.Better ||
		c.Changes[0].Relative.Confidence < .9875 {
		t.Errorf("%+v", c.Changes[0])
	}
	// One after the other: the interval would be that of the occasion too.
	if c := CompareRuns(side(0, 1, 1000), side(100, 1, 900)); c.Changes[0].Decision != record.CannotTell {
		t.Errorf("%+v", c.Changes[0])
	}
}

func TestRunsOfSeveralConditionsAreNoSide(t *testing.T) {
	other := finished("c", 1000, noon(2))
	other.Load.Connections = 128
	a := []Kept{{Run: finished("a", 1000, noon(0))}, {Run: other}}
	if c := CompareRuns(a, a); !strings.Contains(prose.Sentence(c.Incomparable), "connections") {
		t.Errorf("%q, %+v", c.Incomparable, c.Differences)
	}
}

func TestVoidAndFailingRunsAreNoSide(t *testing.T) {
	good := []Kept{{Run: finished("a", 1000, noon(0))}}
	check := func(want string, change func(*record.Run)) record.Comparison {
		t.Helper()
		b := finished("b", 1000, noon(1))
		change(b)
		c := CompareRuns(good, []Kept{{Run: b}})
		if !strings.Contains(prose.Sentence(c.Incomparable), want) || want == "" && c.Incomparable != nil {
			t.Errorf("%q, want %q", c.Incomparable, want)
		}
		return c
	}
	check("b is invalid and was excluded: the books", func(r *record.Run) {
		r.Verdict = record.Verdict{Outcome: record.Invalid, Bottleneck: "inconclusive", Because: recordtest.Says("the books do not balance")}
	})
	check("b fails", func(r *record.Run) { r.Errors = []record.Error{{Phase: "status", Cause: "503", Count: 9000}} })
	c := check("", func(r *record.Run) {
		r.Verdict = record.Verdict{Outcome: record.Invalid, Bottleneck: record.LoadGenerator}
	})
	if ch := c.Changes[0]; !strings.Contains(prose.Text(ch.Says), "the generator was the bottleneck") {
		t.Errorf("%+v", ch)
	}
	if ch := c.Changes[3]; ch.A == 0 || ch.B == 0 {
		t.Errorf("CPU: %+v", ch)
	}
	if c := CompareRuns(nil, nil); c.Incomparable == nil {
		t.Error("nothing was compared with nothing")
	}
}

func TestOtherToolsAreComparedByWhatTheyTell(t *testing.T) {
	wrk := func(connections int) Finished {
		return Finished{
			Label: "wrk.txt", Figures: []Figures{{Name: "wrk.txt", PerS: 1000, P50Ns: 1e6, Missing: recordtest.Say("wrk was not asked for --latency")}},
			Facts: [][]Fact{ToolFacts("wrk", "closed", "sent", connections, "http://127.0.0.1:8080/read")}, Caveats: recordtest.Says("wrk rounds"),
		}
	}
	c := CompareFinished(wrk(64), FinishedRuns([]Kept{{Run: finished("b", 400, noon(0))}}))
	if c.Incomparable != nil || !has(c.Caveats, "wrk rounds") {
		t.Errorf("%q, doubts %q", c.Incomparable, c.Caveats)
	}
	if ch := c.Changes[2]; ch.Metric != metricP99 || !strings.Contains(prose.Text(ch.Says), "--latency") {
		t.Errorf("%+v", ch)
	}
	if d := c.Differences[0]; d.What != FactTool || d.Weight != WeightExplains {
		t.Errorf("%+v", c.Differences)
	}
	if c := CompareFinished(wrk(64), wrk(100)); !strings.Contains(prose.Sentence(c.Incomparable), "connections") {
		t.Errorf("%q", c.Incomparable)
	}
}

// The rank-sum distribution against counting all orders.
func TestRankSum(t *testing.T) {
	for _, c := range [][2]int{{1, 1}, {2, 3}, {4, 4}, {5, 3}} {
		n, m := c[0], c[1]
		counts := make([]float64, n*m+1)
		all := 0.0
		for set := range 1 << (n + m) {
			var below, a int
			for i := range n + m {
				if set&(1<<i) != 0 {
					a++
					below += i + 1 - a // of b, before this one of a
				}
			}
			if a == n {
				counts[below]++
				all++
			}
		}
		got, sum := rankSum(n, m), 0.0
		for u := range counts {
			sum += counts[u] / all
			if math.Abs(got[u]-sum) > 1e-12 {
				t.Errorf("%d and %d: P(U ≤ %d) = %v, want %v", n, m, u, got[u], sum)
			}
		}
	}
	if _, ok := shiftOf([]float64{1, 2, 3}, []float64{1, 2, 3}, .0125); ok {
		t.Error("three and three runs exclude something at 98.75%")
	}
	if d, ok := shiftOf([]float64{1, 2, 3, 4, 5}, []float64{11, 12, 13, 14, 15}, .0125); !ok || d.Value != 10 || d.Low != 6 || d.High != 14 {
		t.Errorf("%+v", d)
	}
}

// Every reason why a difference matters has its sentence.
func TestReasonsHaveSentences(t *testing.T) {
	r := &record.Run{Agents: []record.Agent{{Name: "load1", Loads: true}}}
	r.Environment.Interfaces = []record.Interface{{Name: "eth0"}}
	for _, f := range append(factsOf(r), ToolFacts("wrk", "closed", "sent", 64, "http://127.0.0.1/")...) {
		if says := reason(f.Why); f.Why != "" && prose.Text(says) == says.Code {
			t.Errorf("%s: nothing is said by %q", f.What, says.Code)
		}
	}
}
