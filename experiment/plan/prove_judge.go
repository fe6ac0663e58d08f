package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// Whether a proof and the passive verdict say the same.
const (
	agrees      = "agrees"
	contradicts = "contradicts"
	cannotTell  = "inconclusive"
)

const (
	// ownsLeast is the share of the ceiling that a resource has to have, by the
	// low end of its interval, to be called the ceiling: half of it.
	ownsLeast = 0.5
	// leastConfidence of the intervals that a proof may rest on: five blocks.
	// Fewer say something, but prove nothing.
	leastConfidence = 0.9
	// A sum of all rates' elasticities that lies in this range is one.
	sumLeast, sumMost = 0.8, 1.2
)

// resourceOf is what has to be taken to feel a ceiling; "" where nothing that
// can be taken is behind it.
func resourceOf(ceiling record.Bottleneck) string {
	switch ceiling {
	case record.LoadGenerator:
		return record.PerturbGenerator
	case record.ServerCPU, record.ServerThread, record.Uneven:
		return record.PerturbServer
	case record.Bandwidth, record.Packets:
		return record.PerturbLink
	case record.Concurrency:
		return record.PerturbConcurrency
	}
	return ""
}

// judgeProof says what the figures prove and whether the passive verdict is the
// same. It answers the exit code.
func judgeProof(p *record.Proof) int {
	waits := false
	if few := slices.ContainsFunc(p.Resources, func(r record.Elasticity) bool { return r.Elasticity.Confidence < leastConfidence }); !few {
		p.Proved, waits = proved(p.Resources), waitsInside(p)
	}
	p.Agrees = agreement(p, waits)
	p.Says = proofSays(p, waits)
	if agree := agreementSays(p); agree != "" {
		p.Says += " " + agree
	}
	p.Caveats = append(p.Caveats, sumCaveats(p, waits)...)
	for i := range p.Resources {
		r := &p.Resources[i]
		for _, w := range r.Elasticity.Warnings {
			p.Caveats = append(p.Caveats, r.Resource+": "+w)
		}
	}
	switch {
	case p.Agrees == contradicts:
		return exitBroke
	case p.Proved != "" || waits:
		return 0
	}
	return exitVoid
}

// proved is the resource with the largest elasticity, where it owns at least
// half of the ceiling and its interval stands apart from the others. Slots are
// no part of the same whole: they need not stand apart from the rates.
func proved(all []record.Elasticity) string {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b record.Elasticity) int {
		return cmp.Compare(b.Elasticity.Mid, a.Elasticity.Mid)
	})
	if len(sorted) == 0 || sorted[0].Elasticity.Low < ownsLeast {
		return ""
	}
	first := &sorted[0]
	for i := range sorted[1:] {
		if sorted[1+i].Elasticity.High >= first.Elasticity.Low && first.Resource != record.PerturbConcurrency {
			return ""
		}
	}
	return first.Resource
}

// waitsInside tells that whatever was taken was hardly missed, the server's CPU
// and the slots among it: what a request takes is then a wait that no speed
// here changes.
func waitsInside(p *record.Proof) bool {
	server, slots := find(p, record.PerturbServer), find(p, record.PerturbConcurrency)
	return server != nil && slots != nil && p.Sum.High < ownsLeast && slots.Elasticity.High < ownsLeast
}

func find(p *record.Proof, resource string) *record.Elasticity {
	for i := range p.Resources {
		if p.Resources[i].Resource == resource {
			return &p.Resources[i]
		}
	}
	return nil
}

func agreement(p *record.Proof, waits bool) string {
	if p.Passive == record.ServerBlocked {
		switch {
		case waits:
			return agrees
		case p.Proved == "" || p.Proved == record.PerturbServer:
			return cannotTell // a lock that is held while its holder computes
		}
		return contradicts
	}
	want := resourceOf(p.Passive)
	if want == "" {
		return cannotTell
	}
	own := find(p, want)
	switch {
	case p.Proved == want:
		return agrees
	case own == nil && p.Proved != "" && p.Proved != record.PerturbConcurrency && want != record.PerturbConcurrency:
		return contradicts // the rates add to one: nothing is left for it
	case own == nil:
		return cannotTell
	case own.Elasticity.High < ownsLeast && (p.Proved != "" || waits):
		return contradicts
	}
	return cannotTell
}

// proofSays is the answer in words.
func proofSays(p *record.Proof, waits bool) string {
	if own := find(p, p.Proved); own != nil {
		text := fmt.Sprintf("%s is the bottleneck: with %s of it left, throughput was %s of %s (elasticity %s).",
			p.Proved, sharePercent(own.Left), sharePercent(own.PerS.Mid/p.PerS.Mid), unit.FormatRate(p.PerS.Mid), interval(&own.Elasticity))
		if p.Proved == record.PerturbConcurrency {
			text += " More requests in flight would raise throughput."
		}
		return text
	}
	if waits {
		text := fmt.Sprintf("throughput hardly follows any tested resource (sum %s): the remaining %.2f is time the server waits for a lock, a pool, a timer or another service.", interval(&p.Sum), 1-p.Sum.Mid)
		if find(p, record.PerturbLink) == nil {
			text += " The link was not tested and may be the bottleneck too."
		}
		return text
	}
	var parts []string
	for i := range p.Resources {
		parts = append(parts, fmt.Sprintf("%s %s", p.Resources[i].Resource, interval(&p.Resources[i].Elasticity)))
	}
	if n := p.Resources[0].Blocks; p.Resources[0].Elasticity.Confidence < leastConfidence {
		return fmt.Sprintf("%d blocks are too few for a result: %s.", n, strings.Join(parts, ", "))
	}
	return "no single resource is the bottleneck: " + strings.Join(parts, ", ") + "."
}

func agreementSays(p *record.Proof) string {
	switch {
	case p.Passive == "":
		return "The undisturbed runs do not agree on a bottleneck."
	case p.Agrees == agrees:
		return fmt.Sprintf("The undisturbed runs agree: %s.", p.Passive)
	case p.Agrees == contradicts:
		return fmt.Sprintf("The undisturbed runs name %s: the proof contradicts that.", p.Passive)
	case p.Passive == record.ServerBlocked && p.Proved == record.PerturbServer:
		return "The undisturbed runs name a wait inside the server, which fits a lock whose holder computes: faster CPUs would help, more of them would not."
	case resourceOf(p.Passive) != "" && find(p, resourceOf(p.Passive)) == nil:
		return fmt.Sprintf("The undisturbed runs name %s, which could not be tested.", p.Passive)
	case p.Passive == record.Inconclusive:
		return "The undisturbed runs are inconclusive; the proof neither confirms nor excludes a bottleneck."
	}
	return fmt.Sprintf("The undisturbed runs name %s; the proof neither confirms nor excludes it.", p.Passive)
}

func sumCaveats(p *record.Proof, waits bool) []string {
	rate := p.Proved != "" && p.Proved != record.PerturbConcurrency
	switch {
	case p.Sum.Low > sumMost:
		return []string{fmt.Sprintf("the elasticities add up to %s, not 1: two resources are so close that perturbing either makes it the bottleneck, or a request is shorter than one slice of the perturbation; use a smaller --share", interval(&p.Sum))}
	case rate && p.Sum.High < sumLeast:
		return []string{fmt.Sprintf("the elasticities add up to %s; the missing %.2f is something not tested: %s", interval(&p.Sum), 1-p.Sum.Mid,
			leftOut(p))}
	case !waits && p.Proved == "" && p.Sum.High < sumLeast && p.Sum.Confidence > 0:
		return []string{fmt.Sprintf("the elasticities miss %.2f of 1: %s", 1-p.Sum.Mid, leftOut(p))}
	}
	return nil
}

// leftOut names what a missing share may be.
func leftOut(p *record.Proof) string {
	parts := []string{"a wait inside the server"}
	for _, n := range p.NotTested {
		if n.What != record.PerturbConcurrency {
			parts = append(parts, "the "+n.What+", which was not tested")
		}
	}
	return strings.Join(parts, ", or ")
}

func interval(e *record.Estimate) string {
	return fmt.Sprintf("%.2f (%.2f–%.2f)", e.Mid, e.Low, e.High)
}

func sharePercent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }
