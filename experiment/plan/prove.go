package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/record"
)

// A proof consists of blocks: in each, one undisturbed run and one per perturbed resource, in
// random order. Each run is compared with the undisturbed one of its block, so that drift of the
// machine does not look like a sensitive resource.

const (
	// perturbShare is the default share: enough to be visible within a few blocks, and small enough
	// not to make another resource the bottleneck.
	perturbShare = 0.25
	// proofBlocks is the default number of blocks: 7 are the minimum for 95 % confidence in each
	// of three resources.
	proofBlocks = 8
)

// ProofShare returns the share that a proof removes from each resource.
func ProofShare(e *spec.Experiment) float64 {
	if e.Prove.Share > 0 {
		return e.Prove.Share
	}
	return perturbShare
}

// ProofBlocks returns the number of blocks of a proof.
func ProofBlocks(e *spec.Experiment) int {
	if e.Repeats > 0 {
		return e.Repeats
	}
	return proofBlocks
}

// rates returns the resources whose elasticities add up to one: slots are not among them.
func rates() []string {
	return []string{record.PerturbGenerator, record.PerturbServer, record.PerturbLink}
}

func enumerateProof(e *spec.Experiment) []record.Step {
	if len(e.Load.Rate) > 0 {
		return nil // an open loop: its throughput is a setting
	}
	untouched := record.Step{Condition: e.Load.First()}
	of := []record.Step{untouched}
	share := ProofShare(e)
	for _, resource := range append(rates(), record.PerturbConcurrency) {
		if !untakable(e, resource).IsZero() {
			continue
		}
		s := untouched
		s.Perturb = record.Perturbation{Resource: resource, Share: share}
		if resource == record.PerturbConcurrency {
			s.Connections, s.Pipelining = fewerSlots(s.Connections, s.Pipelining, share)
		}
		of = append(of, s)
	}
	settle := untouched
	settle.WarmupRun = true
	steps := []record.Step{settle}
	chance := rand.New(rand.NewPCG(e.Seed, 3))
	for block := range ProofBlocks(e) {
		for _, i := range chance.Perm(len(of)) {
			s := of[i]
			s.Block = block + 1
			steps = append(steps, s)
		}
	}
	return steps
}

// untakable returns why a resource cannot be perturbed, according to the experiment; empty if it
// can, subject to the host.
func untakable(e *spec.Experiment, resource string) record.Statement {
	switch resource {
	case record.PerturbLink:
		if e.Prove.Interface == "" {
			return say("proof.no-interface", nil)
		}
	case record.PerturbConcurrency:
		if e.Load.Connections[0]*e.Load.Pipelining[0] < 2 {
			return say("proof.one-request", nil)
		}
	}
	return record.Statement{}
}

// fewerSlots removes a share of the requests in flight, by connections or by pipelining,
// whichever comes closer to the share; at least one of either.
func fewerSlots(connections, pipelining int, share float64) (int, int) {
	c, p := fewer(connections, share), fewer(pipelining, share)
	byConnections := math.Abs(float64(c)/float64(connections) - (1 - share))
	byPipelining := math.Abs(float64(p)/float64(pipelining) - (1 - share))
	if c < 1 || p >= 1 && byPipelining < byConnections-1e-9 {
		return connections, p
	}
	return c, pipelining
}

// fewer is n less a share of it, at most n-1; 0 if n is 1.
func fewer(n int, share float64) int {
	if n < 2 {
		return 0
	}
	return min(n-1, max(1, int(math.Round(float64(n)*(1-share)))))
}

// proofRuns are the runs of a proof by perturbed resource ("" for none) and block.
type proofRuns struct {
	by map[string]map[int]*record.Measured
	// why a resource could not be perturbed, according to the runs.
	why     map[string]record.Statement
	caveats []record.Statement
}

// minPerturbed is the share of the intended perturbation that a run must have achieved to
// count: with less, the noise would be divided by almost nothing.
const minPerturbed = 0.5

func proofRunsOf(all []record.Measured) proofRuns {
	r := proofRuns{by: map[string]map[int]*record.Measured{}, why: map[string]record.Statement{}}
	weak, bad := map[string]int{}, 0
	for i := range all {
		m := &all[i]
		resource := m.Perturb.Resource
		switch {
		case m.WarmupRun || m.Block == 0:
			continue
		case m.Run == "":
			r.why[resource] = say("proof.not-run", with{"why": strings.TrimSpace(m.NotRun)})
			continue
		case !(m.CompletedPerS > 0):
			r.caveats = append(r.caveats, say("proof.no-answers", with{"block": m.Block}))
			continue
		case resource != "" && (m.Perturbed == nil || !(m.Perturbed.Left > 0 && 1-m.Perturbed.Left >= minPerturbed*m.Perturb.Share)):
			weak[resource]++
			r.why[resource] = say("proof.perturbation-failed", with{"how": howPerturbed(m.Perturbed)})
			continue
		}
		if m.BadShare > 0.01 {
			bad++
		}
		if r.by[resource] == nil {
			r.by[resource] = map[int]*record.Measured{}
		}
		r.by[resource][m.Block] = m
	}
	for _, resource := range append(rates(), record.PerturbConcurrency) {
		if n := weak[resource]; n > 0 {
			r.caveats = append(r.caveats, say("proof.weak", with{"resource": resource, "runs": n, "why": r.why[resource]}))
		}
	}
	if bad > 0 {
		r.caveats = append(r.caveats, say("proof.errors", with{"runs": bad}))
	}
	return r
}

func howPerturbed(t *record.Perturbed) string {
	if t == nil {
		return ""
	}
	return t.How
}

// whole returns the complete blocks, ascending; part is the number of the others.
func (r *proofRuns) whole() (blocks []int, part int) {
	seen := map[int]int{}
	for _, of := range r.by {
		for block := range of {
			seen[block]++
		}
	}
	for block, n := range seen {
		if n == len(r.by) {
			blocks = append(blocks, block)
		} else {
			part++
		}
	}
	slices.Sort(blocks)
	return blocks, part
}

func concludeProof(p *record.Plan) {
	e := &p.Experiment
	r := proofRunsOf(p.Runs)
	blocks, part := r.whole()
	proof := &record.Proof{Caveats: r.caveats}
	p.Proof = proof
	proof.NotTested = notTested(e, &r)
	proof.Passive = passiveCeiling(r.by[""])
	if part > 0 {
		proof.Caveats = append(proof.Caveats, say("proof.part-blocks", with{"part": part, "blocks": part + len(blocks)}))
	}
	if len(blocks) == 0 || r.by[""] == nil || len(r.by) < 2 {
		proof.Agrees, proof.Says = inconclusive, say("proof.no-blocks", nil)
		p.Exit = exitInvalid
		return
	}
	if err := r.measure(proof, blocks); err != nil {
		proof.Agrees, proof.Says = inconclusive, say("proof.failed", with{"error": err.Error()})
		p.Exit = exitInvalid
		return
	}
	p.Exit = judgeProof(proof)
}

// measure fills in the figures.
func (r *proofRuns) measure(proof *record.Proof, blocks []int) error {
	var base []float64
	for _, b := range blocks {
		base = append(base, r.by[""][b].CompletedPerS)
	}
	proof.PerS = median(base)
	var found []string
	var taken []stat.Taken
	for _, resource := range rates() {
		if r.by[resource] != nil {
			found = append(found, resource)
			taken = append(taken, r.taken(resource, blocks))
		}
	}
	if len(taken) > 0 {
		shares, err := stat.Elasticities(taken, confidence)
		if err != nil {
			return err
		}
		proof.Sum = estimate(shares.Sum)
		for i, resource := range found {
			proof.Resources = append(proof.Resources, r.elasticity(resource, blocks, shares.Each[i].Estimate))
		}
	}
	if r.by[record.PerturbConcurrency] != nil {
		slots, err := stat.Elasticities([]stat.Taken{r.taken(record.PerturbConcurrency, blocks)}, confidence)
		if err != nil {
			return err
		}
		proof.Resources = append(proof.Resources, r.elasticity(record.PerturbConcurrency, blocks, slots.Each[0].Estimate))
	}
	return nil
}

// taken compares every block with its undisturbed run. The achieved perturbation varies slightly
// between runs; each is scaled to the mean.
func (r *proofRuns) taken(resource string, blocks []int) stat.Taken {
	t := stat.Taken{Resource: resource}
	for _, b := range blocks {
		t.LnR += math.Log(r.by[resource][b].Perturbed.Left) / float64(len(blocks))
	}
	for _, b := range blocks {
		m := r.by[resource][b]
		x := math.Log(m.CompletedPerS / r.by[""][b].CompletedPerS)
		t.LnX = append(t.LnX, x*t.LnR/math.Log(m.Perturbed.Left))
	}
	return t
}

func (r *proofRuns) elasticity(resource string, blocks []int, of stat.Estimate) record.Elasticity {
	e := record.Elasticity{Resource: resource, Elasticity: estimate(of), Blocks: len(blocks)}
	var perS []float64
	for _, b := range blocks {
		m := r.by[resource][b]
		e.How = m.Perturbed.How
		e.Left += m.Perturbed.Left / float64(len(blocks))
		perS = append(perS, m.CompletedPerS)
	}
	e.PerS = median(perS)
	return e
}

// passiveCeiling returns the bottleneck of the majority of undisturbed runs; "" without a
// majority.
func passiveCeiling(runs map[int]*record.Measured) record.Bottleneck {
	counts := map[record.Bottleneck]int{}
	for _, m := range runs {
		counts[m.Bottleneck]++
	}
	name, _ := majority(counts)
	if 2*counts[name] <= len(runs) {
		return ""
	}
	return name
}

// notTested lists the resources without a run, with the reason.
func notTested(e *spec.Experiment, r *proofRuns) []record.NotTested {
	var list []record.NotTested
	for _, resource := range append(rates(), record.PerturbConcurrency) {
		if r.by[resource] != nil {
			continue
		}
		why := untakable(e, resource)
		if why.IsZero() {
			why = r.why[resource]
		}
		if why.IsZero() {
			why = say("proof.no-run", nil)
		}
		list = append(list, record.NotTested{Resource: resource, Why: why})
	}
	return list
}
