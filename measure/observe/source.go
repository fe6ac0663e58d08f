package observe

import (
	"math/rand/v2"

	"ceiling/record"
)

// Emit takes a row. The row is the sampler's own memory and valid only until
// emit returns: write it down or copy it.
type Emit func(record.ObservedRow)

// A sampler reads one kernel source.
type sampler interface {
	// sample reads once and emits what changed since the last time. The first
	// call (at.first) has nothing to compare with and emits gauges at most.
	// An error loses the source for the rest of the run.
	sample(at tick, emit Emit) error
	// close gives back the descriptors.
	close()
}

// A tick is the moment of one sample of one source.
type tick struct {
	host    string
	tNs     int64 // on the run's clock, when this source's reading began
	widthNs int64 // since its previous reading; 0 the first time
	late    bool
}

func (t *tick) first() bool { return t.widthNs == 0 }

func (t *tick) head(kind string) record.ObservedHead {
	return record.ObservedHead{Kind: kind, Host: t.host, TNs: t.tNs, WidthNs: t.widthNs, Late: t.late}
}

// A source is a sampler with what is known of its past.
type source struct {
	name    string
	sampler sampler
	started bool
	lastNs  int64 // when it was read last
	lost    bool

	samples int   // since the last ObserverRow
	costNs  int64 // likewise
}

// tick begins a sample. planned is the width that was meant.
func (s *source) tick(host string, nowNs, planned int64) tick {
	t := tick{host: host, tNs: nowNs}
	if s.started {
		t.widthNs = max(nowNs-s.lastNs, 1)
		t.late = t.widthNs > planned+planned/2
	}
	s.started, s.lastNs = true, nowNs
	return t
}

// A round is the sources that are read together, over the same intervals, with
// one budget and one timetable.
type round struct {
	sources []*source
	everyNs int64
	// share is the part of one core that the round may use. What it used
	// beyond its share is a debt, and the next round waits until that is paid
	// off by doing nothing. A cheap past is good for up to a second's worth.
	share float64
	// jitter spreads the rounds over 0.75 to 1.25 of the pause, so that they do
	// not beat with a period of the load. For gauges: the share of samples in
	// which something waits is the share of time only if the samples do not
	// know where in its period it is.
	jitter *rand.Rand
	// longestNs bounds the pause that a debt demands; 0 is no bound.
	longestNs int64
	// pause says, after a reading, when the next is due: of a source that keeps
	// to a budget of its own.
	pause func() (ns int64)
	// counts tells that its sources count from the beginning of time: what they
	// say is of the interval since the last reading.
	counts bool
	// plannedMinNs: a caller that only comes this often does not make it late.
	plannedMinNs int64

	started   bool
	lastNs    int64 // when it began last
	dueNs     int64 // when it is due
	plannedNs int64 // the width that was meant
	debtNs    int64
}

// due tells whether the round is to be read now. A quarter of its interval
// early counts as now: a caller's own tick that comes a microsecond early must
// not cost a whole interval.
func (r *round) due(nowNs int64) bool {
	return !r.started || nowNs >= r.dueNs-r.everyNs/4
}

// done plans the next round after one that began at nowNs and cost costNs.
// Rounds without jitter stay on the grid of their interval.
func (r *round) done(nowNs, costNs int64) {
	if r.pause != nil {
		r.started, r.lastNs, r.dueNs = true, nowNs, nowNs+costNs+r.pause()
		r.plannedNs = max(r.dueNs-nowNs, r.plannedMinNs)
		return
	}
	if r.started {
		earned := int64(float64(nowNs-r.lastNs) * r.share)
		r.debtNs = max(r.debtNs-earned, -int64(float64(secondNs)*r.share))
	}
	r.debtNs += costNs
	pause := max(r.everyNs, int64(float64(r.debtNs)/r.share))
	if r.longestNs > 0 {
		pause = min(pause, r.longestNs)
	}
	switch {
	case r.jitter != nil:
		r.dueNs = nowNs + int64(float64(pause)*(0.75+r.jitter.Float64()/2))
	case !r.started:
		r.dueNs = nowNs + roundUp(pause, r.everyNs)
	default:
		r.dueNs += roundUp(pause, r.everyNs)
		if behind := nowNs + r.everyNs/2 - r.dueNs; behind > 0 {
			r.dueNs += roundUp(behind, r.everyNs)
		}
	}
	r.started, r.lastNs = true, nowNs
	r.plannedNs = max(r.dueNs-nowNs, r.plannedMinNs)
}

func roundUp(v, step int64) int64 {
	return (v + step - 1) / step * step
}
