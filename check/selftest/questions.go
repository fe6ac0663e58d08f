package selftest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/measure/netns"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// examine makes the plan's experiment. Without servers it is about the subject.
func examine(ctx context.Context, o *Options, st *fixture, p *plan, number int, out string) (*record.Plan, error) {
	e := p.Experiment
	for i := range e.Servers {
		e.Servers[i].Env = []string{"PROGRAM=" + o.Program}
	}
	if e.Servers == nil {
		e.Servers = []spec.Server{{URL: "http://" + st.addr}}
	}
	if p.Bits > 0 {
		e.Prove.Interface, e.Prove.Namespace = netns.Interface, netns.Name(number)
	}
	e.Complete(1)
	if err := e.Check(); err != nil {
		return nil, err
	}
	made, _, err := run.Explore(ctx, e, run.Options{Out: out, Command: []string{"ceiling", "selftest"}, Version: o.Version, Program: o.Program}, nil)
	if err == nil && made.Search == nil && (made.Ended != record.EndedComplete || made.Proof == nil && made.Comparison == nil) {
		err = fmt.Errorf("%s: %s", made.Ended, prose.Text(made.Because))
	}
	return made, err
}

// answered names the experiment's answer, which is right if it is the accepted one, and says what it rests on. closed is
// the rate of a closed loop before a search.
func (p *plan) answered(made *record.Plan, closed float64) (named, says string) {
	switch {
	case made.Proof != nil:
		return judgeProof(made.Proof, p.Accept[0])
	case made.Comparison != nil:
		return judgePair(made.Comparison, p.Accept[0])
	case p.Load.Arrivals == spec.Poisson:
		closed = queueRate(searchPlaces, searchPlaces/closed, p.SLO[0].Limit/1e9, p.Seed)
	}
	return judgeSearch(made.Search.Capacity.Mid, closed)
}

const (
	// sumWithin is how far the sum of the rates' elasticities may be from 1 if a rate was
	// planted; otherwise the sum must stay below sumBelow.
	sumWithin = 0.2
	sumBelow  = 0.3
	// nothing is proved if no resource that can be perturbed is the bottleneck.
	nothing = "nothing"
)

// judgeProof compares a proof with the planted resource.
func judgeProof(proof *record.Proof, planted string) (named, says string) {
	named = cmp.Or(proof.Proved, nothing)
	switch sum := proof.Sum.Mid; {
	case planted != nothing && planted != record.PerturbConcurrency && !(math.Abs(sum-1) <= sumWithin):
		named += ", but the elasticities do not add to 1"
	case (planted == nothing || planted == record.PerturbConcurrency) && !(sum <= sumBelow):
		named += ", but the elasticities of the rates add to more than 0"
	}
	if proof.Agrees == "contradicts" || planted == nothing && proof.Agrees != "agrees" {
		named += ", but the untouched runs do not agree"
	}
	return named, fmt.Sprintf("elasticities add to %.2f (%.2f–%.2f); the untouched runs name %s: %s", proof.Sum.Mid, proof.Sum.Low,
		proof.Sum.High, proof.Passive, proof.Agrees)
}

// The subject of a search serves so many requests at a time. Its capacity is measured before each search, since sleeps
// last slightly longer than requested: a closed loop that keeps all places busy reaches places / service.
const (
	searchPlaces = 8
	searchError  = 0.05
)

func judgeSearch(answer, truth float64) (named, says string) {
	named, says = "its capacity", fmt.Sprintf("%.0f/s of %.0f/s, %+.1f%%", answer, truth, 100*(answer/truth-1))
	if !(math.Abs(answer-truth) <= searchError*truth) {
		named = "another rate"
	}
	return named, says
}

// queueRate returns the rate of Poisson arrivals, per second, at which the p99 of the time in a
// queue with equal service times reaches a limit (seconds): by simulation, with the same arrivals
// scaled to every rate, so that p99 grows monotonically.
func queueRate(places int, service, limit float64, seed uint64) float64 {
	const steps = 1 << 14
	step := float64(places) / service / steps
	return step * float64(sort.Search(steps, func(i int) bool { return queueP99(places, service, step*float64(i+1), seed) > limit }))
}

func queueP99(places int, service, perS float64, seed uint64) float64 {
	chance := rand.New(rand.NewPCG(seed, 99))
	free := make([]float64, places) // when each place becomes free: in turn, since all serve equally long
	took := make([]float64, 400_000)
	var now float64
	for i := range took {
		now += chance.ExpFloat64() / perS
		place := &free[i%places]
		*place = max(now, *place) + service
		took[i] = *place - now
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// judgePair names the planted change if it was seen; others may follow from it. Where none is planted,
// it names every change: a false alarm.
func judgePair(c *record.Comparison, planted string) (named, says string) {
	if c.Incomparable != nil {
		return "", prose.Sentence(c.Incomparable)
	}
	var changes, all []string
	for i := range c.Changes {
		ch := &c.Changes[i]
		what := ch.Metric + " " + ch.Decision
		all = append(all, fmt.Sprintf("%s (%+.2f%% to %+.2f%%)", what, ch.Relative.Low*100, ch.Relative.High*100))
		if ch.Decision == record.Better || ch.Decision == record.Worse {
			changes = append(changes, what)
		}
	}
	if slices.Contains(changes, planted) {
		changes = []string{planted}
	}
	return cmp.Or(strings.Join(changes, ", "), record.NoChange), fmt.Sprintf("%d blocks: %s", c.Blocks, strings.Join(all, ", "))
}
