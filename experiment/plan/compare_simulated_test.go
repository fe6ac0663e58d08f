package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/record"
)

// planted is what B differs in, as ratios of B to A; 1 is nothing.
type planted struct{ rate, cpu, tail float64 }

// machine makes runs as a shared virtual machine does: every run is off by
// itself, neighbours come and stay for a few runs, everything drifts, and one
// run in ten is disturbed.
type machine struct {
	chance     *rand.Rand
	own        float64 // standard deviation of a run by itself, ln
	neighbours float64 // of what lasts for some runs, ln
	drift      float64 // of the whole plan, ln
	disturbed  float64 // share of runs

	level float64 // of the neighbours now
}

func newMachine(seed uint64) *machine {
	return &machine{chance: rand.New(rand.NewPCG(seed, 7)), own: .025, neighbours: .015, drift: .03, disturbed: .1}
}

// stays is how much of the neighbours is left from one run to the next.
const stays = .7

// run measures a step; at is how far the plan is, 0 to 1.
func (m *machine) run(s record.Step, at float64, by planted) record.Measured {
	normal := m.chance.NormFloat64
	m.level = stays*m.level + math.Sqrt(1-stays*stays)*m.neighbours*normal()
	wander := m.level + m.drift*at
	rate, cpu, tail := -wander+m.own*normal(), wander+m.own*normal(), wander+2*m.own*normal()
	if m.chance.Float64() < m.disturbed {
		hit := m.chance.Float64()
		rate, cpu, tail = rate-.05-.25*hit, cpu+.02+.1*hit, tail+.2+hit
	}
	if s.Side == SideB && !s.Noise {
		rate, cpu, tail = rate+math.Log(by.rate), cpu+math.Log(by.cpu), tail+math.Log(by.tail)
	}
	perS := 20000 * math.Exp(rate)
	out := record.Measured{
		Step: s, Run: fmt.Sprint(s.Number), ElapsedS: 2, CompletedPerS: perS, Completed: uint64(2 * perS),
		ServerCPUNs: 30000 * math.Exp(cpu), Outcome: record.Valid, Ceiling: "server CPU", Histogram: responses(math.Exp(-rate), math.Exp(tail)),
	}
	return out
}

// responses are 1,000 times: most around a millisecond, three in a hundred ten
// times as long.
func responses(body, tail float64) *hist.Hist {
	h := new(hist.Hist)
	for i := range 97 {
		h.RecordN(int64(body*float64(700_000+6_000*i)), 10)
	}
	for i := range 30 {
		h.Record(int64(tail * float64(9_000_000+100_000*i)))
	}
	return h
}

func compared(t *testing.T, seed uint64) *spec.Experiment {
	t.Helper()
	e := &spec.Experiment{
		Kind: spec.KindCompare, Seed: seed, Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/"}}},
		Servers: []spec.Server{{Name: "old", URL: "http://127.0.0.1:1"}, {Name: "new", URL: "http://127.0.0.1:2"}},
		Load:    spec.Load{Duration: spec.Time(2 * time.Second)},
	}
	e.Complete(seed)
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	return e
}

// simulate makes all runs of a comparison and concludes.
func simulate(e *spec.Experiment, m *machine, by planted) *record.Plan {
	p := &record.Plan{Experiment: *e}
	steps := Spell(e)
	for i, s := range steps {
		p.Runs = append(p.Runs, m.run(s, float64(i)/float64(len(steps)), by))
	}
	Conclude(p)
	return p
}

func decisionOf(t *testing.T, p *record.Plan, name string) *record.Change {
	t.Helper()
	for i := range p.Comparison.Changes {
		if p.Comparison.Changes[i].Metric == name {
			return &p.Comparison.Changes[i]
		}
	}
	t.Fatalf("%s was not compared", name)
	return nil
}

func isAlarm(c *record.Change) bool { return c.Decision == record.Better || c.Decision == record.Worse }

// pairs is how many comparisons are simulated: 400 tell 5 % from 8 %.
func pairs() int {
	if testing.Short() {
		return 60
	}
	return 400
}

func TestNoChangeRaisesFewAlarms(t *testing.T) {
	alarms, n := 0, pairs()
	decisions := map[string]int{}
	for i := range n {
		p := simulate(compared(t, uint64(i+1)), newMachine(uint64(i+1)), planted{1, 1, 1})
		alarmed := false
		for j := range p.Comparison.Changes {
			c := &p.Comparison.Changes[j]
			alarmed = alarmed || isAlarm(c)
			decisions[c.Metric+" "+c.Decision]++
		}
		if alarmed {
			alarms++
		}
	}
	t.Logf("%d alarms in %d: %v", alarms, n, decisions)
	if float64(alarms) > .05*float64(n) {
		t.Errorf("%d of %d comparisons of A with A saw a difference, at most 5%% may", alarms, n)
	}
}

func TestPlantedChangesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		by     planted
		metric string
		want   string
	}{
		"5% CPU":   {planted{1, 1.05, 1}, metricCPU, record.Worse},
		"20% p99":  {planted{1, 1, 1.2}, metricP99, record.Worse},
		"5% rps":   {planted{.95, 1, 1}, metricRPS, record.Worse},
		"-10% CPU": {planted{1, .9, 1}, metricCPU, record.Better},
	} {
		t.Run(name, func(t *testing.T) {
			found, n := 0, pairs()/2
			for i := range n {
				p := simulate(compared(t, uint64(i+1)), newMachine(uint64(1000+i)), c.by)
				if decisionOf(t, p, c.metric).Decision == c.want {
					found++
				}
			}
			t.Logf("found %d of %d", found, n)
			if float64(found) < .9*float64(n) {
				t.Errorf("found in %d of %d comparisons, want 9 in 10", found, n)
			}
		})
	}
}
