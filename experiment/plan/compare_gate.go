package plan

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// Condition is one term of --fail-on: B fails if the metric's relative change against A exceeds
// the limit.
type Condition struct {
	// Metric is a name from record.Change.
	Metric string
	// Below: fails below the limit, which is not above 0; otherwise above it.
	Below bool
	// Limit of B/A - 1: -0.05.
	Limit float64
	text  string
}

// String returns the condition as written, without blanks.
func (c Condition) String() string { return c.text }

// Results of a gate, in record.GateResult.
const (
	GatePassed       = "passed"
	GateFailed       = "failed"
	GateInconclusive = "inconclusive"
)

// Exit codes of a comparison, as docs/record.md lists them for a run.
const (
	exitFail    = 3
	exitInvalid = 4
)

// CheckGate rejects conditions that an experiment cannot answer.
func CheckGate(e *spec.Experiment) error {
	conditions, err := ParseGate(e.Compare.FailOn)
	if err != nil {
		return err
	}
	for _, c := range conditions {
		if c.Metric == metricRPS && len(e.Load.Rate) > 0 {
			return fmt.Errorf("--fail-on %s: -R fixes the rate, so it is the same on both sides; use p99 or cpu, or drop -R", c)
		}
	}
	return nil
}

// ParseGate parses comma-separated conditions: rps<-5%, p99>+10%, p50>+10%, cpu>+5% (or
// server_cpu). Each states the loss that fails; the sign is required, so that 5% cannot be
// misread. "" is no condition.
func ParseGate(text string) ([]Condition, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var list []Condition
	for part := range strings.SplitSeq(text, ",") {
		c, err := parseCondition(strings.Join(strings.Fields(part), ""))
		if err != nil {
			return nil, fmt.Errorf("--fail-on %.60q: %w", strings.TrimSpace(part), err)
		}
		for _, other := range list {
			if other.Metric == c.Metric {
				return nil, fmt.Errorf("--fail-on: both %s and %s are given; remove one of them", other, c)
			}
		}
		list = append(list, c)
	}
	return list, nil
}

func parseCondition(text string) (Condition, error) {
	wrong := func(format string, args ...any) (Condition, error) {
		return Condition{}, fmt.Errorf(format+"; write %s", append(args, meant(text))...)
	}
	at := strings.IndexAny(text, "<>=≤≥")
	if at < 0 {
		return wrong("no < or > in it")
	}
	name, limit := strings.ToLower(text[:at]), text[at+1:]
	m, ok := gateMetric(name)
	if !ok {
		return wrong("%.40q is not compared; there are rps, p50, p99 and cpu", name)
	}
	if text[at] != '<' && text[at] != '>' || strings.HasPrefix(limit, "=") {
		return wrong("only < and > compare")
	}
	c := Condition{Metric: m.name, Below: text[at] == '<', text: text}
	if c.Below != m.more {
		return wrong("that fails a gain, not a loss")
	}
	sign, _ := lossOf(m)
	number, percent := strings.CutSuffix(limit, "%")
	digits, signed := strings.CutPrefix(strings.Replace(number, "−", "-", 1), sign)
	value, err := strconv.ParseFloat(digits, 64)
	switch {
	case !percent:
		return wrong("the limit is in per cent of A (an SLO, as in ceiling run --slo, is absolute)")
	case !signed:
		return wrong("the limit of a loss begins with %s", sign)
	case err != nil || strings.Trim(digits, "0123456789.") != "":
		return wrong("%.40q is not a number", digits)
	case c.Below && value >= 100:
		return wrong("nothing loses 100%% and more")
	case value > mostGain:
		return wrong("limits above 100× are not supported")
	}
	c.Limit = value / 100
	if c.Below {
		c.Limit = -c.Limit
	}
	return c, nil
}

// mostGain is the largest limit, in per cent.
const mostGain = 10000

// lossOf returns the sign and the comparison of a metric's loss.
func lossOf(m compareMetric) (sign, op string) {
	if m.more {
		return "-", "<"
	}
	return "+", ">"
}

// meant is the condition that a text was probably meant to be: its own metric and number, as a
// loss.
func meant(text string) string {
	name := regexp.MustCompile(`^(rps|p50|p99|server_cpu|cpu|[a-z_]+[0-9]*)`).FindString(strings.ToLower(text))
	rest := text[len(name):]
	m, ok := gateMetric(name)
	if !ok {
		name = "p99"
		if strings.Contains(rest, "<") {
			name = metricRPS
		}
		if m, ok = gateMetric(name); !ok {
			return "rps<-5%,p99>+10%"
		}
	}
	sign, op := lossOf(m)
	number := regexp.MustCompile(`[0-9]+(\.[0-9]+)?`).FindString(rest)
	value, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil:
		number = "5"
	case value < 1 && !strings.Contains(rest, "%"): // a share
		number = strconv.FormatFloat(math.Round(value*1e6)/1e4, 'f', -1, 64)
	case m.more && value >= 100:
		number = "99"
	case value > mostGain:
		number = strconv.Itoa(mostGain)
	}
	return name + op + sign + number + "%"
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

// closeGate evaluates a plan's conditions and sets its exit code.
func closeGate(p *record.Plan, s *compareSides) {
	c := p.Comparison
	conditions, err := ParseGate(p.Experiment.Compare.FailOn)
	if err != nil { // CheckGate rejected it before the start, but a file may have been edited since
		c.Caveats = append(c.Caveats, say("gate.unreadable", with{"error": err.Error()}))
		p.Exit = exitInvalid
		return
	}
	p.Exit = Gate(c, conditions)
	onlyBFails := mostlyErrors(&compareSides{a: s.a}) == nil && mostlyErrors(&compareSides{b: s.b}) != nil && len(s.a) > 0
	if len(conditions) > 0 && onlyBFails {
		for i := range c.Gate {
			c.Gate[i].Result = GateFailed
		}
		p.Exit = exitFail
	}
}

// Gate evaluates the conditions and returns the exit code: 0, 3 if one failed, 4 if one is
// inconclusive or the two are not comparable.
func Gate(c *record.Comparison, conditions []Condition) (exit int) {
	if c.Incomparable != nil {
		exit = exitInvalid
	}
	for _, condition := range conditions {
		result := condition.judge(c)
		c.Gate = append(c.Gate, result)
		switch {
		case result.Result == GateFailed:
			exit = exitFail
		case result.Result == GateInconclusive && exit == 0:
			exit = exitInvalid
		}
	}
	return exit
}

// judge evaluates a condition against the whole interval of its metric.
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

// hold checks where the whole interval lies. A loss fails only if it was decided to be a change:
// one that A/A shows as well is not.
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
