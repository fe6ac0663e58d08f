package live

import (
	"slices"

	"ceiling/record"
	"ceiling/verdict"
)

// Path returns where the time of a request goes, as far as known.
func (s *Snapshot) Path() record.Path {
	if s.Formed == nil {
		return record.Path{}
	}
	return s.Formed.Path()
}

// PathUnknown returns the reason why there is no path.
func (s *Snapshot) PathUnknown() string {
	switch {
	case s.Phase == Ended:
		return "not measured"
	case s.Formed == nil:
		return "collecting data…"
	}
	return "collecting queue samples…"
}

const (
	// stretchNs is the minimum length of a segment of the path over time, and stretchMostNs the
	// length up to which it may grow until it has enough samples.
	stretchNs, stretchMostNs = 1e9, 5e9
	// StretchesMost limits the number of segments, each of which a page draws as a column; beyond it, neighbours are
	// merged, as points are.
	StretchesMost = 48
)

// Stretch is the path of a request over a segment of a run.
type Stretch struct {
	// TNs is the end on the run's clock and WidthNs the width, nanoseconds.
	TNs, WidthNs int64
	// MeanNs is the mean service time of the Requests that ended in it; 0 is unknown.
	MeanNs   float64
	Requests uint64
	Stations []record.Station
}

// with appends the next segment to s. Shares are weighted by the total time of the requests.
func (s Stretch) with(next *Stretch) Stretch {
	a, b := float64(s.Requests)*s.MeanNs, float64(next.Requests)*next.MeanNs
	if !(a+b > 0) {
		a, b = float64(s.WidthNs), float64(next.WidthNs)
	}
	s.Stations = slices.Clone(s.Stations)
	for i := range s.Stations {
		s.Stations[i].Share = (a*s.Stations[i].Share + b*next.Stations[i].Share) / (a + b)
	}
	if n := s.Requests + next.Requests; n > 0 {
		s.MeanNs = (float64(s.Requests)*s.MeanNs + float64(next.Requests)*next.MeanNs) / float64(n)
	}
	s.WidthNs += next.TNs - s.TNs
	s.TNs, s.Requests = next.TNs, s.Requests+next.Requests
	return s
}

// stretches are the path over time, all from the source that the first verdict used, so that
// neighbours are comparable. The segments before toNs are done.
type stretches struct {
	by      string
	list    []Stretch
	toNs    int64
	version int
}

// add appends the new segments up to a time. If the server's end becomes visible, the places
// change and earlier segments are dropped.
func (s *stretches) add(list []Stretch, toNs int64) {
	if toNs <= s.toNs {
		return
	}
	for i := range list {
		if list[i].TNs <= s.toNs {
			continue
		}
		if n := len(s.list); n > 0 && len(s.list[n-1].Stations) != len(list[i].Stations) {
			s.list = nil
		}
		s.list = append(s.list, list[i])
		s.version++
	}
	s.toNs = toNs
	if len(s.list) <= StretchesMost {
		return
	}
	halves := make([]Stretch, 0, StretchesMost)
	for pair := range slices.Chunk(s.list, 2) {
		one := pair[0]
		if len(pair) == 2 {
			one = one.with(&pair[1])
		}
		halves = append(halves, one)
	}
	s.list = halves
}

// Stretches returns the path over time, and a version that changes with it.
func (b *Board) Stretches() (list []Stretch, version int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over.list[:len(b.over.list):len(b.over.list)], b.over.version
}

// stretch appends the path of the new part of the run; if last is set, also the remainder shorter
// than a segment. by is the source that the verdict uses.
func (b *Board) stretch(e *evidence, by string, last bool) {
	b.mu.Lock()
	if b.over.by == "" {
		b.over.by = by
	}
	by = b.over.by
	after := b.over.toNs
	b.mu.Unlock()
	if by == "" {
		return
	}
	list, toNs := e.stretches(after, by, last)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.start.ID == e.start.ID {
		b.over.add(list, toNs)
	}
}

// stretches returns the segments after a time, as far as there are samples. A segment with too
// few is a gap.
func (e *evidence) stretches(after int64, by string, last bool) (list []Stretch, toNs int64) {
	n := len(e.rows.load)
	if n == 0 || e.rows.load[n-1].Warmup {
		return nil, after
	}
	to := e.rows.load[n-1].TNs
	from, least := max(after, to-keepNs, 0), int64(stretchNs)
	if last {
		least /= 2
	}
	for end := from + stretchNs; to-from >= least; end += stretchNs {
		if to-end < stretchNs {
			end = to
		}
		s, ok := e.between(from, end).stretch(from, end, by)
		switch {
		case ok:
			list = append(list, s)
		case end-from < stretchMostNs && end < to:
			continue
		case end-from < stretchMostNs && !last:
			return list, from // more to come
		}
		from = end
	}
	return list, from
}

func (e *evidence) stretch(from, to int64, by string) (s Stretch, ok bool) {
	run := e.run(from, to)
	series := e.series(from)
	if by == record.ByKernelEvents { // drop the other source, so that it has no effect
		series.Observed.Sockets = nil
	} else {
		series.Observed.Times = nil
	}
	s = Stretch{TNs: to, WidthNs: to - from, MeanNs: run.Latency.Service.MeanNs, Requests: run.Requests.Completed,
		Stations: verdict.Stations(&run, &series)}
	return s, len(s.Stations) > 0
}

// between is the evidence of a segment and of slackNs before it, without the response time
// distribution.
func (e *evidence) between(from, to int64) *evidence {
	cut := *e
	cut.response = nil
	r := &cut.rows
	r.load = slices.DeleteFunc(slices.Clone(r.load), func(l record.LoadRow) bool { return l.TNs < from-slackNs || !before(&l, to) })
	r.agents = slices.DeleteFunc(slices.Clone(r.agents), func(l record.LoadRow) bool { return l.TNs < from-slackNs })
	r.observed.Window(from-slackNs, to, 0)
	return &cut
}
