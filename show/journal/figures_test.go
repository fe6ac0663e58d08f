package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// factorialEntry has an experiment of two factors: gzip doubles the rate where the link is full, and adds a fifth
// where it is not.
func factorialEntry() *Entry {
	p := samplePlan(sweepID, "sweep")
	p.Runs = nil
	add := func(block int, outcome record.Outcome, p50 int64, levels ...int) {
		p.Runs = append(p.Runs, record.Measured{Run: "r", CompletedPerS: 100,
			Step:    record.Step{Cell: levels, Block: block, Condition: spec.Condition{Connections: 64}, WarmupRun: block == 0},
			Outcome: outcome, Response: record.Quantiles{Count: 9, P50Ns: p50}, GeneratorCPUNs: 700})
	}
	add(0, record.Valid, 9e9, 1, 0)
	add(1, record.Valid, 2e6, 1, 0)
	add(2, record.Invalid, 9e9, 1, 0)
	add(3, record.Valid, 4e6, 1, 0)
	p.Factorial = &record.Factorial{
		Factors: []record.FactorLevels{{Name: "body", Levels: []string{"plain", "gzip"}}, {Name: "link", Levels: []string{"400 Mbit/s", "no limit"}}},
		Cells: []record.FactorialCell{{Levels: []int{0, 0}, PerS: estimate(10_000, 9_900, 10_100), P99Ns: estimate(8e6, 7e6, 9e6)},
			{Levels: []int{1, 0}, PerS: estimate(20_000, 19_000, 21_000), ServerCPUNs: estimate(9000, 8900, 9100), Bottleneck: "network link"}},
		Effects: []record.Effect{
			{Metric: "rps", Factor: "body", Level: 1, Relative: estimate(.6, .5, .7)},
			{Metric: "p99", Factor: "body", Level: 1, Relative: estimate(-.3, -.4, -.2)},
			{Metric: "rps", Factor: "body", Level: 1, With: "link", WithLevel: 1, Relative: estimate(-.4, -.5, -.3),
				Given: []record.Estimate{estimate(1, .9, 1.1), estimate(.2, .1, .3)}}},
	}
	return &Entry{Records: []*Record{{Name: "gzip", ID: p.ID, Plan: p}, {Name: "later"}}}
}

func TestFactorialFigures(t *testing.T) {
	e := factorialEntry()
	for reference, want := range map[string]string{
		`(cell "gzip" "gzip" "400 Mbit/s").Rate`:                     "20,000 req/s (",
		`(cell "gzip" "body=gzip" "link=400 Mbit/s").Rate`:           "20,000 req/s (",
		`(cell "gzip" "gzip").ServerCPU`:                             "9.00 µs (8.90–9.10 µs)",
		`(cell "gzip" "plain").P99`:                                  "8.00 ms (7.00–9.00 ms)",
		`(cell "gzip" "gzip").P50`:                                   "3.00 ms",
		`(cell "gzip" "gzip").GeneratorCPU`:                          "700 ns",
		`(cell "gzip" "gzip").Bottleneck`:                            "network link",
		`(effect "gzip" "body" "gzip").Rate`:                         "+60.0% (+50.0% to +70.0%)",
		`(effect "gzip" "body" "gzip").P99`:                          "−30.0% (−40.0% to −20.0%)",
		`(effect "gzip" "body" "gzip" "link" "no limit").Rate`:       "+20.0% (+10.0% to +30.0%)",
		`(effect "gzip" "body" "gzip" "link" "400 Mbit/s").Rate`:     "+100.0% (+90.0% to +110.0%)",
		`(effect "later" "body" "gzip").Rate`:                        "not measured yet",
		`(cell "later" "gzip").P50`:                                  "not measured yet",
		`times (cell "gzip" "plain").Rate (cell "gzip" "gzip").Rate`: "2.00 times",
	} {
		a, err := e.answer(reference)
		if err != nil || !strings.HasPrefix(a.full(), want) {
			t.Errorf("{{%s}}: %q, %v; want %s", reference, a.full(), err, want)
		}
	}
	for reference, want := range map[string]string{
		`(cell "gzip" "400 Mbit/s").Rate`:                  "2 cells of gzip have these levels",
		`(cell "gzip" "brotli").Rate`:                      "body (plain, gzip), link (400 Mbit/s, no limit)",
		`(cell "gzip" "plain").ServerCPU`:                  "was not measured",
		`(effect "gzip" "body" "brotli").Rate`:             "no effect of body at level brotli",
		`(effect "gzip" "body" "gzip").ServerCPU`:          "was not measured",
		`(effect "gzip" "body" "gzip" "link").Rate`:        "a second factor and the level",
		`(effect "gzip" "body" "gzip" "link" "slow").Rate`: "no effect of body",
	} {
		if _, err := e.answer(reference); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("{{%s}}: %v, want %s", reference, err, want)
		}
	}
}

const wrkOutput = `Running 10s test @ http://10.0.0.2:8080/read
  2 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.02ms  300.00us   9.00ms   80.00%
    Req/Sec    31.00k     1.00k   33.00k    70.00%
  Latency Distribution
     50%    0.98ms
     75%    1.10ms
     90%    1.40ms
     99%    2.10ms
  620000 requests in 10.00s, 2.70GB read
Requests/sec:  62000.00
Transfer/sec:    276.00MB
`

// Figures of another tool are marked with it, wherever they stand.
func TestReportedFigures(t *testing.T) {
	dir := t.TempDir()
	entry := filepath.Join(dir, "0001-other")
	check(t, os.MkdirAll(filepath.Join(entry, recordsDir), 0o755))
	for name, text := range map[string]string{entryFile: "", "records/wrk.txt": wrkOutput, "records/note.txt": "no tool wrote this"} {
		check(t, os.WriteFile(filepath.Join(entry, name), []byte(text), 0o644))
	}
	e := &Entry{Dir: entry, Name: "0001-other"}
	for inside, want := range map[string]string{
		`(reported "records/wrk.txt").Rate`: "62,000 req/s (reported by wrk)", `(reported "records/wrk.txt").P99`: "2.10 ms (reported by wrk)",
		`times (reported "records/wrk.txt").P50 (reported "records/wrk.txt").P99`: "2.14",
	} {
		a, err := e.answer(inside)
		if err != nil || !strings.Contains(a.full(), want) {
			t.Errorf("%s: %q, %v; want %q", inside, a.full(), err, want)
		}
	}
	for inside, want := range map[string]string{
		`(reported "records/wrk.txt").P999`: "wrk does not report it", `(reported "records/none.txt").Rate`: "no such file",
		`(reported "../../wrk.txt").Rate`: "not in the entry's folder", `(reported "records/note.txt").Rate`: "records/note.txt",
		`(reported "records/wrk.txt").Speed`: "unknown .Speed", `(reported "records/wrk.txt")`: "has figures",
	} {
		if _, err := e.answer(inside); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", inside, err, want)
		}
	}
}
