package selftest

import (
	"math"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/record/recordtest"
)

// TestQuestionsAreAnswered takes minutes: it runs where it is asked for.
//
//	CEILING_QUESTIONS=all go test ./check/selftest -run QuestionsAreAnswered -v -timeout 30m
//	CEILING_QUESTIONS=prove-pool,same-fiber go test …
//
// On a machine that others use, chrt -r 1 before it makes both sides of a proof
// real-time threads, below the hog's priority.
func TestQuestionsAreAnswered(t *testing.T) {
	names := strings.Split(needs.Asking(t, "CEILING_QUESTIONS"), ",")
	if names[0] == "all" {
		names = nil
		for _, s := range Questions() {
			names = append(names, s.Name)
		}
	}
	areNamed(t, Options{Seed: 1, Only: names})
}

func TestEveryQuestionCanBeAsked(t *testing.T) {
	names := map[string]bool{}
	for _, s := range All() {
		if names[s.Name] || s.Name == "" || s.Planted == "" {
			t.Errorf("%q: a name of its own and a line are wanted", s.Name)
		}
		names[s.Name] = true
	}
	for _, s := range Questions() {
		p, again := drawn(&s, 1, 1), drawn(&s, 1, 2)
		e := p.Experiment
		if e.Servers == nil {
			e.Servers = []spec.Server{{URL: "http://127.0.0.1:80"}}
		}
		e.Complete(1)
		if err := e.Check(); err != nil || len(p.Accept) != 1 || e.Seed == again.Seed {
			t.Errorf("%s: %v; right is %v; seeds %d and %d", s.Name, err, p.Accept, e.Seed, again.Seed)
		}
	}
}

func TestProofsAreJudged(t *testing.T) {
	sum := func(proved string, sum float64, agrees string) record.Proof {
		return record.Proof{Proved: proved, Sum: record.Estimate{Mid: sum}, Agrees: agrees}
	}
	for _, c := range []struct {
		planted string
		proof   record.Proof
		right   bool
	}{
		{record.PerturbServer, sum(record.PerturbServer, 1.1, "inconclusive"), true},
		{record.PerturbServer, sum(record.PerturbServer, 1.3, "agrees"), false},
		{record.PerturbServer, sum(record.PerturbServer, math.NaN(), "agrees"), false},
		{record.PerturbServer, sum(record.PerturbServer, 1, "contradicts"), false},
		{record.PerturbServer, sum("", 1, "agrees"), false},
		{record.PerturbConcurrency, sum(record.PerturbConcurrency, 0.1, "inconclusive"), true},
		{nothing, sum("", 0.1, "agrees"), true},
		{nothing, sum("", 0.1, "inconclusive"), false},
		{nothing, sum("", 0.5, "agrees"), false},
	} {
		if named, says := judgeProof(&c.proof, c.planted); (named == c.planted) != c.right {
			t.Errorf("%s, %+v: %s: %s", c.planted, c.proof, named, says)
		}
	}
}

func TestPairsAreJudged(t *testing.T) {
	answer := func(rps, cpu string) *record.Comparison {
		return &record.Comparison{Changes: []record.Change{{Metric: "rps", Decision: rps}, {Metric: "server_cpu", Decision: cpu}}}
	}
	for _, c := range []struct {
		planted string
		answer  *record.Comparison
		named   string
	}{
		{record.NoChange, answer(record.NoChange, record.CannotTell), record.NoChange},
		{record.NoChange, answer(record.Better, record.Worse), "rps better, server_cpu worse"},
		{"server_cpu worse", answer(record.Worse, record.Worse), "server_cpu worse"},
		{"server_cpu worse", answer(record.Worse, record.Better), "rps worse, server_cpu better"},
		{"server_cpu worse", answer(record.NoChange, record.NoChange), record.NoChange},
		{record.NoChange, &record.Comparison{Incomparable: recordtest.Says("B fails: 503")}, ""},
	} {
		if named, says := judgePair(c.answer, c.planted); named != c.named || says == "" {
			t.Errorf("%+v is %q: %s, want %q", c.answer, named, says, c.named)
		}
	}
}

func TestSearchesAreJudged(t *testing.T) {
	for answer, want := range map[float64]string{104: "its capacity", 96: "its capacity", 106: "another rate", math.NaN(): "another rate"} {
		if named, says := judgeSearch(answer, 100); named != want {
			t.Errorf("%v: %s, %s", answer, named, says)
		}
	}
}

// TestQueueRate: one place is the M/D/1 queue, whose mean wait is known, and
// eight nearly idle ones serve as fast as they can.
func TestQueueRate(t *testing.T) {
	needs.Time(t)
	if p99 := queueP99(8, 0.01, 1, 1); math.Abs(p99-0.01) > 1e-9 {
		t.Errorf("p99 of an idle queue is %v s, want its service of 0.01", p99)
	}
	rate := queueRate(8, 0.01, 0.017, 1)
	if rate < 300 || rate > 790 {
		t.Errorf("17 ms hold up to %v/s of 800", rate)
	}
	if below, above := queueP99(8, 0.01, rate*0.99, 1), queueP99(8, 0.01, rate*1.01, 1); below > 0.017 || above < 0.017 {
		t.Errorf("around %v/s p99 is %v and %v s", rate, below, above)
	}
	if again := queueRate(8, 0.01, 0.017, 2); math.Abs(again/rate-1) > 0.02 {
		t.Errorf("another seed says %v/s, not %v", again, rate)
	}
}
