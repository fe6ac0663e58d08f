//go:build linux

package export

import (
	"bytes"
	"encoding/csv"
	"regexp"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// factorialPlan has two runs and an effect; one was not measured.
func factorialPlan() *record.Plan {
	e := spec.Experiment{Kind: spec.KindFactorial, Servers: []spec.Server{{Name: "=own"}}, Requests: []spec.Mix{{Name: "all"}}}
	e.Factorial.Factors = []spec.Factor{{Name: "burn", Levels: []spec.Level{{Name: "light"}, {Env: []string{"API_KEY=hunter2"}}}}}
	run := record.Measured{Step: record.Step{Number: 1, Cell: []int{1}, Condition: spec.Condition{Connections: 4}}, Run: "a",
		CompletedPerS: 12.5, Completed: 25, Response: record.Quantiles{Count: 25, P99Ns: 7}}
	bad := record.Measured{Step: record.Step{Number: 2, Cell: []int{9}}, Outcome: record.Invalid}
	return &record.Plan{ID: "p", Experiment: e, Runs: []record.Measured{run, bad}, Ending: record.Ending{Factorial: &record.Factorial{
		Factors: []record.FactorLevels{{Name: "burn", Levels: []string{"light", "heavy"}}},
		Effects: []record.Effect{{Metric: "rps", Factor: "burn", Level: 1, Blocks: 9, Relative: record.Estimate{Mid: -.5, Low: -.75, High: -.25},
			Decision: record.Lower}, {Metric: "p99", Factor: "burn", Level: 1, Decision: record.CannotTell}},
	}}}
}

func planTable(t *testing.T, p *record.Plan, table string) (head map[string]int, rows [][]string) {
	t.Helper()
	var out bytes.Buffer
	if err := PlanCSV(&out, p, table); err != nil {
		t.Fatal(err)
	}
	all, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	head = map[string]int{}
	for i, name := range all[0] {
		head[name] = i
	}
	return head, all[1:]
}

func TestPlanCSV(t *testing.T) {
	head, rows := planTable(t, factorialPlan(), TableRuns)
	check := func(row int, column, want string) {
		t.Helper()
		at, there := head[column]
		if !there || row >= len(rows) || rows[row][at] != want {
			t.Errorf("row %d: %s is not %q in %v", row, column, want, rows)
		}
	}
	check(0, "completed_per_s", "12.5")
	check(0, "p99_ns", "7")
	check(0, "server", "'=own") // no formula
	check(0, "server_cpu_ns", "")
	check(1, "burn", "")
	check(1, "p99_ns", "")
	check(1, "outcome", "invalid")
	if text := strings.Join(rows[0], ","); strings.Contains(text, "hunter2") || !strings.Contains(text, "API_KEY") {
		t.Errorf("a secret: %s", text)
	}
	head, rows = planTable(t, factorialPlan(), TableEffects)
	check(0, "ratio", "0.5")
	check(0, "low", "0.25")
	check(0, "against", "light")
	check(1, "ratio", "")
	check(1, "decision", "inconclusive")
	if err := PlanCSV(&bytes.Buffer{}, factorialPlan(), "cpu"); err == nil || !strings.Contains(err.Error(), "runs, effects") {
		t.Errorf("%v", err)
	}
}

// No figure has an exponent: a spreadsheet takes 1.5e+06 for text, or for another number.
func TestPlanCSVHasNoExponents(t *testing.T) {
	p := factorialPlan()
	m := &p.Runs[0]
	m.CompletedPerS, m.BadShare, m.OtherCores, m.ReadBytesPerS = 1_266_289_000, 0.0000001, 1e-9, 2.5e9
	m.Response = record.Quantiles{Count: 1, P50Ns: 1, MeanNs: 1.5e7, StdevNs: 1.25e6, WithinStdev: 1e-6}
	_, rows := planTable(t, p, TableRuns)
	exponent := regexp.MustCompile(`^[0-9.]+e[+-][0-9]+$`)
	for i, cell := range rows[0] {
		if exponent.MatchString(cell) {
			t.Errorf("column %d is %s", i, cell)
		}
	}
}

// Help texts speak of what a run counts.
func TestInUnit(t *testing.T) {
	for counts, want := range map[string]string{
		"": "Requests sent, of requests asked", "requests": "Requests sent, of requests asked", "messages": "Messages sent, of messages asked",
	} {
		if got := inUnit("Requests sent, of requests asked", counts); got != want {
			t.Errorf("%q: %s", counts, got)
		}
	}
}
