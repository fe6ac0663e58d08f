package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// Condition is one term of --fail-on: B fails when the metric's change against
// A, a share, lies beyond the limit.
type Condition struct {
	// Metric as record.Change names it.
	Metric string
	// Below: it fails below the limit, which is not above 0; else above it.
	Below bool
	// Limit of B/A - 1: -0.05.
	Limit float64
	text  string
}

// String is the condition as it was written, without blanks.
func (c Condition) String() string { return c.text }

// Results of a gate, in record.GateResult.
const (
	GatePassed       = "passed"
	GateFailed       = "failed"
	GateInconclusive = "inconclusive"
)

// Exit codes of a comparison, as docs/record.md lists them for a run.
const (
	exitBroke = 3
	exitVoid  = 4
)

const gateExample = "write rps<-5%,p99>+10%"

// CheckGate refuses conditions that an experiment cannot answer.
func CheckGate(e *spec.Experiment) error {
	conditions, err := ParseGate(e.Compare.FailOn)
	if err != nil {
		return err
	}
	for _, c := range conditions {
		if c.Metric == metricRPS && len(e.Load.Rate) > 0 {
			return fmt.Errorf("fail on %s: -R fixes the rate, so it is the same on both sides; use p99 or cpu, or drop -R", c)
		}
	}
	return nil
}

// ParseGate reads conditions between commas: rps<-5%, p99>+10%, p50>+10%,
// cpu>+5% (or server_cpu). Each names the loss that fails: the sign has to be
// there, so that 5% is not taken for what it is not. No text is no condition.
func ParseGate(text string) ([]Condition, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var list []Condition
	for part := range strings.SplitSeq(text, ",") {
		c, err := parseCondition(strings.Join(strings.Fields(part), ""))
		if err != nil {
			return nil, fmt.Errorf("fail on %.60q: %w", strings.TrimSpace(part), err)
		}
		for _, other := range list {
			if other.Metric == c.Metric {
				return nil, fmt.Errorf("fail on: both %s and %s are given; leave one of them out", other, c)
			}
		}
		list = append(list, c)
	}
	return list, nil
}

func parseCondition(text string) (Condition, error) {
	at := strings.IndexAny(text, "<>=≤≥")
	if at < 0 {
		return Condition{}, errors.New("no < or > in it; " + gateExample)
	}
	name, limit := strings.ToLower(text[:at]), text[at+1:]
	m, ok := gateMetric(name)
	if !ok {
		return Condition{}, fmt.Errorf("%.40q is not compared; there are rps, p50, p99 and cpu", name)
	}
	c := Condition{Metric: m.name, Below: text[at] == '<', text: text}
	if text[at] != '<' && text[at] != '>' || strings.HasPrefix(limit, "=") {
		return c, errors.New("only < and > compare; " + gateExample)
	}
	sign, op := "+", ">"
	if m.more {
		sign, op = "-", "<"
	}
	if c.Below != m.more {
		return c, fmt.Errorf("that fails a gain; a loss is %s%s%s5%%", name, op, sign)
	}
	number, percent := strings.CutSuffix(limit, "%")
	number = strings.Replace(number, "−", "-", 1)
	if !percent {
		return c, fmt.Errorf("the limit is in per cent of A; write %s%s%s5%%", name, op, sign)
	}
	digits, signed := strings.CutPrefix(number, sign)
	if !signed {
		return c, fmt.Errorf("the limit of a loss begins with %s; write %s%s%s5%%", sign, name, op, sign)
	}
	if strings.Trim(digits, "0123456789.") != "" {
		return c, fmt.Errorf("%.40q is not a number; %s", digits, gateExample)
	}
	value, err := strconv.ParseFloat(digits, 64)
	switch {
	case err != nil:
		return c, fmt.Errorf("%.40q is not a number; %s", digits, gateExample)
	case c.Below && value >= 100:
		return c, errors.New("nothing loses 100% and more; " + gateExample)
	case value > 10000:
		return c, errors.New("a hundred times as much is no limit; " + gateExample)
	}
	c.Limit = value / 100
	if c.Below {
		c.Limit = -c.Limit
	}
	return c, nil
}

func gateMetric(name string) (compareMetric, bool) {
	if name == "cpu" {
		name = metricCPU
	}
	for _, m := range allMetrics() {
		if m.name == name {
			return m, true
		}
	}
	return compareMetric{}, false
}

// closeGate answers the conditions of a plan and sets its exit code.
func closeGate(p *record.Plan, s *compareSides) {
	c := p.Comparison
	conditions, err := ParseGate(p.Experiment.Compare.FailOn)
	if err != nil { // CheckGate has refused it before the start; a file may have been edited since
		c.Caveats = append(c.Caveats, say("gate.unreadable", with{"error": err.Error()}))
		p.Exit = exitVoid
		return
	}
	p.Exit = Gate(c, conditions)
	if len(conditions) > 0 && onlyBFails(s) {
		for i := range c.Gate {
			c.Gate[i].Result = GateFailed
		}
		p.Exit = exitBroke
	}
}

// onlyBFails tells a B that does not do its work beside an A that does.
func onlyBFails(s *compareSides) bool {
	return mostlyErrors(&compareSides{a: s.a}) == nil && mostlyErrors(&compareSides{b: s.b}) != nil && len(s.a) > 0
}

// Gate answers the conditions and the exit code: 0, 3 where one failed, 4 where
// one could not be decided or the two cannot be compared at all.
func Gate(c *record.Comparison, conditions []Condition) (exit int) {
	if c.Incomparable != nil {
		exit = exitVoid
	}
	for _, condition := range conditions {
		result := condition.judge(c)
		c.Gate = append(c.Gate, result)
		switch {
		case result.Result == GateFailed:
			exit = exitBroke
		case result.Result == GateInconclusive && exit == 0:
			exit = exitVoid
		}
	}
	return exit
}

// judge holds a condition against the whole interval of its metric.
func (c Condition) judge(of *record.Comparison) record.GateResult {
	out := record.GateResult{Condition: c.text, Result: GateInconclusive}
	for i := range of.Changes {
		if of.Changes[i].Metric == c.Metric {
			out.Result, out.Says = c.hold(&of.Changes[i])
			return out
		}
	}
	out.Says = say("gate.not-compared", with{"metric": c.Metric})
	if of.Incomparable != nil {
		out.Says = say("gate.incomparable", with{"why": of.Incomparable})
	}
	return out
}

// hold asks where the whole interval lies. A loss fails only where it was
// decided to be one: what A against A shows as well is none.
func (c Condition) hold(ch *record.Change) (result string, says record.Statement) {
	r := &ch.Relative
	if ch.Decision == record.CannotTell && r.Confidence <= 0 {
		return GateInconclusive, ch.Says
	}
	within := func(but record.Statement) record.Statement {
		return say("gate.range", with{"metric": c.Metric, "low": r.Low, "high": r.High, "but": but})
	}
	beyond, good := r.Low > c.Limit, r.High <= c.Limit
	if c.Below {
		beyond, good = r.High < c.Limit, r.Low >= c.Limit
	}
	switch {
	case beyond && ch.Decision == record.Worse:
		return GateFailed, within(record.Statement{})
	case beyond:
		return GateInconclusive, within(ch.Says)
	case good:
		return GatePassed, within(record.Statement{})
	}
	return GateInconclusive, say("gate.inside", with{"metric": c.Metric, "low": r.Low, "high": r.High})
}
