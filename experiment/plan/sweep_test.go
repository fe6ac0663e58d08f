package plan

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/record/recordtest"
	"ceiling/verdict/prose"
)

// sweepOver is a checked sweep over connections and pipelining.
func sweepOver(t *testing.T, connections, pipelining []spec.Count, repeats int) *spec.Experiment {
	t.Helper()
	e := &spec.Experiment{
		Kind:     spec.KindSweep,
		Servers:  []spec.Server{{Name: "one", URL: "http://127.0.0.1:1"}, {Name: "two", URL: "http://127.0.0.1:2"}},
		Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/a"}}},
		Load:     spec.Load{Lists: spec.Lists{Connections: connections, Pipelining: pipelining}}, Repeats: repeats,
	}
	e.Complete(7)
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestSweepIsBalanced: every repeat has every condition once, in an order of its
// own, and the same seed makes the same plan.
// The threads of the generator are a dimension like the others: a curve over them where they alone
// vary, and one for each number where another does too.
func TestSweepOverThreads(t *testing.T) {
	for _, c := range []struct {
		connections []spec.Count
		over        spec.Dimension
		curves      int
	}{{[]spec.Count{8}, spec.OverThreads, 1}, {[]spec.Count{8, 16}, spec.OverConnections, 3}} {
		e := sweepOver(t, c.connections, nil, 2)
		e.Load.Threads = []spec.Count{1, 2, 4}
		p := concluded(e, func(s record.Step) float64 { return 100 * float64(s.Threads) }, nil)
		if len(p.Curves) != c.curves*len(e.Servers)*len(e.Requests) || p.Curves[0].Over != c.over {
			t.Fatalf("%d curves over %s, want %d over %s", len(p.Curves), p.Curves[0].Over, c.curves, c.over)
		}
		for _, curve := range p.Curves {
			for _, point := range curve.Points {
				if want := 100 * float64(point.Threads); math.Abs(point.PerS.Mid/want-1) > .05 { // concluded adds noise
					t.Errorf("%d threads, %g: %g requests/s, want %g", point.Threads, point.X, point.PerS.Mid, want)
				}
			}
		}
	}
}

func TestSweepIsBalanced(t *testing.T) {
	e := sweepOver(t, []spec.Count{1, 10, 100}, []spec.Count{1, 5}, 4)
	steps := Enumerate(e)
	if len(steps) != 2*3*2*4 {
		t.Fatalf("%d steps", len(steps))
	}
	orders := map[string]bool{}
	for repeat := range 4 {
		seen := map[string]bool{}
		order := ""
		for i, s := range steps[repeat*12 : repeat*12+12] {
			if s.Number != repeat*12+i+1 || s.Repeat != repeat+1 {
				t.Errorf("step %d is number %d, repeat %d", repeat*12+i+1, s.Number, s.Repeat)
			}
			condition := fmt.Sprint(s.Server, s.Mix, s.Connections, s.Pipelining)
			seen[condition] = true
			order += condition + " "
		}
		if len(seen) != 12 {
			t.Errorf("repeat %d has %d conditions of 12", repeat+1, len(seen))
		}
		orders[order] = true
	}
	if len(orders) != 4 {
		t.Errorf("4 repeats in %d orders", len(orders))
	}
	if !reflect.DeepEqual(steps, Enumerate(e)) {
		t.Error("the same seed made another plan")
	}
}

// measuredAt answers what a step would measure where rate is its true rate.
func measuredAt(s record.Step, rate float64, chance *rand.Rand) record.Measured {
	rate *= math.Exp(0.01 * chance.NormFloat64())
	h := new(hist.Hist)
	h.RecordN(int64(1e9*float64(s.Connections)/rate), 1000)
	return record.Measured{
		Step: s, Run: fmt.Sprint(s.Number), CompletedPerS: rate, Completed: 1000, ServerCPUNs: 1e9 / rate,
		Outcome: record.Valid, Bottleneck: "server CPU", Histogram: h,
	}
}

func concluded(e *spec.Experiment, rate func(s record.Step) float64, change func(m *record.Measured)) *record.Sweep {
	chance := rand.New(rand.NewPCG(3, 3))
	p := &record.Plan{Experiment: *e}
	for _, s := range Enumerate(e) {
		m := measuredAt(s, rate(s), chance)
		if change != nil {
			change(&m)
		}
		p.Runs = append(p.Runs, m)
	}
	Conclude(p)
	return p.Sweep
}

// TestSweepFindsThePlantedCurve: a curve of the scalability law with a known
// peak, for each of two servers.
func TestSweepFindsThePlantedCurve(t *testing.T) {
	e := sweepOver(t, []spec.Count{1, 2, 4, 8, 16, 32, 64, 128}, nil, 6)
	const sigma, kappa = 0.05, 0.0006 // peak at sqrt(0.95/0.0006) = 39.8
	s := concluded(e, func(s record.Step) float64 {
		n := float64(s.Connections)
		return 1000 * n / (1 + sigma*(n-1) + kappa*n*(n-1))
	}, nil)
	if len(s.Curves) != 2 || s.Curves[0].Server != "one" || s.Curves[1].Server != "two" {
		t.Fatalf("curves %+v", s.Curves)
	}
	for _, c := range s.Curves {
		if c.Over != spec.OverConnections || len(c.Points) != 8 ||
			c.Points[3].X != 8 || c.Points[3].Runs != 6 || c.Points[3].Response.Count != 6000 {
			t.Errorf("points %+v", c.Points)
		}
		highest := slices.MaxFunc(c.Points, func(a, b record.CurvePoint) int { return cmp.Compare(a.PerS.Mid, b.PerS.Mid) }).PerS.Mid
		if c.Knee == nil || c.Knee.Low < 8 || c.Knee.High > 64 || len(c.Knee.Add) > 1 || c.Knee.PerS != highest {
			t.Errorf("knee %+v, true peak at 40; the table's highest rate is %v", c.Knee, highest)
		}
		u := c.USL
		if u == nil || u.Best == nil || u.Best.Low > 39.8 || u.Best.High < 39.8 || math.Abs(u.Sigma.Mid-sigma) > 0.02 || !u.Trusted {
			t.Errorf("fit %+v", u)
		}
		if c.Bottleneck != "server CPU" || !strings.Contains(prose.Text(c.Says), "throughput peaks at") {
			t.Errorf("says %q, %s", c.Says, c.Bottleneck)
		}
	}
}

// TestSweepOfErrors: the rate of a service that mostly fails is not its throughput.
func TestSweepOfErrors(t *testing.T) {
	s := concluded(sweepOver(t, []spec.Count{1, 4, 16}, nil, 2), func(s record.Step) float64 { return float64(s.Connections) },
		func(m *record.Measured) { m.BadShare = 0.9 })
	if c := s.Curves[0]; c.Says.Code != "curve.errors" || c.Bottleneck != record.Failures || c.Knee != nil {
		t.Errorf("%s, %s, knee %+v", c.Says.Code, c.Bottleneck, c.Knee)
	}
}

// TestSweepOfAPool: at the knee every slot is used once, and the load is the limit; the curve's bottleneck is
// that of the point beyond. A fit through so few points overshoots them, and is not shown.
func TestSweepOfAPool(t *testing.T) {
	for _, counts := range [][]spec.Count{{1, 4, 16}, {1, 4, 16, 64}, {1, 2, 4, 8, 192}} {
		s := concluded(sweepOver(t, counts, nil, 4), func(s record.Step) float64 { return 95 * math.Min(float64(s.Connections), 4) },
			func(m *record.Measured) {
				m.Bottleneck = map[bool]record.Bottleneck{true: record.Concurrency, false: record.ServerBlocked}[m.Connections <= 4]
			})
		for _, c := range s.Curves {
			if c.Knee == nil || c.Knee.High != 4 || c.Bottleneck != record.ServerBlocked {
				t.Errorf("%v: knee %+v, %s", counts, c.Knee, c.Bottleneck)
			}
			if c.USL != nil && c.USL.Best != nil && c.USL.PeakPerS.Mid > 395 {
				t.Errorf("%v: a fit above all points: %+v", counts, c.USL)
			}
		}
	}
}

// TestCutShort: an answer of a plan that did not end says of how many runs it is, and one that did does not.
func TestCutShort(t *testing.T) {
	p := &record.Plan{Experiment: *sweepOver(t, []spec.Count{1, 4}, nil, 4)}
	steps := Enumerate(&p.Experiment)
	for _, s := range steps[:3] {
		p.Runs = append(p.Runs, measuredAt(s, 1000, rand.New(rand.NewPCG(3, 3))))
	}
	for ended, want := range map[string]bool{record.EndedFailed: true, record.EndedInterrupted: true, record.EndedComplete: false, "": false} {
		p.Ended = ended
		Conclude(p)
		text := strings.Join(prose.Texts(p.Sweep.Curves[0].Caveats), "; ")
		if says := strings.Contains(text, fmt.Sprintf("3 of %d runs were made", len(steps))); says != want {
			t.Errorf("ended %q: %s", ended, text)
		}
	}
}

// TestRateThatIsNotReached: a run is invalid where the server does not take the rate asked for; what it answered
// is its highest rate all the same, and no higher rate is proposed.
func TestRateThatIsNotReached(t *testing.T) {
	e := sweepOver(t, []spec.Count{64}, nil, 4)
	e.Load.Rate = nil
	for _, perS := range []string{"100", "200", "300", "400"} {
		rate, err := unit.ParseRate(perS)
		if err != nil {
			t.Fatal(err)
		}
		e.Load.Rate = append(e.Load.Rate, rate)
	}
	for _, c := range concluded(e, func(s record.Step) float64 { return math.Min(s.Rate.PerSecond(), 310) }, func(m *record.Measured) {
		m.TargetPerS, m.Bottleneck = m.Rate.PerSecond(), record.TargetRate
		if m.TargetPerS == 400 {
			m.Outcome, m.Bottleneck = record.Invalid, record.ServerBlocked
		}
	}).Curves {
		k := c.Knee
		if k == nil || k.Low != 300 || k.High != 400 || len(k.Add) > 0 || c.Bottleneck != record.ServerBlocked || len(c.Caveats) > 0 {
			t.Errorf("knee %+v of %s, %q, %q", k, c.Bottleneck, prose.Text(c.Says), prose.Texts(c.Caveats))
		}
	}
}

func TestKneeThatIsNotBracketed(t *testing.T) {
	void := concluded(sweepOver(t, []spec.Count{1, 2, 4, 8}, nil, 4), func(s record.Step) float64 { return 1000 * float64(s.Connections) },
		func(m *record.Measured) {
			if m.Connections == 8 {
				m.Outcome = record.Invalid
			}
		})
	if k, says := void.Curves[0].Knee, prose.Text(void.Curves[0].Says); len(k.Add) > 0 || !strings.Contains(says, "so far): no valid result above") {
		t.Errorf("the loads above were measured: %+v, %s", k, says)
	}
	up := concluded(sweepOver(t, []spec.Count{1, 2, 4}, nil, 4), func(s record.Step) float64 { return 1000 * float64(s.Connections) }, nil)
	if k := up.Curves[0].Knee; k == nil || k.High != 0 || len(k.Add) == 0 || k.Add[0] != 8 {
		t.Errorf("a curve that grows throughout: %+v", k)
	}
	flat := concluded(sweepOver(t, []spec.Count{16, 32, 64}, nil, 4), func(record.Step) float64 { return 1000 }, nil)
	if k := flat.Curves[0].Knee; k == nil || k.Low != 0 || len(k.Add) == 0 || k.Add[len(k.Add)-1] >= 16 {
		t.Errorf("a flat curve: %+v", k)
	}
	for capacity, want := range map[float64]string{2000: "curve.reached", 700: "curve.peak"} {
		e := sweepOver(t, []spec.Count{16, 32, 64}, nil, 4)
		open := concluded(e, func(s record.Step) float64 { return math.Min(1000, capacity*float64(s.Connections)/16) },
			func(m *record.Measured) { m.TargetPerS = 1000 })
		if c := open.Curves[0]; c.Says.Code != want || (c.Knee == nil) != (want == "curve.reached") {
			t.Errorf("up to %g requests/s of 1000: %s", capacity, prose.Text(c.Says))
		}
	}
	noise := []float64{0, -40, 75, -5} // by repeat: the mean grows with the load, the median falls
	noisy := concluded(sweepOver(t, []spec.Count{1, 4, 8, 32}, nil, 3), func(s record.Step) float64 {
		return 75*math.Min(float64(s.Connections), 4) + math.Log2(float64(s.Connections))/5*noise[s.Repeat]
	}, nil)
	if c := &noisy.Curves[0]; c.Says.With["per_s"] != c.Points[3].PerS.Mid || c.Knee.PerS == c.Points[3].PerS.Mid {
		t.Errorf("%s: at the last point it is %v, its peak %v", prose.Text(c.Says), c.Points[3].PerS.Mid, c.Knee.PerS)
	}
	if k := noisy.Curves[0].Knee; k == nil || k.Low != 1 || noisy.Curves[0].Says.Code != "curve.undecided" {
		t.Errorf("from 4 on no point is measurably slower than the last: %+v, %+v", k, noisy.Curves[0].Says)
	}
}

// TestVoidRunsAreLeftOut: one invalid run of a point does not count, a point with
// nothing else is shown and kept out of the knee.
func TestVoidRunsAreLeftOut(t *testing.T) {
	e := sweepOver(t, []spec.Count{1, 2, 4, 8}, nil, 4)
	s := concluded(e, func(s record.Step) float64 { return 1000 * math.Min(float64(s.Connections), 4) }, func(m *record.Measured) {
		if m.Connections == 8 || m.Connections == 2 && m.Repeat == 1 {
			m.Outcome, m.Bottleneck, m.CompletedPerS = record.Invalid, "generator", 9e6
			if m.Because = recordtest.Says("short of its target", "the rarer"); m.Repeat < 4 {
				m.Because[1] = say("search.untested", nil)
			}
		}
	})
	c := s.Curves[0]
	if p := c.Points[1]; p.Runs != 3 || p.Invalid != 1 || p.PerS.High > 2500 || p.Outcome != record.Valid {
		t.Errorf("a point with one invalid run: %+v", p)
	}
	if p := c.Points[3]; p.Runs != 4 || p.Invalid != 4 || p.Outcome != record.Invalid {
		t.Errorf("a invalid point: %+v", p)
	}
	if c.Knee.PerS > 5000 || !strings.HasSuffix(prose.Text(c.Caveats[0]), "reason (last such run): No rate has been tested yet.") {
		t.Errorf("knee %+v, doubts %q", c.Knee, prose.Texts(c.Caveats))
	}
}

// TestResumeIsPure: a plan goes on where it stands, whatever was measured.
func TestResumeIsPure(t *testing.T) {
	e := sweepOver(t, []spec.Count{1, 2}, nil, 2)
	steps := Enumerate(e)
	var done []record.Measured
	for i := range steps {
		d := Next(e, done)
		if d.Next == nil || !reflect.DeepEqual(*d.Next, steps[i]) || d.Left != len(steps)-i {
			t.Fatalf("after %d runs: %+v", i, d)
		}
		done = append(done, record.Measured{Step: steps[i]})
	}
	if d := Next(e, done); d.Next != nil || d.Ended != record.EndedComplete {
		t.Errorf("at the end: %+v", d)
	}
}

// Little's law holds between the edges of the window; where these weigh too much the number is unknown.
func TestMeanInFlight(t *testing.T) {
	m := record.Measured{Step: record.Step{Condition: spec.Condition{Connections: 8, Pipelining: 2}}, CompletedPerS: 1000,
		Service: record.Quantiles{Count: 1, MeanNs: 15e6}}
	if n := record.MeanInFlight(&m); math.Abs(n-15) > 1e-9 {
		t.Errorf("%v, want 15", n)
	}
	m.Service.MeanNs = 20e6 // 20 of 16 slots
	if n := record.MeanInFlight(&m); n != 0 {
		t.Errorf("%v in 16 slots", n)
	}
	m.TargetPerS = 1000 // an open loop has none
	if n := record.MeanInFlight(&m); math.Abs(n-20) > 1e-9 {
		t.Errorf("%v, want 20", n)
	}
	if m.Response.BoundFrom = .5; record.MeanInFlight(&m) != 0 {
		t.Error("known though half of the requests still waited")
	}
}
