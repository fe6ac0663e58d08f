package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/archive"
	"ceiling/internal/hist"
	"ceiling/record"
	"ceiling/record/recordtest"
)

// IDs of the records that the journal of testdata refers to.
const (
	runID        = "20261121-093012-x7f2"
	otherID      = "20261121-093112-k3mc"
	sweepID      = "20261121-100000-swee"
	searchID     = "20261121-110000-find"
	proofID      = "20261121-120000-prov"
	comparisonID = "20261121-130000-comp"
)

func at(id string) time.Time {
	t, err := time.Parse("20060102-150405", id[:15])
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

// sampleEnvironment is a made-up host.
func sampleEnvironment() record.Environment {
	return record.Environment{Host: "load1", Kernel: "6.18.4", Arch: "amd64", Version: "0.9.0", Go: "go1.26.8", CPUModel: "Example CPU",
		CoresOnline: 2, CoresAllowed: 2, MemoryBytes: 16e9}
}

// sampleRun is a made-up run of ten seconds, times as fast as the first.
func sampleRun(id string, times float64) (*record.Run, *hist.Hist) {
	h := new(hist.Hist)
	for i := range int64(1000) {
		h.Record(int64(float64(300_000+i*1000) / times))
	}
	done := uint64(123_450 * times)
	return &record.Run{
		Schema: record.Schema, ID: id, Started: at(id), Command: []string{"ceiling", "run", "http://127.0.0.1:8080/read"},
		Target: "http://127.0.0.1:8080/read",
		Spec: spec.Spec{Targets: []spec.Target{{Method: "GET", URL: "http://127.0.0.1:8080/read", Weight: 1}}, Condition: spec.Condition{Connections: 64, Pipelining: 1},
			Seed:     7,
			Duration: 10 * time.Second, Warmup: time.Second, Timeout: 2 * time.Second, Settings: spec.Settings{Engine: "auto"}},
		Load:    record.Load{Connections: 64, Threads: 1, Pipelining: 1, Opened: 64, Established: 64, Mode: "closed", Engine: "uring"},
		WarmupS: 1, ElapsedS: 10, Requests: record.Requests{Sent: done + 64, InFlightAtStart: 64, Completed: done, InFlight: 64},
		Rate:     record.Rate{CompletedPerS: float64(done) / 10, SentPerS: float64(done) / 10},
		Bytes:    record.Bytes{Read: done * 4500, Written: done * 60},
		Statuses: map[string]uint64{"200": done - 12, "503": 12}, Errors: []record.Error{{Phase: "status", Cause: "503", Count: 12}},
		Latency: record.Latency{Response: record.QuantilesOf(h), Service: record.QuantilesOf(h), Lag: record.QuantilesOf(h)},
		Generator: record.Generator{CPUNsPerRequest: 4800, BusiestWorker: .41, RunDelay: -1, Headroom: 2.4,
			Workers: []record.Worker{{Thread: 78, Connections: 64, Completed: done, Busy: .41, RunDelay: -1}}},
		Subject: &record.Subject{Host: "load1", Address: "127.0.0.1:8080", CPUNsPerRequest: 9800,
			Processes: []record.SubjectProcess{{PID: 390, Comm: "shop", Exe: "/srv/shop", CPUNs: 12e9}}},
		Verdict: record.Verdict{Outcome: record.Valid, Bottleneck: "server CPU", Because: recordtest.Says("server CPU: shop used 1.20 of the server's 2 cores"),
			Evidence: []record.Evidence{}, Caveats: recordtest.Says("it was short"),
			Next: recordtest.Says("give it more cores"), Stations: []record.Station{{Name: "server", Share: .75, Low: .7, High: .8},
				{Name: "generator", Share: .25, Low: .2, High: .3}}},
		Environment: sampleEnvironment(), NotMeasured: []record.NotMeasured{{What: "psi", Why: "this kernel keeps no /proc/pressure"}},
	}, h
}

// keepRun writes a run into a file, with a series.
func keepRun(t *testing.T, file string, r *record.Run, h *hist.Hist) {
	t.Helper()
	w, err := record.Create(file, r.ID)
	check(t, err)
	writeRun(t, w, r, h)
}

func writeRun(t *testing.T, w *record.Writer, r *record.Run, h *hist.Hist) {
	t.Helper()
	check(t, w.Start(record.Start{Created: r.Started, Command: r.Command, Spec: r.Spec, Environment: &r.Environment}))
	for i := range int64(20) {
		w.AppendLoad(&record.LoadRow{Host: "load1", TNs: (i + 1) * 5e8, WidthNs: 5e8, Sent: 6000, Completed: 6000, InFlight: 64, Connected: 64,
			P50Ns: 5e5, P90Ns: 8e5, P99Ns: 1e6, MaxNs: 2e6, MinNs: 1e5, Busy: .4})
	}
	text, err := h.EncodeV2()
	check(t, err)
	for _, name := range []string{"response", "service", "lag"} {
		check(t, w.Histogram(name, text))
	}
	check(t, w.Finish(r))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func estimate(mid, low, high float64) record.Estimate {
	return record.Estimate{Mid: mid, Low: low, High: high, Confidence: .95}
}

// samplePlan is a made-up plan of a kind, without its answer.
func samplePlan(id, kind string) *record.Plan {
	e := spec.Experiment{Kind: kind, Question: "What does " + kind + " say?",
		Servers: []spec.Server{{Name: "fast", URL: "http://127.0.0.1:8080"}}, Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/read"}}},
		Load: spec.Load{Duration: spec.Time(3 * time.Second)}}
	if kind != spec.KindFind {
		e.Load.Connections = []spec.Count{64}
	}
	if kind == spec.KindFind {
		slo, err := spec.ParseSLO("p99<5ms")
		if err != nil {
			panic(err)
		}
		e.SLO = slo
	}
	if kind == spec.KindSweep || kind == spec.KindCompare {
		e.Servers = append(e.Servers, spec.Server{Name: "slow", URL: "http://127.0.0.1:8081"})
	}
	if kind == spec.KindSweep {
		e.Load.Connections = []spec.Count{16, 64, 256}
	}
	e.Complete(7)
	_, h := sampleRun(runID, 1)
	p := &record.Plan{Schema: record.PlanSchema, ID: id, Created: at(id), Command: []string{"ceiling", "run", "x.yaml"}, Experiment: e,
		Environment: sampleEnvironment(),
		Ending:      record.Ending{Ended: record.EndedComplete, Because: recordtest.Say("all 2 runs have been made"), TookS: 61}}
	for n := range 2 {
		p.Runs = append(p.Runs, record.Measured{
			Step: record.Step{Number: n + 1, Condition: spec.Condition{Connections: 64, Pipelining: 1}, Repeat: n + 1},
			Run:  fmt.Sprintf("%s-run%d", id[:15], n+1), Started: at(id), TookS: 4, ElapsedS: 3,
			CompletedPerS: 12_345, Completed: 37_035, Response: record.QuantilesOf(h), Service: record.QuantilesOf(h),
			ServerCPUNs: 9800, GeneratorCPUNs: 4800,
			Outcome: record.Valid, Bottleneck: "CPU contention", Because: recordtest.Says("CPU contention")})
	}
	return p
}

// samplePlans is one of every kind, with answers.
func samplePlans() map[string]*record.Plan {
	_, h := sampleRun(runID, 1)
	q := record.QuantilesOf(h)
	curve := func(server string, times float64) record.Curve {
		c := record.Curve{Server: server, Mix: "/read", Over: "connections", Bottleneck: "CPU contention",
			Says:    recordtest.Say(server + " stops growing between 64 and 256 connections"),
			Knee:    &record.Knee{Low: 64, High: 256, PerS: 20_000 * times},
			Caveats: recordtest.Says("few runs"),
			USL: &record.USL{Lambda: estimate(700*times, 650*times, 750*times), Sigma: estimate(.02, .01, .03), Kappa: estimate(.0001, 0, .0002),
				R2: .99, Trusted: true}}
		for i, x := range []float64{16, 64, 256} {
			per := []float64{9_000, 19_000, 20_000}[i] * times
			c.Points = append(c.Points, record.CurvePoint{X: x, Condition: spec.Condition{Connections: int(x), Pipelining: 1}, Runs: 3,
				PerS:     estimate(per, .9*per, 1.1*per),
				Response: q, ServerCPUNs: estimate(9800, 9000, 10_000),
				GeneratorCPUNs: record.Estimate{}, Outcome: record.Valid, Bottleneck: "CPU contention", PerRun: []float64{per, per}, RunIDs: []string{}})
		}
		return c
	}
	sweep, search := samplePlan(sweepID, spec.KindSweep), samplePlan(searchID, spec.KindFind)
	proof, comparison := samplePlan(proofID, spec.KindProve), samplePlan(comparisonID, spec.KindCompare)
	sweep.Sweep = &record.Sweep{Curves: []record.Curve{curve("fast", 2), curve("slow", 1)}}
	for i := range search.Runs {
		search.Runs[i].TargetPerS = float64(10_000 * (i + 1))
		search.Runs[i].Outcome = []record.Outcome{record.Pass, record.Fail}[i]
	}
	search.Search = &record.Search{SLO: "p99<5ms", Capacity: estimate(15_000, 14_000, 16_000), Limit: record.LimitServer, Bottleneck: "server CPU",
		Says:   recordtest.Say("15,000 req/s hold p99<5ms"),
		Failed: []record.SLOTerm{{Term: "p99<5ms", Value: 7e6}},
		Rates: []record.TriedRate{{PerS: 10_000, Runs: 2, Pass: 2, Response: q, Bottleneck: "target rate reached"},
			{PerS: 20_000, Runs: 2, Fail: 2, Response: q, Bottleneck: "server CPU"},
			{PerS: 40_000, Runs: 1, Invalid: 1, Response: q, Bottleneck: "generator"}}}
	proof.Proof = &record.Proof{PerS: estimate(20_000, 19_000, 21_000), Sum: estimate(1.02, .9, 1.1), Proved: "server CPU",
		Passive: "server CPU", Agrees: "agrees", Says: recordtest.Say("the server's CPU is the ceiling"),
		Resources: []record.Elasticity{{Resource: "generator", How: "a hog", Left: .75, PerS: estimate(19_800, 19_000, 20_500),
			Elasticity: estimate(.04, -.02, .1), Blocks: 8},
			{Resource: "server CPU", How: "a hog", Left: .76, PerS: estimate(15_200, 15_000, 15_500), Elasticity: estimate(.98, .9, 1.06),
				Blocks: 8}},
		NotTested: []record.NotTested{{Resource: "link", Why: recordtest.Say("no interface was named")}}}
	comparison.Comparison = &record.Comparison{A: "fast", B: "slow", Blocks: 8, NoiseBlocks: 4, Says: recordtest.Say("slower by 20%"),
		Differences: []record.Difference{{What: "server command", A: "./fast", B: "./slow", Weight: "explains"}},
		Changes: []record.Change{{Metric: "rps", Unit: "/s", A: 20_000, B: 16_000, Relative: estimate(-.2, -.22, -.18), Floor: .02,
			Decision: record.Worse, Says: recordtest.Say("requests per second: worse"), PerBlock: []float64{-.22}},
			{Metric: "p99", Unit: "ns", A: 1e6, B: 1.01e6, Relative: estimate(.01, -.02, .04), Floor: .03, Within: .05, Decision: record.NoChange,
				Says: recordtest.Say("p99: no change"), PerBlock: []float64{.01}}},
		Gate: []record.GateResult{{Condition: "rps<-5%", Result: "failed", Says: recordtest.Say("it is -20%")}}}
	return map[string]*record.Plan{sweepID: sweep, searchID: search, proofID: proof, comparisonID: comparison}
}

// keepPlan writes a plan, with the records of its runs where they shall be there.
func keepPlan(t *testing.T, file string, p *record.Plan, runs bool) {
	t.Helper()
	w, err := record.CreatePlan(file, p)
	check(t, err)
	for i := range p.Runs {
		if runs {
			r, h := sampleRun(p.Runs[i].Run, 1)
			run, err := w.Create(r.ID)
			check(t, err)
			writeRun(t, run, r, h)
		}
		check(t, w.Append(&p.Runs[i]))
	}
	if p.Ended != "" {
		check(t, w.Finish(p))
	} else {
		check(t, w.Close())
	}
}

// fileOf is the file of a record in a directory.
func fileOf(dir, id string) string { return filepath.Join(dir, id+".ndjson") }

// rewrite changes the lines of a record that is not compressed.
func rewrite(t *testing.T, file string, change func(kind string, line []byte) []byte) {
	t.Helper()
	var out []byte
	for line := range bytes.Lines([]byte(mustRead(t, file))) {
		var head struct{ Kind string }
		check(t, json.Unmarshal(line, &head))
		if line = change(head.Kind, bytes.TrimSpace(line)); line != nil {
			out = append(append(out, line...), '\n')
		}
	}
	check(t, os.WriteFile(file, out, 0o644))
}

// sampleJournal is a copy of the journal of testdata with its records.
func sampleJournal(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "journal")
	archive.Extract(t, "testdata/journal.txtar", dir)
	records := filepath.Join(dir, "0001-base", recordsDir)
	check(t, os.MkdirAll(records, 0o755))
	for id, times := range map[string]float64{runID: 1, otherID: 2} {
		r, h := sampleRun(id, times)
		keepRun(t, fileOf(records, id), r, h)
	}
	records = filepath.Join(dir, "0002-plans", recordsDir)
	check(t, os.MkdirAll(records, 0o755))
	for id, p := range samplePlans() {
		keepPlan(t, fileOf(records, id), p, id == sweepID)
	}
	return dir
}

// noStore is a store with nothing in it.
func noStore(t *testing.T) record.Store { return record.Store{Dir: filepath.Join(t.TempDir(), "none")} }

// build reads and builds a journal that has to be right.
func build(t *testing.T, dir string) *Site {
	t.Helper()
	j, err := Read(dir, noStore(t))
	check(t, err)
	s, err := Build(j)
	check(t, err)
	return s
}
