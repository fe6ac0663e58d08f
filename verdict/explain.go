package verdict

import (
	"slices"

	"ceiling/record"
)

// Answers of a Step.
const (
	StepYes     = "yes"
	StepNo      = "no"
	StepUnknown = "unknown" // a measurement is missing
)

// A Step is one question on the way to a verdict.
type Step struct {
	Rule   string `json:"rule"`
	Asks   string `json:"asks"`
	Answer string `json:"answer"`
	// Why is the sentence of a yes, what is missing for an unknown, and for a no how near the
	// resource came, or what was seen of it.
	Why []record.Statement `json:"why,omitempty"`
	// Decides marks the step that the verdict follows. If there is none, the run is valid and its
	// bottleneck inconclusive.
	Decides bool `json:"decides,omitempty"`
}

// A Decision is the complete path to a verdict: whether the run is valid and, if so, what limits
// it. Each list is in the order in which its questions are asked; the first yes decides.
type Decision struct {
	Validity   []Step `json:"validity"`
	Bottleneck []Step `json:"bottleneck"`
}

// Explain answers every question, including those after the deciding one, and returns the verdict
// with them. It modifies neither run nor series.
func Explain(run *record.Run, series *record.Series) (Decision, record.Verdict) {
	f := newFacts(run, series)
	r := arbitrate(f)
	slo := checkSLO(f.base)
	var d Decision
	valid := true
	for _, c := range validity() {
		step := Step{Rule: c.name, Asks: c.asks, Answer: StepNo}
		if why := c.find(f, slo, &r.found); why != nil {
			step.Answer, step.Why, step.Decides = StepYes, why.because, valid
			valid = false
		}
		d.Validity = append(d.Validity, step)
	}
	for i, rule := range rules() {
		step := Step{Rule: rule.name, Asks: rule.asks}
		found := &r.all[i]
		switch found.answer {
		case matched:
			step.Answer, step.Why = StepYes, found.because
		case unknown:
			step.Answer, step.Why = StepUnknown, found.missing
		default:
			step.Answer, step.Why = StepNo, whyNot(found)
		}
		step.Decides = valid && i == r.at
		d.Bottleneck = append(d.Bottleneck, step)
	}
	return d, judge(f, r)
}

// whyNot returns what a rule saw of a resource that is not the bottleneck.
func whyNot(f *finding) []record.Statement {
	var list []record.Statement
	if f.times >= 1 && f.times <= timesMost {
		list = just("rule.full-at", with{"times": f.times, "nearly": f.nearly})
	}
	for _, e := range slices.Concat(f.against, f.pro) {
		list = append(list, e.Says)
	}
	return list[:min(len(list), 2)]
}
