package journal

import (
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
		if err != nil || !strings.HasPrefix(a.text(), want) {
			t.Errorf("{{%s}}: %q, %v; want %s", reference, a.text(), err, want)
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
