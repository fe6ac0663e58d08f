package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/measure/netns"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/server/planted"
)

// ProofResult is one planted bottleneck, and the result of its proof.
type ProofResult struct {
	Name    string `json:"name"`
	Planted string `json:"planted"`
	// Proved is the resource that must be proved; "" if none that can be perturbed is the
	// bottleneck. Ceiling is the passive verdict's name for it.
	Proved     string            `json:"proved"`
	Bottleneck record.Bottleneck `json:"bottleneck"`
	Proof      *record.Proof     `json:"proof,omitempty"`
	Judged     string            `json:"judged"` // Right, Wrong, Disturbed, NotRun or Failed
	Why        string            `json:"why,omitempty"`
	// Others is the CPU use of other programs, in cores.
	Others float64       `json:"others_cores"`
	Took   time.Duration `json:"took_ns"`
}

// ProofOptions of Proofs. The zero value proves everything in runs of two
// seconds.
type ProofOptions struct {
	Only   []string      // names; nil: all
	Blocks int           // 0: a proof's default
	Run    time.Duration // measured time of each run, 0: 2 s
	Seed   uint64
	// Program has the verbs planted and hog; "" is this program.
	Program string
	// Keep is a directory for the records; "" for none.
	Keep    string
	Version string
	// Told is called with every result as it arrives; it may be nil.
	Told func(ProofResult)
}

// plantedProof is one bottleneck to prove.
type plantedProof struct {
	name, says, proved string
	ceiling            record.Bottleneck
	subject            host
	link               *link
	connections        spec.Count
}

const (
	// sumWithin is how far the sum of the rates' elasticities may be from 1 if a rate was
	// planted; otherwise the sum must stay below sumBelow.
	sumWithin = 0.2
	sumBelow  = 0.3

	proofRun = 2 * time.Second
)

func plantedProofs() []plantedProof {
	return []plantedProof{
		{"generator", "answers in 1,500 chunks, dear to read", record.PerturbGenerator, record.LoadGenerator,
			host{kind: "loop", params: planted.Params{N: 1, Bytes: 1500, Chunks: 1500}}, nil, 64},
		{"server-cpu", "150 µs of CPU for each request", record.PerturbServer, record.ServerCPU,
			host{kind: "cpu", params: planted.Params{CPU: 150 * time.Microsecond}}, nil, 64},
		{"bandwidth", "a link of 80 Mbit/s, answers of 20 kB", record.PerturbLink, record.Bandwidth,
			host{kind: "loop", params: planted.Params{N: 1, Bytes: 20_000}}, &link{bitsPerS: 80e6}, 32},
		{"concurrency", "every request sleeps 20 ms, 16 in flight", record.PerturbConcurrency, record.Concurrency,
			host{kind: "sleep", params: planted.Params{Sleep: 20 * time.Millisecond}}, nil, 16},
		{"pool", "6 places, each kept for 10 ms", "", record.ServerBlocked,
			host{kind: "pool", params: planted.Params{N: 6, Sleep: 10 * time.Millisecond}}, nil, 64},
	}
}

// Proofs plants bottlenecks and proves each by experiment: the planted resource must be the
// proved one, and if it is a rate, the elasticities must add up to one. Each takes 33 or 41 runs.
func Proofs(ctx context.Context, o ProofOptions) ([]ProofResult, error) {
	if _, err := sweep(); err != nil {
		return nil, err
	}
	g, err := survey(ctx)
	if err != nil {
		return nil, err
	}
	if o.Program == "" {
		if o.Program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	var results []ProofResult
	for i, p := range plantedProofs() {
		if len(o.Only) > 0 && !slices.Contains(o.Only, p.name) {
			continue
		}
		r := o.prove(ctx, &g, &p, i+1)
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
		results = append(results, r)
		if o.Told != nil {
			o.Told(r)
		}
	}
	return results, nil
}

// prove stages one bottleneck and judges its proof.
func (o *ProofOptions) prove(ctx context.Context, g *prereqs, p *plantedProof, number int) (r ProofResult) {
	began := time.Now()
	r = ProofResult{Name: p.name, Planted: p.says, Proved: p.proved, Bottleneck: p.ceiling}
	defer func() { r.Took = time.Since(began) }()
	if r.Why = g.lacks(need{twoCPUs: true, namespaces: p.link != nil}); r.Why != "" {
		r.Judged = NotRun
		return r
	}
	st, err := setUp(ctx, o.Program, g, number, &plan{subject: p.subject, link: p.link})
	if err == nil {
		r.Proof, r.Others, err = o.experiment(ctx, st, p, number)
	}
	if err = errors.Join(err, st.teardown()); err != nil {
		r.Judged, r.Why = Failed, err.Error()
		return r
	}
	if r.Judged, r.Why = p.judge(r.Proof); r.Judged == Wrong && r.Others > othersMax {
		r.Judged, r.Why = Disturbed, fmt.Sprintf("%s; other processes used %.1f cores", r.Why, r.Others)
	}
	return r
}

// experiment runs the proof.
func (o *ProofOptions) experiment(ctx context.Context, st *fixture, p *plantedProof, number int) (*record.Proof, float64, error) {
	e := spec.Experiment{
		Kind: spec.KindProve, Question: p.says, Repeats: o.Blocks,
		Servers:  []spec.Server{{URL: "http://" + st.addr}},
		Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/"}}},
		Load:     spec.Load{Connections: []spec.Count{p.connections}, Duration: spec.Time(cmp.Or(o.Run, proofRun))},
	}
	if p.link != nil {
		e.Prove.Interface, e.Prove.Namespace = netns.Interface, netns.Name(number)
	}
	e.Complete(o.Seed + 1)
	if err := e.Check(); err != nil {
		return nil, 0, err
	}
	dir := o.Keep
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "ceiling-proof-"); err != nil {
			return nil, 0, err
		}
		defer os.RemoveAll(dir)
	}
	before, err := use(st.groups)
	if err != nil {
		return nil, 0, err
	}
	made, _, err := run.Explore(ctx, e, run.Options{Out: filepath.Join(dir, p.name), Version: o.Version, Program: o.Program}, nil)
	if err != nil {
		return nil, 0, err
	}
	after, err := use(st.groups)
	if err == nil && made.Ended != record.EndedComplete {
		err = fmt.Errorf("%s: %s", made.Ended, made.Because)
	}
	return made.Proof, after.others(before), err
}

// judge compares a proof with the plant.
func (p *plantedProof) judge(proof *record.Proof) (judged, why string) {
	var wrong []string
	if proof.Proved != p.proved {
		wrong = append(wrong, fmt.Sprintf("%q is proved", proof.Proved))
	}
	switch {
	case p.proved != "" && p.proved != record.PerturbConcurrency:
		if s := proof.Sum.Mid; !(s >= 1-sumWithin && s <= 1+sumWithin) {
			wrong = append(wrong, fmt.Sprintf("the elasticities add to %.2f", s))
		}
	case !(proof.Sum.Mid <= sumBelow):
		wrong = append(wrong, fmt.Sprintf("the elasticities of the rates add to %.2f", proof.Sum.Mid))
	}
	if proof.Agrees == contradicted || p.proved == "" && proof.Agrees != agreed {
		wrong = append(wrong, fmt.Sprintf("the untouched runs name %s: %s", proof.Passive, proof.Agrees))
	}
	if len(wrong) > 0 {
		return Wrong, strings.Join(wrong, "; ")
	}
	return Right, ""
}

// Values of record.Proof.Agrees.
const (
	agreed       = "agrees"
	contradicted = "contradicts"
)
