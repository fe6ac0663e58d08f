package plan

import (
	"math"
	"strconv"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
)

const (
	// connectionsLeast and connectionsMost bound what is chosen: below, a server
	// with a process for each core is not spread over them; above, the cost of
	// the connections themselves shows.
	connectionsLeast = 64
	connectionsMost  = 4096
	// slotsRoom is how many times the requests in flight that Little's law gives
	// at the SLO's limit there are slots for: a stall that still fits must not
	// run into them.
	slotsRoom = 2
	// limitGuess is the latency limit that slots are chosen by where the SLO has
	// none.
	limitGuess = 0.1 // seconds
	// firstShare of what a closed loop reached is the first rate.
	firstShare = 0.5
)

// settle is the first touch of the server: a closed loop, whose throughput says
// where to begin.
func (s *survey) settle() Decision {
	step := record.Step{Number: s.runs + 1, Connections: s.asked(s.e.Load.Connections, connectionsLeast),
		Pipelining: s.asked(s.e.Load.Pipelining, 1), WarmupRun: true}
	return Decision{Next: &step, Left: 1 + s.left()}
}

// asked is the one value of a list, or another where it is empty.
func (s *survey) asked(list []spec.Count, otherwise int) int {
	if len(list) == 0 {
		return otherwise
	}
	return int(list[0])
}

// first is the rate to begin with.
func (s *survey) first() float64 {
	start := float64(s.e.Find.Start)
	if start == 0 && s.closed != nil && s.closed.CompletedPerS > 0 {
		start = rounded(math.Min(s.closed.CompletedPerS, spec.RateMax) * firstShare)
	}
	return math.Max(trickle, math.Min(start, s.most))
}

// run is a step at a rate.
func (s *survey) run(perS float64) Decision {
	if s.runs >= s.runsMost() {
		return earlyStop(say("search.too-many-runs", with{"within": s.within, "runs": s.runs}))
	}
	step := record.Step{Number: s.runs + 1, Connections: s.connections(perS), Pipelining: s.asked(s.e.Load.Pipelining, 1), Repeat: 1}
	for i := range s.rates {
		if t := &s.rates[i]; t.perS == perS {
			step.Repeat = len(t.runs) + 1
			step.Connections = t.runs[0].Connections
		}
	}
	// A whole number of digits is a rate: this cannot fail, and Next would begin
	// with a closed loop again if it did.
	step.Rate, _ = unit.ParseRate(strconv.FormatFloat(perS, 'f', 0, 64))
	seconds := float64(s.e.Load.Duration) / 1e9
	step.MayStopEarly = perS*seconds >= s.enough()
	return Decision{Next: &step, Left: min(max(1, s.left()), s.runsMost()-s.runs)}
}

// connections for a rate: what the person gave, or so many that the requests in
// flight at the SLO's limit (Little: rate × time) fit with room, as a power of
// two. While the search narrows it stays at the most that was used: the number
// of connections is not what shall differ.
func (s *survey) connections(perS float64) int {
	if len(s.e.Load.Connections) > 0 {
		return int(s.e.Load.Connections[0])
	}
	limit := math.Inf(1)
	for _, t := range s.slo {
		if t.Metric == spec.MetricResponse || t.Metric == spec.MetricService {
			limit = math.Min(limit, t.Limit/1e9)
		}
	}
	if math.IsInf(limit, 1) {
		limit = limitGuess
	}
	n := math.Ceil(perS * limit * slotsRoom / float64(s.asked(s.e.Load.Pipelining, 1)))
	c := connectionsLeast
	for c < connectionsMost && float64(c) < n {
		c *= 2
	}
	if b := s.bracket(); b.low != nil && b.high != nil {
		for i := range s.rates {
			c = max(c, s.rates[i].runs[0].Connections)
		}
	}
	return c
}

// capacity is the throughput that the upper end showed while it was overloaded,
// 0 where it was not. It only tells where to look: an overloaded server may do
// less than its best.
func (s *survey) capacity(b *bracket) float64 {
	const overloaded = 0.95
	best := 0.0
	for _, m := range b.high.judged {
		if m.Completed > 0 && m.CompletedPerS < overloaded*b.high.perS {
			best = math.Max(best, m.CompletedPerS)
		}
	}
	return best
}

// left guesses how many runs are still to come.
func (s *survey) left() int {
	each := float64(s.repeats) + 0.5 // a tie now and then
	b := s.bracket()
	gap, missing := math.Ln2, 0.
	if b.low != nil && b.high != nil {
		gap = math.Log(b.high.perS / b.low.perS)
	} else {
		missing = each
	}
	if t := s.unfinished(); t != nil {
		missing += math.Max(1, float64(s.repeats-t.counted()))
	}
	const again = 2 // at the ends, for what chance leaves open
	halvings := math.Ceil(math.Log2(gap / math.Log1p(s.within*endsShare)))
	return int(math.Max(halvings, 0)*each + missing + again)
}

// rounded to two digits, at least 1: a rate that a person can read.
func rounded(perS float64) float64 {
	if !(perS >= 1) {
		return 1
	}
	step := math.Pow(10, math.Max(0, math.Floor(math.Log10(perS))-1))
	return math.Round(perS/step) * step
}

// inside is perS as round a number as fits between low and high without
// leaving an eighth of their distance, 0 where no whole number lies between.
func inside(perS, low, high float64) float64 {
	for _, step := range stepsDown((high - low) / 8) {
		if r := math.Round(perS/step) * step; r > low && r < high {
			return r
		}
	}
	return 0
}

// stepsDown are the steps 1, 2 or 5 times a power of ten that are at most the
// given one, and then 1.
func stepsDown(most float64) []float64 {
	if !(most > 1) {
		return []float64{1}
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, times := range []float64{5, 2} {
		if times*power <= most {
			return []float64{times * power, power, 1}
		}
	}
	return []float64{power, 1}
}
