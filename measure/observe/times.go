//go:build linux

package observe

import (
	"math/rand/v2"
	"time"

	"ceiling/internal/sys"
	"ceiling/measure/observe/events"
	"ceiling/record"
)

// Where the time of a request goes, from the kernel's own events at both ends of its connection:
// package events, in bursts.

// addTimes adds them if both ends are on this host. It comes last, because it needs to know whether
// the server is here.
func (o *Observer) addTimes() {
	const name = "kernel events"
	why := ""
	switch {
	case o.cfg.GeneratorPID == 0:
		why = "the generator is on another host"
	case !o.cfg.TargetAddr.IsValid():
		why = "the target is not a TCP address"
	case len(o.subject.listeners) == 0:
		why = "the server was not found on this host"
	}
	if why != "" {
		o.miss(record.NotMeasured{What: name, Why: why})
		return
	}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), jitterSeed))
	w, err := events.Open(o.cfg.TargetAddr, o.cfg.Pipelining > 1, o.cfg.Effort, random)
	if err != nil {
		o.miss(record.NotMeasured{What: name, Why: err.Error()})
		return
	}
	s := &timesSampler{watch: w, pipelined: o.cfg.Pipelining > 1}
	o.timetable.times.pause = func() int64 { return int64(s.next) }
	o.add(&o.timetable.times, name, false, s, nil)
	o.times = s
}

// timesSampler begins and ends bursts.
type timesSampler struct {
	watch     *events.Watch
	pipelined bool
	next      time.Duration
	closed    bool
}

// placeNames are the names in the record.
func placeNames() [events.Places]string {
	return [...]string{
		events.ToServer: record.PlaceToServer, events.AtServer: record.PlaceAtServer, events.InServer: record.PlaceInServer,
		events.ToClient: record.PlaceToClient, events.AtClient: record.PlaceAtClient, events.Generator: record.PlaceGenerator,
	}
}

func (s *timesSampler) sample(at tick, emit Emit) error {
	startedNs := sys.MonotonicNs()
	burst, next, err := s.watch.Step()
	s.next = next
	if err != nil || burst == nil {
		return err
	}
	// The burst's times are on the kernel's clock, the row's on the run's.
	toNs := at.tNs + (burst.ToNs - startedNs)
	at = tick{host: at.host, tNs: toNs, widthNs: max(burst.ToNs-burst.FromNs, 1)}
	places := make([]record.PlaceTime, events.Places)
	row := &record.TimesRow{
		ObservedHead: at.head(record.KindTimes), Pipelined: s.pipelined, Followed: burst.Share, Connections: burst.Connections,
		Requests: burst.Requests, KnownNs: burst.KnownNs, Places: places, Whole: burst.Whole, Dropped: burst.Dropped,
		Events: int64(burst.Events), Lost: int64(burst.Lost), BPFNs: burst.BPFNs, Guessed: !burst.Measured, CostNs: burst.OwnNs,
	}
	for p, name := range placeNames() {
		to, h := &places[p], &burst.Hist[p]
		*to = record.PlaceTime{Place: name, Ns: burst.Ns[p], ByteNs: burst.ByteNs[p]}
		if h.Count() > 0 {
			to.P50Ns, to.P99Ns = h.Quantile(0.5), h.Quantile(0.99)
			if to.Hist, err = h.AppendBinary(nil); err != nil {
				return err
			}
		}
	}
	emit(row)
	return nil
}

// rest leaves nothing attached.
func (s *timesSampler) rest() {
	if !s.closed {
		_ = s.watch.Rest() // what cannot be detached ends with close
	}
}

func (s *timesSampler) close() {
	if s.closed {
		return
	}
	s.closed = true
	_ = s.watch.Close() // the rest ends with the process
}
