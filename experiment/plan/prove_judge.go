package plan

import (
	"cmp"
	"slices"

	"ceiling/record"
)

// Whether a proof and the passive verdict agree.
const (
	agrees       = "agrees"
	contradicts  = "contradicts"
	inconclusive = "inconclusive"
)

const (
	// minElasticity is the elasticity that a resource must have, at the low end of its interval, to
	// be called the bottleneck.
	minElasticity = 0.5
	// leastConfidence is the minimum confidence of a proof's intervals: five blocks. Fewer are
	// indicative, but prove nothing.
	leastConfidence = 0.9
	// A sum of all rates' elasticities in this range counts as one.
	sumLeast, sumMost = 0.8, 1.2
)

// resourceOf returns the resource to perturb for a bottleneck; "" if none that can be perturbed
// is behind it.
func resourceOf(ceiling record.Bottleneck) string {
	switch ceiling {
	case record.LoadGenerator:
		return record.PerturbGenerator
	case record.ServerCPU, record.ServerThread, record.Uneven:
		return record.PerturbServer
	case record.Bandwidth, record.Packets:
		return record.PerturbLink
	case record.Concurrency, record.HTTP2Window: // each connection has a window
		return record.PerturbConcurrency
	}
	return ""
}

// judgeProof states what the figures prove and whether the passive verdict agrees. It returns the
// exit code.
func judgeProof(p *record.Proof) int {
	waits := false
	if few := slices.ContainsFunc(p.Resources, func(r record.Elasticity) bool { return r.Elasticity.Confidence < leastConfidence }); !few {
		p.Proved, waits = proved(p.Resources), waitsInside(p)
	}
	p.Agrees = agreement(p, waits)
	p.Says = proofSays(p, waits)
	p.Caveats = append(p.Caveats, sumCaveats(p, waits)...)
	for i := range p.Resources {
		r := &p.Resources[i]
		for _, w := range r.Elasticity.Warnings {
			p.Caveats = append(p.Caveats, say("proof.interval-lacks", with{"resource": r.Resource, "lacks": w}))
		}
	}
	switch {
	case p.Agrees == contradicts:
		return exitFail
	case p.Proved != "" || waits:
		return 0
	}
	return exitInvalid
}

// proved returns the resource with the largest elasticity, if the low end of its interval is at
// least minElasticity and the interval is apart from the others'. Slots belong to another sum: their
// interval need not be apart from the rates'.
func proved(all []record.Elasticity) string {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b record.Elasticity) int {
		return cmp.Compare(b.Elasticity.Mid, a.Elasticity.Mid)
	})
	if len(sorted) == 0 || sorted[0].Elasticity.Low < minElasticity {
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

// waitsInside reports whether every perturbation, including server CPU and slots, hardly
// mattered: requests then spend their time in a wait that no speed here changes.
func waitsInside(p *record.Proof) bool {
	server, slots := find(p, record.PerturbServer), find(p, record.PerturbConcurrency)
	return server != nil && slots != nil && p.Sum.High < minElasticity && slots.Elasticity.High < minElasticity
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
			return inconclusive // a lock that is held while its holder computes
		}
		return contradicts
	}
	want := resourceOf(p.Passive)
	if want == "" {
		return inconclusive
	}
	own := find(p, want)
	switch {
	case p.Proved == want:
		return agrees
	case own == nil && p.Proved != "" && p.Proved != record.PerturbConcurrency && want != record.PerturbConcurrency:
		return contradicts // the rates add up to one: nothing is left for it
	case own == nil:
		return inconclusive
	case own.Elasticity.High < minElasticity && (p.Proved != "" || waits):
		return contradicts
	}
	return inconclusive
}

// proofSays returns the answer.
func proofSays(p *record.Proof, waits bool) record.Statement {
	agreement := agreementSays(p)
	if own := find(p, p.Proved); own != nil {
		of := &own.Elasticity
		return say("proof.found", with{"resource": p.Proved, "left": own.Left, "share": own.PerS.Mid / p.PerS.Mid, "per_s": p.PerS.Mid,
			"mid": of.Mid, "low": of.Low, "high": of.High, "concurrency": p.Proved == record.PerturbConcurrency, "agreement": agreement})
	}
	if waits {
		return say("proof.waits", with{"mid": p.Sum.Mid, "low": p.Sum.Low, "high": p.Sum.High, "rest": min(1-p.Sum.Mid, 1),
			"link": find(p, record.PerturbLink) != nil, "agreement": agreement})
	}
	var resources []record.Statement
	for i := range p.Resources {
		of := &p.Resources[i].Elasticity
		resources = append(resources, say("proof.resource", with{"resource": p.Resources[i].Resource, "mid": of.Mid, "low": of.Low,
			"high": of.High}))
	}
	if n := p.Resources[0].Blocks; p.Resources[0].Elasticity.Confidence < leastConfidence {
		return say("proof.few-blocks", with{"blocks": n, "resources": resources, "agreement": agreement})
	}
	if undecided(p.Resources) {
		return say("proof.undecided", with{"blocks": p.Resources[0].Blocks, "resources": resources, "agreement": agreement})
	}
	return say("proof.none", with{"resources": resources, "agreement": agreement})
}

// undecided reports whether more blocks might prove a resource: an interval reaches what a bottleneck
// has, and no two are known to matter.
func undecided(all []record.Elasticity) bool {
	matter, may := 0, false
	for i := range all {
		if all[i].Resource != record.PerturbConcurrency && all[i].Elasticity.Low > 0 {
			matter++
		}
		may = may || all[i].Elasticity.High >= minElasticity
	}
	return may && matter < 2
}

// agreementSays states what the undisturbed runs say about it.
func agreementSays(p *record.Proof) record.Statement {
	switch {
	case p.Passive == "":
		return say("proof.undisturbed.split", nil)
	case p.Agrees == agrees:
		return say("proof.undisturbed.agree", with{"bottleneck": p.Passive})
	case p.Agrees == contradicts:
		return say("proof.undisturbed.contradict", with{"bottleneck": p.Passive})
	case p.Passive == record.ServerBlocked && p.Proved == record.PerturbServer:
		return say("proof.undisturbed.lock", nil)
	case resourceOf(p.Passive) != "" && find(p, resourceOf(p.Passive)) == nil:
		return say("proof.undisturbed.not-tested", with{"bottleneck": p.Passive})
	case p.Passive == record.Inconclusive:
		return say("proof.undisturbed.inconclusive", nil)
	}
	return say("proof.undisturbed.open", with{"bottleneck": p.Passive})
}

func sumCaveats(p *record.Proof, waits bool) []record.Statement {
	rate := p.Proved != "" && p.Proved != record.PerturbConcurrency
	sum, rest := &p.Sum, 1-p.Sum.Mid
	switch {
	case sum.Low > sumMost:
		return []record.Statement{say("proof.sum-above", with{"mid": sum.Mid, "low": sum.Low, "high": sum.High})}
	case rate && sum.High < sumLeast:
		return []record.Statement{say("proof.sum-below", with{"mid": sum.Mid, "low": sum.Low, "high": sum.High, "rest": rest,
			"others": leftOut(p)})}
	case !waits && p.Proved == "" && sum.High < sumLeast && sum.Confidence > 0:
		return []record.Statement{say("proof.sum-misses", with{"rest": rest, "others": leftOut(p)})}
	}
	return nil
}

// leftOut names what a missing share may be.
func leftOut(p *record.Proof) []record.Statement {
	parts := []record.Statement{say("proof.other.wait", nil)}
	for _, n := range p.NotTested {
		if n.Resource != record.PerturbConcurrency {
			parts = append(parts, say("proof.other.not-tested", with{"resource": n.Resource}))
		}
	}
	return parts
}
