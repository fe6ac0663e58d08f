package verdict

import (
	"math"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// closedRun is a closed loop of 64 slots for 10 s at 100,000/s without a flaw.
func closedRun() *record.Run {
	lat := record.Quantiles{Count: 1_000_000, MeanNs: 640_000, P50Ns: 630_000, P90Ns: 700_000, P99Ns: 900_000, P999Ns: 1_200_000,
		MinNs: 90_000, MaxNs: 4_000_000}
	return &record.Run{
		Spec: spec.Spec{Condition: spec.Condition{Connections: 64, Pipelining: 1},
			Duration: 10 * time.Second, Warmup: time.Second, Timeout: 10 * time.Second},
		Load:     record.Load{Connections: 64, Opened: 64, Established: 64, Threads: 1, Pipelining: 1, Mode: "closed"},
		WarmupS:  1,
		ElapsedS: 10,
		Requests: record.Requests{Sent: 1_000_064, InFlightAtStart: 64, Completed: 1_000_000, InFlight: 64},
		Rate: record.Rate{CompletedPerS: 100_000, SentPerS: 100_000,
			Spread: record.Spread{WidthS: 1, Samples: 10, MinPerS: 99_000, P50PerS: 100_000, MaxPerS: 101_000, StdevPerS: 500}},
		Bytes:    record.Bytes{Read: 130_000_000, Written: 60_000_000},
		Statuses: map[string]uint64{"200": 1_000_000},
		Latency:  record.Latency{Response: lat, Service: lat},
		Generator: record.Generator{PID: 7, UserNs: 1e9, SystemNs: 3e9, BusiestWorker: .4, RunDelay: .01, BatchMeanNs: 1000,
			Workers: []record.Worker{{Thread: 9, Connections: 64, Completed: 1_000_000, Busy: .4, RunDelay: .01}}},
	}
}

// openRun is an open loop of 20,000/s for 10 s that was sent as asked.
func openRun() *record.Run {
	run := closedRun()
	run.Load.Mode, run.Load.TargetPerS, run.Load.Arrivals = "open", 20_000, "constant"
	run.Requests = record.Requests{Sent: 200_000, Completed: 200_000}
	run.Rate = record.Rate{CompletedPerS: 20_000, SentPerS: 20_000}
	run.Statuses = map[string]uint64{"200": 200_000}
	run.Latency.Response.Count, run.Latency.Service.Count = 200_000, 200_000
	return run
}

func mustSLO(t *testing.T, text string) spec.SLO {
	t.Helper()
	slo, err := spec.ParseSLO(text)
	if err != nil {
		t.Fatal(err)
	}
	return slo
}

// TestResultAlone is what a run without a series can be judged to.
func TestResultAlone(t *testing.T) {
	check := func(name string, run *record.Run, outcome record.Outcome, bottleneck record.Bottleneck, says string) {
		t.Helper()
		if v := Judge(run, nil); v.Outcome != outcome || v.Bottleneck != bottleneck || !strings.Contains(prose.Sentence(v.Because), says) ||
			bottleneck == record.Failures && v.NextBottleneck != nil {
			t.Errorf("%s: %s, %s: %s\nwant %s, %s: …%s…", name, v.Outcome, v.Bottleneck, prose.Sentence(v.Because), outcome, bottleneck, says)
		}
	}
	change := func(run *record.Run, f func(*record.Run)) *record.Run { f(run); return run }

	check("nothing watched", closedRun(), record.Valid, record.Inconclusive, "the server's processes were not observed")
	check("no Linux", change(closedRun(), func(r *record.Run) {
		r.NotMeasured = append(r.NotMeasured, record.NotMeasured{What: "host", Why: "hosts are observed only on Linux"})
	}), record.Valid, record.Inconclusive, "the server's processes were not observed: hosts are observed only on Linux")
	check("generator not recorded", change(closedRun(), func(r *record.Run) { r.Generator = record.Generator{} }),
		record.Valid, record.Inconclusive, "the generator's CPU was not recorded")
	check("books", change(closedRun(), func(r *record.Run) { r.Requests.InFlight = 0 }), record.Invalid, record.Inconclusive,
		"request accounting mismatch")
	check("little", change(closedRun(), func(r *record.Run) { r.Latency.Response.MeanNs = 30_000 }), record.Invalid, record.Inconclusive,
		"Little's law")
	check("little with errors", change(closedRun(), func(r *record.Run) {
		r.Latency.Response.MeanNs = 500_000
		r.Load.Reconnects = 3
	}), record.Valid, record.Inconclusive, "")
	check("no connection", change(closedRun(), func(r *record.Run) {
		r.Requests, r.Load.Established = record.Requests{}, 0
		r.Errors = []record.Error{{Phase: "connect", Cause: "ECONNREFUSED", Count: 64}}
	}), record.Invalid, record.Inconclusive, "nothing is listening on the target")
	check("generator full", change(closedRun(), func(r *record.Run) { r.Generator.BusiestWorker = .97 }), record.Invalid, record.LoadGenerator,
		"97%")
	check("generator full at an idle hour", change(closedRun(), func(r *record.Run) { r.Generator.BusiestWorker = .949 }), record.Valid,
		record.Inconclusive, "")
	check("refusals", change(closedRun(), func(r *record.Run) {
		r.Statuses = map[string]uint64{"200": 900_000, "503": 100_000}
	}), record.Fail, record.Failures, "10% of responses were errors (503 × 100,000): the rate includes failed requests")

	check("as asked", openRun(), record.Valid, record.TargetRate, "no bottleneck was reached")
	check("as asked, SLO met", change(openRun(), func(r *record.Run) { r.Spec.SLO = mustSLO(t, "p99<5ms,errors<1%,rate>10k") }), record.Pass,
		record.TargetRate, "no bottleneck")
	check("as asked, SLO broke", change(openRun(), func(r *record.Run) { r.Spec.SLO = mustSLO(t, "p99<500us") }), record.Fail,
		record.TargetRate, "p99 of the response time is 900 µs, SLO p99<500us")
	check("not sent, nobody knows why", change(openRun(), func(r *record.Run) {
		r.Requests = record.Requests{Sent: 150_000, Completed: 150_000, Unsent: 50_000}
	}), record.Invalid, record.Inconclusive, "25% of the requests were unsent or late")
	check("not sent, generator full", change(openRun(), func(r *record.Run) {
		r.Requests = record.Requests{Sent: 150_000, Completed: 150_000, Unsent: 50_000}
		r.Generator.BusiestWorker = .99
	}), record.Invalid, record.LoadGenerator, "the generator was saturated")
}

// TestAskedChangesAreNotUnstable: a rate that changes as asked is no caveat, one that changes by itself is.
func TestAskedChangesAreNotUnstable(t *testing.T) {
	for rate, want := range map[string]bool{"20k": true, "10k:30k": false, "10k+30k": false} {
		r := openRun()
		var err error
		if r.Spec.Rate, err = unit.ParseRate(rate); err != nil {
			t.Fatal(err)
		}
		r.Rate.Spread = record.Spread{WidthS: 1, Samples: 10, MinPerS: 10_000, P50PerS: 20_000, MaxPerS: 30_000, StdevPerS: 8_000}
		if got := strings.Contains(strings.Join(prose.Texts(Judge(r, nil).Caveats), "\n"), "unstable"); got != want {
			t.Errorf("%s: unstable %v, want %v", rate, got, want)
		}
	}
}

// TestDiskWaits: a file system elsewhere holds requests up as a disk does; a lock is
// none.
func TestDiskWaits(t *testing.T) {
	for reason, want := range map[string]bool{
		record.WaitSync: true, record.WaitDisk: true, record.WaitNetworkFile: true, record.WaitLock: false, record.WaitReceive: false,
	} {
		d := diskWaitsOf([]offWait{{StackWait: record.StackWait{Reason: reason, Threads: 0.9, Distinct: 4}}})
		if got := d.holdUp(1); got != want {
			t.Errorf("0.9 threads in %s hold one up: %v, want %v", reason, got, want)
		}
	}
}

// What was planted at each end and in each direction of the link is what is said of it:
// here the generator sends 25 MB/s to a server on another host and gets 100 MB/s back.
func TestUsesArePlanted(t *testing.T) {
	wire := func(bytes, packets float64) float64 { return 8 * (bytes + 24*packets) } // IEEE 802.3: preamble, checksum, gap
	for name, c := range map[string]struct {
		side               string
		toServer, toClient int64
	}{"generator's interface": {record.SideGenerator, 25e6, 100e6}, "server's interface": {record.SideServer, 25e6, 100e6}} {
		w := each(watched(1_000_000, 1.2), func(r *record.NetDevRow) {
			r.Iface, r.Side, r.SpeedMbit = "eth0", c.side, 1000
			r.TxBytes, r.RxBytes = c.toServer, c.toClient
			if c.side == record.SideServer {
				r.TxBytes, r.RxBytes = r.RxBytes, r.TxBytes
			}
		})
		w.run.Spec.PinServer = "0-1"
		got := map[string]record.Use{}
		for _, u := range w.judge().Uses {
			got[u.Station+" "+u.What] = u
		}
		for what, want := range map[string]record.Use{
			"generator thread":       {Used: .05, Of: 1},
			"server cores":           {Used: 1.2, Of: 2},
			"network to server link": {Used: wire(25e6, 9e3), Of: 1e9, Name: "eth0"},
			"network to client link": {Used: wire(100e6, 9e3), Of: 1e9, Name: "eth0"},
		} {
			u := got[what]
			if math.Abs(u.Used-want.Used) > 1e-6*want.Used || u.Of != want.Of || u.Name != want.Name {
				t.Errorf("%s, %s: %+v, want %+v", name, what, u, want)
			}
		}
	}
	w := watched(1_000_000, 1.2)
	w.series = &record.Series{}
	if uses := w.judge().Uses; len(uses) != 1 || uses[0].Station != record.PlaceGenerator {
		t.Errorf("without observers: %+v", uses)
	}
}

// TestSourcesThatSetThePace: for and against.
func TestSourcesThatSetThePace(t *testing.T) {
	for name, c := range map[string]struct {
		script  record.ComposeCost
		lagNs   float64
		want    record.Bottleneck
		because string
	}{
		"its thread always runs":       {record.ComposeCost{Requests: 1e6, CPUNs: 99e8, Busy: .99, WaitedShare: .9}, 1000, record.LoadGenerator, "source.slow"},
		"requests wait for its answer": {record.ComposeCost{Requests: 1e6, CPUNs: 2e9, Busy: .2, WaitedShare: .8}, 400_000, record.LoadGenerator, "source.slow"},
		"its delays are the time":      {record.ComposeCost{Requests: 1e6, CPUNs: 2e9, Busy: .2, DelayedNs: 600e9}, 0, record.Concurrency, "source.delays"},
		"it is ahead":                  {record.ComposeCost{Requests: 1e6, CPUNs: 60e8, Busy: .6, WaitedShare: .05}, 1000, "", ""},
		"it is busy, and ahead":        {record.ComposeCost{Requests: 1e6, CPUNs: 97e8, Busy: .97, WaitedShare: .1}, 1000, "", ""},
	} {
		run := closedRun()
		run.Generator.Source, run.Latency.Lag.MeanNs = &c.script, c.lagNs
		f := newFacts(run, &record.Series{})
		got := ruleSource(f.base)
		matches := got.answer == matched
		if matches != (c.want != "") || matches && (got.bottleneck != c.want || got.because[0].Code != c.because) {
			t.Errorf("%s: %v %s %v", name, got.answer, got.bottleneck, got.because)
		}
	}
	for what, next := range map[string]string{spec.OriginScript: "source.next.script", spec.OriginData: "source.next.data", spec.OriginSession: "source.next.session"} {
		run := closedRun()
		run.Generator.Source = &record.ComposeCost{What: what, Requests: 1e6, CPUNs: 99e8, Busy: .99, WaitedShare: .9}
		if got := ruleSource(newFacts(run, &record.Series{}).base); got.next[0].Code != next {
			t.Errorf("%s: %v", what, got.next)
		}
	}
	run := closedRun()
	if got := ruleSource(newFacts(run, &record.Series{}).base); got.answer == matched || len(got.pro) > 0 {
		t.Errorf("without a script: %+v", got)
	}
	run.Requests.Completed, run.Generator.Source = 0, &record.ComposeCost{WaitedShare: 1}
	if got := ruleSource(newFacts(run, &record.Series{}).base); got.answer != matched || got.because[0].Code != "source.none" {
		t.Errorf("a script that returns nothing: %+v", got)
	}
}
