package plan

import (
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// TestCheckLoad: what fails a load of a pipeline, and what only cannot tell.
func TestCheckLoad(t *testing.T) {
	slo, err := spec.ParseSLO("p99<5ms")
	if err != nil {
		t.Fatal(err)
	}
	runs := func(met, missed int) (list []record.Measured) {
		for i := range met + missed {
			term := record.SLOTerm{Term: slo[0].String(), Value: 4e6, Met: i < met}
			list = append(list, record.Measured{Run: "x", Step: record.Step{Side: "B"}, Outcome: record.Pass, SLO: []record.SLOTerm{term}})
		}
		// Neither the base nor a discarded run counts.
		bad := record.SLOTerm{Term: slo[0].String(), Value: 9e9}
		return append(list, record.Measured{Run: "x", Step: record.Step{Side: "A"}, SLO: []record.SLOTerm{bad}},
			record.Measured{Run: "x", Step: record.Step{Side: "B", WarmupRun: true}, SLO: []record.SLOTerm{bad}},
			record.Measured{Run: "x", Step: record.Step{Side: "B"}, Outcome: record.Invalid, SLO: []record.SLOTerm{bad}})
	}
	gate := func(result string) *record.Comparison {
		return &record.Comparison{Gate: []record.GateResult{{Condition: "rps<-5%", Result: result}}}
	}
	ended := func(label string) record.Statement {
		return record.State("plan.failed", record.Values{"run": 3, "error": label + ": it ended: exit status 1", "onward": record.Statement{}})
	}
	for name, c := range map[string]struct {
		plan   record.Plan
		noBase string
		want   string
	}{
		"passed":                  {record.Plan{Ending: record.Ending{Comparison: gate(GatePassed)}}, "", GatePassed},
		"failed":                  {record.Plan{Ending: record.Ending{Comparison: gate(GateFailed)}}, "", GateFailed},
		"inconclusive":            {record.Plan{Ending: record.Ending{Comparison: gate(GateInconclusive)}}, "", GateInconclusive},
		"no base":                 {record.Plan{}, "it does not build", GateInconclusive},
		"the change dies":         {record.Plan{Ending: record.Ending{Ended: record.EndedFailed, Because: ended("change")}}, "", GateFailed},
		"the base dies":           {record.Plan{Ending: record.Ending{Ended: record.EndedFailed, Because: ended("base")}}, "", GateInconclusive},
		"too short":               {record.Plan{Ending: record.Ending{Ended: record.EndedEarly, Comparison: gate(GatePassed)}}, "", GateInconclusive},
		"interrupted":             {record.Plan{Ending: record.Ending{Ended: record.EndedInterrupted}}, "", GateInconclusive},
		"3 of 4 meet the SLO":     {record.Plan{Experiment: spec.Experiment{SLO: slo}, Runs: runs(3, 1)}, "", GatePassed},
		"2 of 3 meet it":          {record.Plan{Experiment: spec.Experiment{SLO: slo}, Runs: runs(2, 1)}, "", GateInconclusive},
		"1 of 3 meets it":         {record.Plan{Experiment: spec.Experiment{SLO: slo}, Runs: runs(1, 2)}, "", GateFailed},
		"no run says":             {record.Plan{Experiment: spec.Experiment{SLO: slo}}, "", GateInconclusive},
		"no base, and SLO missed": {record.Plan{Experiment: spec.Experiment{SLO: slo}, Runs: runs(0, 3)}, "gone", GateFailed},
	} {
		if got := CheckLoad("x", &c.plan, "change", c.noBase); got.Result != c.want {
			t.Errorf("%s: %s, want %s: %+v", name, got.Result, c.want, got.Checks)
		}
	}
	for result, want := range map[string]int{GatePassed: 0, GateFailed: 3, GateInconclusive: 4} {
		if got := ExitOf(result); got != want {
			t.Errorf("%s: exit %d", result, got)
		}
	}
	if got := Unchecked("x", "builds", "no compiler"); got.Result != GateFailed || len(got.Checks) != 1 {
		t.Errorf("%+v", got)
	}
}
