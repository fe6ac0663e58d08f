package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// factorialOf has so many factors of two levels, a and b: a0 against a1.
func factorialOf(t *testing.T, seed uint64, levels ...int) *spec.Experiment {
	t.Helper()
	e := &spec.Experiment{
		Kind: spec.KindFactorial, Seed: seed, Servers: []spec.Server{{Name: "s", Serve: "serve {addr}"}},
		Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/"}}},
	}
	for i, n := range levels {
		f := spec.Factor{Name: string(rune('a' + i))}
		for l := range n {
			f.Levels = append(f.Levels, spec.Level{Env: []string{fmt.Sprintf("%s=%d", strings.ToUpper(f.Name), l)}, Name: fmt.Sprint(l)})
		}
		e.Factorial.Factors = append(e.Factorial.Factors, f)
	}
	e.Complete(seed)
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	return e
}

// effects are what is planted on the rate, as a ratio, by the levels of a cell.
type plantedEffects func(cell []int) float64

// simulateFactorial makes all runs, on a machine whose noise knows nothing of cells.
func simulateFactorial(e *spec.Experiment, m *machine, by plantedEffects) *record.Plan {
	p := &record.Plan{Experiment: *e}
	steps := Enumerate(e)
	for i, s := range steps {
		ratio := by(s.Cell)
		run := m.run(s, float64(i)/float64(len(steps)), planted{1, 1, 1})
		run.CompletedPerS *= ratio
		run.Completed = uint64(2 * run.CompletedPerS)
		p.Runs = append(p.Runs, run)
	}
	Conclude(p)
	return p
}

func nothing([]int) float64 { return 1 }

func effect(t *testing.T, p *record.Plan, metric, factor, with string) *record.Effect {
	t.Helper()
	for i := range p.Factorial.Effects {
		x := &p.Factorial.Effects[i]
		if x.Metric == metric && x.Factor == factor && x.With == with {
			return x
		}
	}
	t.Fatalf("no effect of %s (with %q) on %s: %+v", factor, with, metric, p.Factorial.Effects)
	return nil
}

// TestFactorialIsSpelled: every block has every cell once, in an order of its own, and
// the same seed gives the same.
func TestFactorialIsSpelled(t *testing.T) {
	e := factorialOf(t, 3, 2, 3)
	steps := Enumerate(e)
	blocks := FactorialBlocks(e)
	if len(steps) != 1+6*blocks || !steps[0].WarmupRun || blocks < 18 {
		t.Fatalf("%d steps of %d blocks", len(steps), blocks)
	}
	orders := map[string]bool{}
	for b := range blocks {
		seen, order := map[string]bool{}, ""
		for _, s := range steps[1+6*b : 7+6*b] {
			if s.Block != b+1 || !s.Restart || s.WarmupRun {
				t.Errorf("step %+v in block %d", s, b+1)
			}
			seen[fmt.Sprint(s.Cell)] = true
			order += fmt.Sprint(s.Cell)
		}
		if len(seen) != 6 {
			t.Errorf("block %d has %d of 6 cells", b+1, len(seen))
		}
		orders[order] = true
	}
	if len(orders) < blocks/2 {
		t.Errorf("%d orders in %d blocks", len(orders), blocks)
	}
	if again := Enumerate(factorialOf(t, 3, 2, 3)); fmt.Sprint(again) != fmt.Sprint(steps) {
		t.Error("the same seed gives another order")
	}
	if other := Enumerate(factorialOf(t, 4, 2, 3)); fmt.Sprint(other) == fmt.Sprint(steps) {
		t.Error("another seed gives the same order")
	}
}

// TestContrastsAreExact: without noise the ratios come out as planted, in a whole grid,
// with three levels, and in a list of cells.
func TestContrastsAreExact(t *testing.T) {
	quiet := func() *machine { m := newMachine(1); m.own, m.neighbours, m.drift, m.disturbed = 0, 0, 0, 0; return m }
	near := func(x *record.Effect, want float64) {
		t.Helper()
		if math.Abs(x.Relative.Mid-(want-1)) > 1e-4 { // requests are whole
			t.Errorf("%s %d with %q: %v, want %v", x.Factor, x.Level, x.With, x.Relative.Mid, want-1)
		}
	}
	// a raises by 1.2, b by 1.5, and where both are on 1.1 comes on top.
	p := simulateFactorial(factorialOf(t, 1, 2, 2), quiet(), func(c []int) float64 {
		return math.Pow(1.2, float64(c[0])) * math.Pow(1.5, float64(c[1])) * math.Pow(1.1, float64(c[0]*c[1]))
	})
	near(effect(t, p, metricRPS, "a", ""), 1.2*math.Sqrt(1.1))
	near(effect(t, p, metricRPS, "b", ""), 1.5*math.Sqrt(1.1))
	both := effect(t, p, metricRPS, "a", "b")
	near(both, 1.1)
	if math.Abs(both.Given[0].Mid-.2) > 1e-4 || math.Abs(both.Given[1].Mid-.32) > 1e-4 {
		t.Errorf("a given b: %+v", both.Given)
	}
	if x := effect(t, p, metricCPU, "a", ""); x.Relative.Mid != 0 || x.Pairs != 2 {
		t.Errorf("CPU: %+v", x)
	}
	p = simulateFactorial(factorialOf(t, 1, 3, 2, 2), quiet(), func(c []int) float64 { return []float64{1, 2, .5}[c[0]] })
	for _, x := range p.Factorial.Effects {
		if x.Metric == metricRPS && x.Factor == "a" && x.With == "" {
			near(&x, []float64{1, 2, .5}[x.Level])
			if x.Pairs != 4 {
				t.Errorf("%d pairs", x.Pairs)
			}
		}
	}
	if len(p.Factorial.Effects) != 3*(2+1+1+2+2+1) {
		t.Errorf("%d effects", len(p.Factorial.Effects))
	}
	// Three of four cells: both factors, but not how they interact.
	e := factorialOf(t, 1, 2, 2)
	e.Factorial.Cells = [][]string{{"0", "0"}, {"1", "0"}, {"0", "1"}}
	p = simulateFactorial(e, quiet(), func(c []int) float64 { return 1 + .25*float64(c[1]) })
	near(effect(t, p, metricRPS, "b", ""), 1.25)
	if len(p.Factorial.Effects) != 2*3 || p.Factorial.Comparisons != 6 {
		t.Errorf("%d effects", len(p.Factorial.Effects))
	}
	if !slices.ContainsFunc(p.Factorial.Caveats, func(s record.Statement) bool {
		return prose.Text(s) == "the cells listed do not allow an estimate of: a × b"
	}) {
		t.Errorf("caveats %q", prose.Texts(p.Factorial.Caveats))
	}
}

// TestNoFactorRaisesFewAlarms: of a whole experiment, whichever of its effects is to
// blame.
func TestNoFactorRaisesFewAlarms(t *testing.T) {
	needs.Time(t)
	for name, on := range map[string]func(uint64) *machine{"quiet machine": newMachine, "busy machine": newBusyMachine} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alarms, decisions, n := 0, map[string]int{}, pairs()
			for i := range uint64(n) {
				p := simulateFactorial(factorialOf(t, i+1, 2, 2), on(i+1), nothing)
				alarmed := false
				for _, x := range p.Factorial.Effects {
					decisions[x.Metric+" "+x.Decision]++
					alarmed = alarmed || x.Decision == record.Higher || x.Decision == record.Lower
				}
				if alarmed {
					alarms++
				}
			}
			t.Logf("%d alarms in %d: %v", alarms, n, decisions)
			if most := .05*float64(n) + 2*math.Sqrt(.05*.95*float64(n)); float64(alarms) > most {
				t.Errorf("%d of %d experiments saw an effect where there is none, want at most %.0f", alarms, n, most)
			}
			if name == "quiet machine" && float64(decisions[metricCPU+" "+record.NoChange]) < .5*3*float64(n) {
				t.Errorf("no effect on the CPU was said in %d of %d", decisions[metricCPU+" "+record.NoChange], 3*n)
			}
		})
	}
}

// TestPlantedEffectsAreFound, main effects and an interaction, each in nine of ten; and
// their intervals hold the truth as often as they promise.
func TestPlantedEffectsAreFound(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	const a, ab = 1.06, .9
	truth := map[[2]string]float64{{"a", ""}: a * math.Sqrt(ab), {"b", ""}: math.Sqrt(ab), {"a", "b"}: ab}
	found, covered, n := map[[2]string]int{}, 0, pairs()
	for i := range uint64(n) {
		p := simulateFactorial(factorialOf(t, i+1, 2, 2), newMachine(3000+i), func(c []int) float64 {
			return math.Pow(a, float64(c[0])) * math.Pow(ab, float64(c[0]*c[1]))
		})
		all := true
		for of, want := range truth {
			x := effect(t, p, metricRPS, of[0], of[1])
			if want > 1 && x.Decision == record.Higher || want < 1 && x.Decision == record.Lower {
				found[of]++
			}
			all = all && x.Relative.Low <= want-1 && want-1 <= x.Relative.High
		}
		if all {
			covered++
		}
	}
	t.Logf("of %d: found %v, all intervals hold the truth in %d", n, found, covered)
	if least := .9*float64(n) - 2*math.Sqrt(.9*.1*float64(n)); float64(found[[2]string{"a", "b"}]) < least ||
		float64(found[[2]string{"b", ""}]) < least {
		t.Errorf("found %v of %d, want %.0f", found, n, least)
	}
	if least := .95*float64(n) - 2*math.Sqrt(.95*.05*float64(n)); float64(covered) < least {
		t.Errorf("the intervals hold the truth in %d of %d experiments, want %.0f", covered, n, least)
	}
}

// TestMoreBlocksSettle: what is not settled names a number of blocks, and with twice that
// it is settled.
func TestMoreBlocksSettle(t *testing.T) {
	needs.Time(t)
	settled, asked := 0, 0
	for i := range uint64(20) {
		e := factorialOf(t, i+1, 2, 2)
		e.Repeats, e.Factorial.Within = 10, .02
		by := func(c []int) float64 { return 1 }
		x := effect(t, simulateFactorial(e, newMachine(i), by), metricRPS, "a", "")
		if x.Decision != record.CannotTell || x.MoreBlocks == 0 {
			continue
		}
		asked++
		e.Repeats += 2 * x.MoreBlocks
		if x := effect(t, simulateFactorial(e, newMachine(i+100), by), metricRPS, "a", ""); x.Decision == record.NoChange {
			settled++
		}
	}
	if t.Logf("%d of %d", settled, asked); asked < 5 || settled < asked*2/3 {
		t.Errorf("%d of %d are settled with twice the blocks that were said", settled, asked)
	}
}

// TestInvalidRunsAreNotUsed: a block that lacks a cell is left out of the effects that take
// it, a cell that never counts out of all; both are said.
func TestInvalidRunsAreNotUsed(t *testing.T) {
	e, calm := factorialOf(t, 5, 2, 2), newMachine(1)
	calm.disturbed = 0
	p := simulateFactorial(e, calm, nothing)
	for i := range p.Runs {
		m := &p.Runs[i]
		if m.Block <= 3 && m.Cell[0] == 1 && m.Cell[1] == 0 {
			m.Outcome, m.CompletedPerS, m.Completed = record.Invalid, 1, 2
			m.Because = []record.Statement{record.State("said", record.Values{"text": "no good"})}
		}
	}
	Conclude(p)
	blocks := FactorialBlocks(e)
	if x := effect(t, p, metricRPS, "a", "b"); x.Blocks != blocks-3 || x.Decision == record.Lower {
		t.Errorf("%+v", x)
	}
	has := func(want string) {
		t.Helper()
		if texts := prose.Texts(p.Factorial.Caveats); !slices.Contains(texts, want) {
			t.Errorf("caveats %q, want %q", texts, want)
		}
	}
	has(fmt.Sprintf("a=1, b=0: 3 of %d runs are invalid (no good)", blocks))
	for i := range p.Runs {
		if m := &p.Runs[i]; m.Cell[0] == 1 && m.Cell[1] == 1 {
			m.Outcome, m.Because = record.Invalid, nil
		}
	}
	Conclude(p)
	has(fmt.Sprintf("a=1, b=1 is excluded from the effects: %d of %d runs are invalid", blocks, blocks))
	if x := effect(t, p, metricRPS, "a", ""); x.Pairs != 1 || x.Blocks != blocks-3 {
		t.Errorf("a: %+v", x)
	}
	if x := effect(t, p, metricRPS, "a", "b"); x.Pairs != 0 || x.Says.Code != "interaction.not-measured" || x.Decision != record.CannotTell {
		t.Errorf("a × b: %+v", x)
	}
	if c := p.Factorial.Cells[3]; !c.LeftOut || c.Invalid != blocks || len(c.PerS.Warnings) == 0 {
		t.Errorf("cell %+v", c)
	}
	for i := range p.Runs {
		p.Runs[i].Outcome = record.Invalid
	}
	if Conclude(p); p.Exit != exitInvalid {
		t.Errorf("exit %d of nothing that counts", p.Exit)
	}
}

// TestLostBlocksAreReckonedWith: where half of the blocks do not count, twice as many more
// are needed.
func TestLostBlocksAreReckonedWith(t *testing.T) {
	e := factorialOf(t, 5, 2, 2)
	e.Repeats, e.Factorial.Within = 16, .001
	p := simulateFactorial(e, newMachine(1), nothing)
	for i := range p.Runs {
		if m := &p.Runs[i]; m.Block > 8 {
			m.Outcome = record.Invalid
		}
	}
	Conclude(p)
	x := effect(t, p, metricRPS, "a", "")
	if x.Blocks != 8 || x.MoreBlocks == 0 || x.MoreBlocks%2 != 0 {
		t.Errorf("%d more blocks with 8 of 16: %+v", x.MoreBlocks, x)
	}
}

// An experiment that is under way has an answer of the blocks that are whole.
func TestFactorialUnderWay(t *testing.T) {
	needs.Time(t)
	e := factorialOf(t, 6, 2, 2)
	p := simulateFactorial(e, newMachine(1), nothing)
	for _, n := range []int{0, 1, 4, 5, 7, 9} {
		p.Runs = p.Runs[:min(n, len(p.Runs))]
		p = &record.Plan{Experiment: *e, Runs: simulateFactorial(e, newMachine(1), nothing).Runs[:n]}
		Conclude(p)
		if whole := max(n-1, 0) / 4; p.Factorial.Blocks != whole || p.Says().IsZero() || chancesOf(p) != 0 {
			t.Errorf("%d runs: %+v", n, p.Factorial)
		}
	}
}

// chancesOf counts effects that are said of too few blocks.
func chancesOf(p *record.Plan) int {
	n := 0
	for _, x := range p.Factorial.Effects {
		if x.Decision != record.CannotTell {
			n++
		}
	}
	return n
}

// FuzzContrasts: a contrast of any cells adds as many as it subtracts, and takes each
// cell of a term once.
func FuzzContrasts(f *testing.F) {
	f.Add(uint64(1), 2, 2)
	f.Fuzz(func(t *testing.T, seed uint64, a, b int) {
		levels := []int{2 + min(max(a, 0), 3), 2 + min(max(b, 0), 3), 2}
		chance := rand.New(rand.NewPCG(seed, 1))
		var cells [][]int
		for x := range levels[0] {
			for y := range levels[1] {
				for z := range levels[2] {
					if chance.IntN(3) > 0 {
						cells = append(cells, []int{x, y, z})
					}
				}
			}
		}
		for _, k := range contrastsOf(levels) {
			for _, term := range k.terms(cells) {
				all := slices.Concat(term.plus, term.minus)
				slices.Sort(all)
				if len(term.plus) != len(term.minus) || len(slices.Compact(all)) != 2*len(term.plus) {
					t.Errorf("%+v: %+v", k, term)
				}
			}
		}
	})
}
