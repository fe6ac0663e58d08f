//go:build linux

package observe

import (
	"math/rand/v2"

	"ceiling/record"
)

// Emit takes a row, which nobody changes any more: it may be kept, and read from several goroutines.
type Emit func(record.ObservedRow)

// A sampler reads one kernel source.
type sampler interface {
	// sample reads once and emits what changed since the last time. The first call (at.first) has
	// nothing to compare with and emits gauges at most. After an error the source is lost for the
	// rest of the run.
	sample(at tick, emit Emit) error
	// close closes the descriptors.
	close()
}

// A tick is one sample of one source.
type tick struct {
	host    string
	tNs     int64 // on the run's clock, when this source's reading began
	widthNs int64 // since its previous reading; 0: the first
	late    bool
}

func (t *tick) first() bool { return t.widthNs == 0 }

func (t *tick) head(kind string) record.ObservedHead {
	return record.ObservedHead{Kind: kind, Host: t.host, TNs: t.tNs, WidthNs: t.widthNs, Late: t.late}
}

// A source is a sampler with its history.
type source struct {
	name    string
	sampler sampler
	started bool
	lastNs  int64 // last reading
	lost    bool

	samples int   // since the last ObserverRow
	costNs  int64 // since the last ObserverRow
}

// tick begins a sample. planned is the intended width.
func (s *source) tick(host string, nowNs, planned int64) tick {
	t := tick{host: host, tNs: nowNs}
	if s.started {
		t.widthNs = max(nowNs-s.lastNs, 1)
		t.late = t.widthNs > planned+planned/2
	}
	s.started, s.lastNs = true, nowNs
	return t
}

// A round is a group of sources that are read together, over the same intervals, with one budget
// and one timetable.
type round struct {
	sources []*source
	everyNs int64
	// share is the part of one core that the round may use. CPU time beyond its share is a debt,
	// and the next round waits until idle time has paid it off. Unused time earns credit for up to
	// a second.
	share float64
	// jitter spreads the rounds over 0.75 to 1.25 of the pause, so that they do not alias with a
	// period of the load. For gauges: the share of samples with something queued equals the share
	// of time only if the samples are independent of the period.
	jitter *rand.Rand
	// longestNs bounds the pause that a debt causes; 0: unbounded.
	longestNs int64
	// pause returns, after a reading, when the next is due, for a source with its own budget.
	pause func() (ns int64)
	// counts says that its sources are cumulative counters: their rows are for the interval since
	// the last reading.
	counts bool
	// plannedMinNs: a caller that only samples this often does not make it late.
	plannedMinNs int64

	started   bool
	lastNs    int64 // start of the last round
	dueNs     int64 // when it is due
	plannedNs int64 // the intended width
	debtNs    int64
}

// due reports whether to read the round now. Up to a quarter of its interval early counts as now: a
// caller's tick that comes a microsecond early must not cost a whole interval.
func (r *round) due(nowNs int64) bool {
	return !r.started || nowNs >= r.dueNs-r.everyNs/4
}

// done plans the next round after one that began at nowNs and cost costNs. Rounds without jitter
// stay on the grid of their interval.
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
