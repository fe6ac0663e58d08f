package page

import (
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/report"
	"ceiling/verdict/prose"
)

// addPath adds the path of a request in the runs that in selects, whose bottleneck is of.
type addPath func(says string, of record.Bottleneck, in func(m *record.Measured) bool)

// answered is what the page of a plan shows of its answer, by the kind of plan.
type answered interface {
	// card is the card of a single answer; says and caveats are its other statements.
	card() (card *Verdict, says, caveats []string)
	// paths adds the path of a request at the answer: at the highest rate of a sweep, at the capacity of a
	// search, undisturbed in a proof, and for both sides of a comparison.
	paths(add addPath)
	// sections are the figures, with the section of the paths in its place.
	sections(paths Section) []Section
}

func answerOf(p *record.Plan) answered {
	switch a := p.Answer().(type) {
	case *record.Sweep:
		return sweepAnswer{p, a}
	case *record.Search:
		return searchAnswer{p, a}
	case *record.Proof:
		return proofAnswer{p, a}
	case *record.Comparison:
		return comparisonAnswer{p, a}
	case *record.Factorial:
		return factorialAnswer{a}
	}
	return noAnswer{}
}

type noAnswer struct{}

func (noAnswer) card() (card *Verdict, says, caveats []string) { return nil, nil, nil }

func (noAnswer) paths(addPath) {}

func (noAnswer) sections(Section) []Section { return nil }

type sweepAnswer struct {
	plan *record.Plan
	*record.Sweep
}

// only is the curve of a sweep that has one; nil otherwise.
func (a sweepAnswer) only() *record.Curve {
	if len(a.Curves) != 1 {
		return nil
	}
	return &a.Curves[0]
}

func (a sweepAnswer) card() (card *Verdict, says, caveats []string) {
	if c := a.only(); c != nil {
		return curveCard(c), nil, prose.Texts(c.Caveats)
	}
	shared := report.SharedCaveats(a.Curves)
	isShared := func(d record.Statement) bool { return slices.ContainsFunc(shared, d.Same) }
	for i := range a.Curves {
		c := &a.Curves[i]
		says = append(says, curveName(c)+": "+prose.Text(c.Says))
		for _, caveat := range prose.Texts(slices.DeleteFunc(slices.Clone(c.Caveats), isShared)) {
			caveats = append(caveats, curveName(c)+": "+caveat)
		}
	}
	return nil, says, append(caveats, prose.Texts(shared)...)
}

func (a sweepAnswer) paths(add addPath) {
	c := a.only()
	if c == nil || c.Over == "" {
		return
	}
	if top := c.Top(); top != nil {
		add("The path of a request at "+c.Over.Count(top.X), c.Bottleneck, func(m *record.Measured) bool { return slices.Contains(top.RunIDs, m.Run) })
	}
}

func (a sweepAnswer) sections(paths Section) []Section {
	return append([]Section{paths}, sweepSections(a.plan)...)
}

type searchAnswer struct {
	plan *record.Plan
	*record.Search
}

func (a searchAnswer) card() (card *Verdict, says, caveats []string) {
	return searchCard(a.Search), nil, prose.Texts(a.Caveats)
}

func (a searchAnswer) paths(add addPath) {
	if !(a.Capacity.Mid > 0) {
		return
	}
	best := 0.0
	for i := range a.Rates {
		if r := &a.Rates[i]; report.TriedOutcome(r) == record.Pass {
			best = max(best, r.PerS)
		}
	}
	add("The path of a request at "+unit.FormatRate(best), a.Bottleneck,
		func(m *record.Measured) bool { return m.TargetPerS == best && m.Outcome == record.Pass })
}

func (a searchAnswer) sections(paths Section) []Section {
	return []Section{paths, searchSection(a.plan)}
}

type proofAnswer struct {
	plan *record.Plan
	*record.Proof
}

func (a proofAnswer) card() (card *Verdict, says, caveats []string) {
	return proofCard(a.Proof), nil, prose.Texts(a.Caveats)
}

func (a proofAnswer) paths(add addPath) {
	add("The path of a request, undisturbed", record.Bottleneck(a.Proved), func(m *record.Measured) bool { return m.Perturb == record.Perturbation{} })
}

func (a proofAnswer) sections(paths Section) []Section {
	return []Section{paths, proofSection(a.Proof)}
}

type comparisonAnswer struct {
	plan *record.Plan
	*record.Comparison
}

func (a comparisonAnswer) card() (card *Verdict, says, caveats []string) {
	says = comparisonSays(a.Comparison)
	card = comparisonCard(a.Comparison)
	card.Bottleneck = sideBottleneck(a.plan)
	says = slices.DeleteFunc(says[1:], func(text string) bool { return strings.Contains(card.Because, text) })
	return card, says, prose.Texts(a.Caveats)
}

func (a comparisonAnswer) paths(add addPath) {
	nameA, nameB := sideNames(a.Comparison)
	for i, side := range []string{"A", "B"} {
		add([]string{nameA, nameB}[i]+": the path of a request", "", func(m *record.Measured) bool { return m.Side == side && !m.Noise })
	}
}

// sections of a comparison begin with the changes.
func (a comparisonAnswer) sections(paths Section) []Section {
	return slices.Insert(comparisonSections(a.plan), 1, paths)
}

type factorialAnswer struct{ *record.Factorial }

func (a factorialAnswer) card() (card *Verdict, says, caveats []string) {
	return factorialCard(a.Factorial), prose.Texts(a.Answer[min(1, len(a.Answer)):]), prose.Texts(a.Caveats)
}

func (factorialAnswer) paths(addPath) {}

func (a factorialAnswer) sections(Section) []Section { return factorialSections(a.Factorial) }
