package plan

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/needs"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/record/recordtest"
	"ceiling/verdict/prose"
)

func TestComparisonIsSpelledInBlocks(t *testing.T) {
	firsts := map[string]int{}
	for seed := range uint64(50) {
		e := compared(t, seed+1)
		steps := Enumerate(e)
		blocks, noise := CompareBlocks(e)
		if blocks != 18 || noise != 9 || len(steps) != 3+4*(18+9) {
			t.Fatalf("%d blocks, %d of noise, %d steps", blocks, noise, len(steps))
		}
		byBlock := map[int]string{}
		var noiseAt []int
		for i, s := range steps {
			if s.Number != i+1 || s.WarmupRun != (i < 3) || s.Connections != 64 || s.Pipelining != 1 {
				t.Fatalf("step %d: %+v", i, s)
			}
			wantServer := 0
			if s.Side == SideB && !s.Noise {
				wantServer = 1
			}
			if s.Server != wantServer {
				t.Fatalf("step %+v loads server %d", s, s.Server)
			}
			if !s.WarmupRun {
				byBlock[s.Block] += s.Side
				if s.Noise && !slices.Contains(noiseAt, s.Block) {
					noiseAt = append(noiseAt, s.Block)
				}
				if s.Restart != (len(byBlock[s.Block]) == 1) {
					t.Fatalf("step %+v: restart %v", s, s.Restart)
				}
			}
		}
		for n, order := range byBlock {
			if order != "ABBA" && order != "BAAB" {
				t.Fatalf("block %d is %s", n, order)
			}
			firsts[order]++
		}
		for i, at := range noiseAt { // one in each ninth of the plan
			if third := (at - 1) / 3; third != i {
				t.Fatalf("noise in blocks %v", noiseAt)
			}
		}
		if again := Enumerate(e); !reflect.DeepEqual(steps, again) {
			t.Fatal("the same seed spells another plan")
		}
	}
	if a, b := firsts["ABBA"], firsts["BAAB"]; a < 570 || b < 570 { // of 1350, 675 ± 18
		t.Errorf("blocks begin %v", firsts)
	}
}

func TestAskedBlocksAreMade(t *testing.T) {
	e := compared(t, 1)
	e.Compare.Blocks, e.Compare.NoiseBlocks = 3, 7
	if n := len(Enumerate(e)); n != 3+40 {
		t.Errorf("%d steps", n)
	}
	p := simulate(e, newMachine(1), planted{1, 2, 1})
	if c := decisionOf(t, p, metricCPU); c.Decision != record.CannotTell || c.Relative.Confidence != 0 {
		t.Errorf("3 blocks decide: %+v", c)
	}
	if says := prose.Text(p.Comparison.Says); !strings.Contains(says, "3 blocks cannot reach") {
		t.Error(says)
	}
}

func TestOpenLoopComparesNoRate(t *testing.T) {
	e := compared(t, 1)
	rate, err := unit.ParseRate("1000")
	if err != nil {
		t.Fatal(err)
	}
	e.Load.Rate = []unit.Rate{rate}
	steps := Enumerate(e)
	if steps[0].Rate != rate || len(steps) != 3+4*(15+8) {
		t.Fatalf("%d steps, rate %v", len(steps), steps[0].Rate)
	}
	p := simulate(e, newMachine(1), planted{1, 1, 1})
	if len(p.Comparison.Changes) != 3 || p.Comparison.Changes[0].Metric == metricRPS {
		t.Errorf("changes %+v", p.Comparison.Changes)
	}
	e.Compare.FailOn = "rps<-5%"
	if err := CheckGate(e); err == nil || !strings.Contains(err.Error(), "-R fixes the rate") {
		t.Errorf("a gate on the asked rate: %v", err)
	}
}

// altered changes runs of a simulated comparison before it is concluded again.
func altered(p *record.Plan, change func(m *record.Measured)) *record.Comparison {
	for i := range p.Runs {
		change(&p.Runs[i])
	}
	Conclude(p)
	return p.Comparison
}

func has(list []record.Statement, part string) bool {
	return slices.ContainsFunc(list, func(s record.Statement) bool { return strings.Contains(prose.Text(s), part) })
}

func TestAnswerIsOneSentence(t *testing.T) {
	p := simulate(compared(t, 3), newMachine(3), planted{.9, 1.1, 1})
	c := p.Comparison
	for _, part := range []string{"B is worse than A: ", "requests per second", "server CPU per request", "no change in p99 within ±"} {
		if !strings.Contains(prose.Text(c.Says), part) {
			t.Errorf("%q lacks %q", c.Says, part)
		}
	}
	if c.A != "old" || c.B != "new" || c.Blocks != 18 || c.NoiseBlocks != 9 || p.Exit != 0 {
		t.Errorf("%+v, exit %d", c, p.Exit)
	}
	if len(c.Differences) != 1 || c.Differences[0].What != "server url" {
		t.Errorf("differences %+v", c.Differences)
	}
	if _, err := json.Marshal(p); err != nil {
		t.Error(err)
	}
}

// TestFewBlocksSayWhatIsNeeded: no change is large enough for four blocks, and the answer says how many are.
func TestFewBlocksSayWhatIsNeeded(t *testing.T) {
	e := compared(t, 3)
	e.Compare.Blocks = 4
	c := simulate(e, newMachine(3), planted{.4, 1, 1}).Comparison
	if got := prose.Text(c.Says); !strings.Contains(got, "4 blocks cannot reach a joint 95% for 4 metrics") || !strings.Contains(got, "give --blocks 8") {
		t.Error(got)
	}
	e.Compare.Blocks = 8
	if got := prose.Text(simulate(e, newMachine(3), planted{.4, 1, 1}).Comparison.Says); !strings.Contains(got, "B is worse than A: requests per second") {
		t.Errorf("the number that was advised: %s", got)
	}
}

// TestUnknownBottlenecksDoNotDiffer: "limited by inconclusive" is no sentence.
func TestUnknownBottlenecksDoNotDiffer(t *testing.T) {
	for _, k := range []struct {
		a, b record.Bottleneck
		says bool
	}{{record.ServerCPU, record.Bandwidth, true}, {record.ServerCPU, record.Inconclusive, false}, {"", record.ServerCPU, false}} {
		if s := twoBottlenecks(k.a, k.b); s.IsZero() == k.says {
			t.Errorf("%s and %s: %s", k.a, k.b, s)
		}
	}
}

func TestVoidRunsSpoilTheirBlock(t *testing.T) {
	p := simulate(compared(t, 3), newMachine(3), planted{1, 1, 1})
	spoilt := p.Runs[10].Block
	c := altered(p, func(m *record.Measured) {
		if m.Block == spoilt && m.Side == SideA {
			m.Outcome, m.Bottleneck, m.Because = record.Invalid, "inconclusive", recordtest.Says("Little's law does not hold")
		}
	})
	if c.Blocks+c.NoiseBlocks != 26 || !has(c.Caveats, "was excluded: run") || !has(c.Caveats, "Little's law") {
		t.Errorf("%d blocks, %d of noise, doubts %q", c.Blocks, c.NoiseBlocks, c.Caveats)
	}
}

func TestUnfinishedPlanIsConcluded(t *testing.T) {
	needs.Time(t)
	p := simulate(compared(t, 3), newMachine(3), planted{1, 1, 1})
	for n := range p.Runs {
		q := &record.Plan{Experiment: p.Experiment, Runs: p.Runs[:n]}
		Conclude(q)
		if q.Comparison == nil || q.Comparison.Blocks > n/4 {
			t.Fatalf("%d runs: %+v", n, q.Comparison)
		}
	}
}

func TestFailingSideIsTheAnswer(t *testing.T) {
	for _, c := range []struct {
		side, failOn string
		exit         int
	}{{SideB, "", 4}, {SideB, "cpu>+5%", 3}, {SideA, "cpu>+5%", 4}} {
		e := compared(t, 3)
		e.Compare.FailOn = c.failOn
		p := simulate(e, newMachine(3), planted{1, 1, 1})
		got := altered(p, func(m *record.Measured) {
			if m.Side == c.side && !m.Noise {
				m.BadShare = .98
			}
		})
		why := prose.Sentence(got.Incomparable)
		if !strings.Contains(why, c.side+" fails") || !strings.Contains(why, "98%") || p.Exit != c.exit {
			t.Errorf("%+v: %q, exit %d", c, why, p.Exit)
		}
	}
}

func TestGeneratorsFigureIsNoAnswer(t *testing.T) {
	e := compared(t, 3)
	e.Compare.FailOn = "rps<-5%,cpu>+20%"
	p := simulate(e, newMachine(3), planted{.8, 1.1, 1})
	c := altered(p, func(m *record.Measured) { m.Outcome, m.Bottleneck = record.Invalid, record.LoadGenerator })
	for _, ch := range c.Changes {
		if decided := ch.Decision != record.CannotTell; decided != (ch.Metric == metricCPU) {
			t.Errorf("%s: %s", ch.Metric, ch.Says)
		}
	}
	if !has(c.Caveats, "say nothing about the servers") || c.Gate[0].Result != GateInconclusive || c.Gate[1].Result != GatePassed ||
		p.Exit != 4 {
		t.Errorf("doubts %q, gate %+v, exit %d", c.Caveats, c.Gate, p.Exit)
	}
	c = altered(p, func(m *record.Measured) {
		if m.Side == SideB {
			m.Outcome, m.Bottleneck = record.Valid, "server CPU"
		}
	})
	if ch := decisionOf(t, p, metricRPS); ch.Decision != record.Worse || !has(c.Caveats, "the generator was the bottleneck of A") ||
		!has(c.Caveats, "different bottlenecks") {
		t.Errorf("%s, doubts %q", ch.Says, c.Caveats)
	}
}

func TestWhatWasNotMeasuredIsSaid(t *testing.T) {
	p := simulate(compared(t, 3), newMachine(3), planted{1, 1, 1})
	altered(p, func(m *record.Measured) { m.Histogram, m.ServerCPUNs = nil, 0 })
	for _, name := range []string{metricP50, metricP99, metricCPU} {
		if c := decisionOf(t, p, name); c.Decision != record.CannotTell || !strings.Contains(prose.Text(c.Says), "not measured: ") || c.A != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := decisionOf(t, p, metricRPS); strings.Contains(prose.Text(c.Says), "not measured") {
		t.Error(c.Says)
	}
}

func TestCaveats(t *testing.T) {
	needs.Time(t)
	check := func(want string, change func(*record.Measured)) {
		t.Helper()
		p := simulate(compared(t, 3), newMachine(3), planted{1, 1, 1})
		if has(p.Comparison.Caveats, want) {
			t.Errorf("%q stands in the doubts of a calm comparison", want)
		}
		if c := altered(p, change); !has(c.Caveats, want) {
			t.Errorf("doubts %q lack %q", c.Caveats, want)
		}
	}
	check("drifted by", func(m *record.Measured) { m.Completed = uint64(float64(m.Completed) * math.Exp(float64(m.Number)/300)) })
	check("that is itself a difference", func(m *record.Measured) {
		if m.Side == SideB && !m.Noise {
			m.BadShare = .02
		}
	})
	check("saturated the same cores", func(m *record.Measured) { m.Bottleneck = record.SharedCPU })
	check("A vs A reaches", func(m *record.Measured) {
		if m.Noise && m.Side == SideB {
			m.ServerCPUNs *= 1.3
		}
	})
}

func TestWhatAAgainstAShowsIsNoChange(t *testing.T) {
	p := simulate(compared(t, 3), newMachine(3), planted{1, 1.08, 1})
	if c := decisionOf(t, p, metricCPU); c.Decision != record.Worse {
		t.Fatal(c.Says)
	}
	altered(p, func(m *record.Measured) {
		if m.Noise && m.Side == SideB {
			m.ServerCPUNs *= 1.12
		}
	})
	if c := decisionOf(t, p, metricCPU); c.Decision != record.CannotTell || !strings.Contains(prose.Text(c.Says), "A vs A") {
		t.Error(c.Says)
	}
}

// A refusal says what to write, with the user's own metric and number; that is accepted.
func TestGateHints(t *testing.T) {
	for text, want := range map[string]string{
		"p99>10%": "p99>+10%", "p99 > 10 %": "p99>+10%", "rps<5%": "rps<-5%", "rps>3%": "rps<-3%", "p99<-12.5%": "p99>+12.5%", "p50<=+7%": "p50>+7%",
		"p99>=10%": "p99>+10%", "cpu>20": "cpu>+20%", "p99>0.1": "p99>+10%", "rps<-0.05": "rps<-5%", "p99>10ms": "p99>+10%", "rps<-150%": "rps<-99%",
		"p99>+99999%": "p99>+10000%", "p95>10%": "p99>+10%", "latency<15%": "rps<-15%", "errors>1%": "p99>+1%", "p99": "p99>+5%", "rps 4%": "rps<-4%",
		"p99+10%": "p99>+10%", "RPS>2%": "rps<-2%", "server_cpu<-4%": "server_cpu>+4%", "rps<-1e1%": "rps<-1%", "rps<-x%": "rps<-5%",
	} {
		_, err := ParseGate(text)
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		_, hint, _ := strings.Cut(err.Error(), "; write ")
		if hint != want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if _, err := ParseGate(hint); err != nil {
			t.Errorf("%q: its hint %q: %v", text, hint, err)
		}
	}
}

// The quantile of a block is that of all its responses, not a mean of two.
func TestQuantilesAreMerged(t *testing.T) {
	one, two := new(hist.Hist), new(hist.Hist)
	one.RecordN(1e6, 1000)
	two.RecordN(1e6, 950)
	two.RecordN(9e6, 50) // its own p99, but 2.5 % of both
	runs := []*record.Measured{{Histogram: one}, {Histogram: two}}
	if ns, why := quantileOf(.99)(runs); !why.IsZero() || math.Abs(ns-9e6) > .01*9e6 {
		t.Errorf("p99 %v %s", ns, why)
	}
	if ns, _ := quantileOf(.97)(runs); math.Abs(ns-1e6) > .01*1e6 {
		t.Errorf("p97 %v", ns)
	}
}

func TestGateIsStrict(t *testing.T) {
	for text, want := range map[string]string{ // "" is well
		"": "", "rps<-5%": "", " p99 > +10% , rps<-5% ": "", "CPU>+2.5%": "", "server_cpu>+2%": "", "p50>+200%": "", "rps<−5%": "",
		"rps<5%": "begins with -", "p99>10%": "begins with +", "rps>+5%": "a gain, not a loss; write rps<-5%", "p99<-5%": "a gain, not a loss; write p99>+5%",
		"p95>+5%": "there are rps", "rps": "no < or >", "rps<=-5%": "only < and >", "rps=-5%": "only < and >", "p99≥+5%": "only < and >",
		"rps<-5": "per cent", "rps<-x%": "not a number", "rps<-%": "not a number", "rps<-1e1%": "not a number", "rps<-100%": "nothing loses",
		"p99>+1000000%": "limits above 100×", "rps<-5%,rps<-6%": "remove one of them", "cpu>+1%,server_cpu>+2%": "remove one", "rps<-5%,": "no < or >",
	} {
		_, err := ParseGate(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	list, err := ParseGate("rps<-5%,cpu>+2.5%")
	if err != nil || len(list) != 2 || !list[0].Below || list[0].Limit != -.05 || list[1].Metric != metricCPU || list[1].Limit != .025 {
		t.Errorf("%+v %v", list, err)
	}
}

func FuzzGate(f *testing.F) {
	for _, s := range []string{"rps<-5%,p99>+10%", "cpu>+1%", "p50>", "≥", ",,", "rps<-99.9999999%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseGate(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("error of more than a line: %q", err)
			}
			return
		}
		for _, c := range list {
			again, err := ParseGate(c.String())
			if err != nil || again[0] != c || c.Below != (c.Limit < 0) && c.Limit != 0 {
				t.Errorf("%q: %+v reads back as %+v (%v)", text, c, again, err)
			}
		}
	})
}

func TestGateAsksTheWholeInterval(t *testing.T) {
	change := func(decision string, low, high, confidence float64) record.Change {
		return record.Change{Metric: metricP99, Decision: decision,
			Relative: record.Estimate{Mid: (low + high) / 2, Low: low, High: high, Confidence: confidence}, Says: recordtest.Say("says")}
	}
	for _, c := range []struct {
		name   string
		change record.Change
		want   string
		exit   int
	}{
		{"beyond", change(record.Worse, .12, .3, .99), GateFailed, 3},
		{"beyond, but A and A differ as much", change(record.CannotTell, .12, .3, .99), GateInconclusive, 4},
		{"straddling", change(record.Worse, .05, .3, .99), GateInconclusive, 4},
		{"a loss below the limit", change(record.Worse, .02, .08, .99), GatePassed, 0},
		{"no change", change(record.NoChange, -.02, .03, .99), GatePassed, 0},
		{"wide, but on the good side", change(record.CannotTell, -.2, .08, .99), GatePassed, 0},
		{"a gain", change(record.Better, -.2, -.1, .99), GatePassed, 0},
		{"no interval", change(record.CannotTell, -.01, .01, 0), GateInconclusive, 4},
		{"no interval, far beyond", change(record.Worse, .5, 3, 0), GateFailed, 3},
	} {
		list, err := ParseGate("p99>+10%")
		if err != nil {
			t.Fatal(err)
		}
		of := record.Comparison{Changes: []record.Change{c.change}}
		if exit := Gate(&of, list); of.Gate[0].Result != c.want || exit != c.exit || of.Gate[0].Says.IsZero() {
			t.Errorf("%s: %+v, exit %d", c.name, of.Gate[0], exit)
		}
	}
	list, _ := ParseGate("cpu>+1%")
	of := record.Comparison{}
	if exit := Gate(&of, list); exit != 4 || of.Gate[0].Result != GateInconclusive {
		t.Errorf("what was not compared: %+v", of.Gate)
	}
	if exit := Gate(&record.Comparison{Incomparable: recordtest.Says("they differ")}, nil); exit != 4 {
		t.Errorf("exit %d of two that cannot be compared", exit)
	}
}

func TestServersOfTheExperimentDiffer(t *testing.T) {
	e := &spec.Experiment{Servers: []spec.Server{{Serve: "a", Env: []string{"X=1"}}, {Serve: "b"}}}
	if d := serverDifferences(e); len(d) != 2 || d[0].Weight != WeightExplains {
		t.Errorf("%+v", d)
	}
	e.Servers[1] = e.Servers[0]
	if d := serverDifferences(e); d == nil || len(d) != 0 {
		t.Errorf("%+v", d)
	}
}

// TestAskedBlocksOfBothKindsAreMade: whatever numbers of either were asked for.
func TestAskedBlocksOfBothKindsAreMade(t *testing.T) {
	for blocks := range 20 {
		e := comparedIn(t, uint64(blocks+1), blocks+1)
		want, wantNoise := CompareBlocks(e)
		runs, noise := 0, 0
		for _, s := range Enumerate(e) {
			switch {
			case s.WarmupRun:
			case s.Noise:
				noise++
			default:
				runs++
			}
		}
		if runs != 4*want || noise != 4*wantNoise {
			t.Errorf("%d runs of A against B and %d of A vs A, asked for %d and %d blocks", runs, noise, want, wantNoise)
		}
	}
}

// TestQuantileOfAFewIsDoubted: p99 of 900 requests is the ninth largest.
func TestQuantileOfAFewIsDoubted(t *testing.T) {
	side := func(completed ...uint64) (runs []*record.Measured) {
		for _, n := range completed {
			runs = append(runs, &record.Measured{Completed: n})
		}
		return runs
	}
	for _, c := range []struct {
		metric string
		a, b   []*record.Measured
		want   string
	}{
		{metricP99, side(600, 400), side(500, 500), ""},
		{metricP99, side(600, 400), side(450, 450), "p99 has only 9 slower requests"},
		{metricP50, side(600, 400), side(450, 450), ""},
		{metricP50, side(5, 4), side(450, 450), "p50 has only 4 slower requests"},
		{metricRPS, side(5, 4), side(4, 4), ""},
	} {
		for _, m := range allMetrics() {
			if m.name != c.metric {
				continue
			}
			got := fewBeyond(m, []compareBlock{{a: side(9000, 9000), b: side(9000, 9000)}, {a: c.a, b: c.b}})
			if text := prose.Text(got); c.want == "" && text != "" || !strings.Contains(text, c.want) {
				t.Errorf("%s: %q, want %q", c.metric, text, c.want)
			}
		}
	}
}

// TestAgentFacts: of a run of several agents their hosts are compared, and not
// the one it was asked for on.
func TestAgentFacts(t *testing.T) {
	fleet := func(driver, model string, names ...string) *record.Run {
		r := &record.Run{Environment: record.Environment{Host: driver, CPUModel: driver}}
		for _, name := range names {
			r.Agents = append(r.Agents, record.Agent{Name: name, Loads: true,
				Environment: record.Environment{Host: name, CPUModel: model, CoresAllowed: 4, Kernel: "6.18"}})
		}
		r.Agents = append(r.Agents, record.Agent{Name: "web", Observes: true})
		return r
	}
	check := func(name string, a, b *record.Run, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		list, _ := differ([][]Fact{factsOf(a)}, [][]Fact{factsOf(b)})
		for _, d := range list {
			if d.A != d.B {
				got[d.What] = d.Weight
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		for what, weight := range want {
			if got[what] != weight {
				t.Errorf("%s: %s is %q, want %q", name, what, got[what], weight)
			}
		}
	}
	check("another driver", fleet("d1", "cpu", "a", "b"), fleet("d2", "cpu", "b", "a"), nil)
	check("one more", fleet("d", "cpu", "a", "b"), fleet("d", "cpu", "a", "b", "c"),
		map[string]string{"agents": WeightExplains, "names of the agents": WeightNoted})
	check("other machines", fleet("d", "cpu", "a"), fleet("d", "faster", "a"),
		map[string]string{"machines of the agents": WeightForbids, "CPU model": WeightForbids})
}
