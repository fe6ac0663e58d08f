package verdict

import (
	"math"
	"slices"
	"sort"

	"ceiling/internal/stat"
	"ceiling/record"
)

// unloadedFacts compares the requests that had the server to themselves with those of the loop. By
// Little's law, the rate times an unloaded request's duration is how many requests the server works on
// at once: S. If S is far below the slots, the others wait for their turn; if it equals the
// slots, each simply takes its time.
//
// A mean alone cannot carry that: if one request in twenty is slow, a few lone ones may have
// missed them. So a queue is claimed only if the unloaded requests cannot be a sample of the loop's
// (their own order statistics, binomial), or if the loop's first responses came one after
// another; the share that CPU or a stall may explain is subtracted.
type unloadedFacts struct {
	sent   bool             // there were unloaded requests
	known  bool             // and they can be used
	why    record.Statement // why not, or why they do not decide
	is     queueing
	n      int     // of them are used
	meanNs float64 // mean duration of one
	halfNs float64 // their median duration
	// heldNs is how much of a response's time in the loop may be the wait for a delayed ACK, which
	// the unloaded requests' times leave out; full is what S would be if none waited.
	heldNs, full float64
	// gatheredNs is how long the generator, waiting for several completions at a time, may leave a
	// response of the loop unseen: it does not batch unloaded requests and first responses.
	gatheredNs float64
	// at is S; low and high are its 95 % interval.
	at, low, high float64
	// chance is the probability that the unloaded requests are a sample of the loop's.
	chance float64
	// first is the share of connections whose first response took no longer than an unloaded request.
	first figure
	// answered counts the connections answered in that time; soon, those answered in loneSoon
	// times that plus the CPU time of all, which a simultaneous start costs; expected, those
	// expected in that time if the loop's service times were all there is.
	answered, soon, expected float64
	slow                     float64 // share of the unloaded requests that took longer
	// lined: the server answers one request at a time per connection, so S counts connections,
	// not slots.
	lined bool
}

func loneOf(f *facts) unloadedFacts {
	l := unloadedFacts{chance: 1}
	lone := f.base.run.Unloaded
	if lone == nil || f.base.open || f.base.rate <= 0 || f.base.slots <= 0 {
		return l
	}
	l.sent = true
	l.full, l.gatheredNs = f.base.slots, float64(f.base.run.Generator.CoalesceNs)
	if f.delayed.waits {
		l.heldNs, l.full = math.Max(f.delayed.ns, delayedAckHolds), math.Max(f.base.slots-f.delayed.held, 0)
	}
	all := l.withoutAcks(lone)
	times := warm(all, lone.Cold)
	switch {
	case len(times) == 0:
		l.why = say("lone.none", nil)
		return l
	case lone.Bad > 0 && f.base.errorShare.value < errorsMostly:
		l.why = say("lone.errors", with{"bad": lone.Bad, "sent": lone.Sent})
		return l
	}
	times, warming := settled(times)
	l.n = len(times)
	l.measure(f.base, times)
	if f.delayed.waits && len(lone.RestNs) != len(lone.ServiceNs) { // some may have waited for an ACK
		l.low = math.Min(l.low, f.base.rate*math.Max(l.meanNs-l.heldNs, 0)/1e9)
	}
	mean := f.base.run.Latency.Service.MeanNs
	if l.low > loneMost*l.full {
		l.why = say("lone.slower", with{"lone_ns": l.meanNs, "mean_ns": mean})
		return l
	}
	l.known = true
	l.chance = sampleChance(all, l.heldNs+l.gatheredNs, f.base.run.Latency.ServiceBins)
	l.firstAnswers(f.cpu, times)
	l.decide(f, warming)
	return l
}

// withoutAcks returns the times of the unloaded requests. If the loop's responses wait for delayed
// ACKs, the rest of a response that came long after its beginning waited for one too: on a busy host
// the generator may see the beginning late.
func (l *unloadedFacts) withoutAcks(lone *record.Unloaded) []int64 {
	times := slices.Clone(lone.ServiceNs)
	if l.heldNs == 0 || len(lone.RestNs) != len(times) {
		return times
	}
	for i, rest := range lone.RestNs {
		if rest >= delayedAckNs/2 && rest < times[i] {
			times[i] -= rest
		}
	}
	return times
}

// warm returns the times after the cold ones.
func warm(all []int64, cold int) []float64 {
	var times []float64
	for i, t := range all {
		if i >= cold && t > 0 {
			times = append(times, float64(t))
		}
	}
	return times
}

// settled drops the first half of times that were still falling clearly, once or twice; warming
// reports whether they fell to the end.
func settled(times []float64) (rest []float64, warming bool) {
	for range 2 {
		half := len(times) / 2
		if half < loneHalf || stat.Middle(times[half:]) >= loneFell*stat.Middle(times[:half]) {
			return times, false
		}
		times = times[half:]
	}
	half := len(times) / 2
	return times, half < loneHalf || stat.Middle(times[half:]) < loneFell*stat.Middle(times[:half])
}

// measure computes S with its interval: Student's for the unloaded requests' mean, and twice the
// deviation for the rate.
func (l *unloadedFacts) measure(f *runFacts, times []float64) {
	e, err := stat.Mean(times, 0.95)
	below, above := 0.5, 1.0 // for a single one: half of it to twice
	if err == nil && len(times) > 1 {
		below, above = (e.Value-e.Interval.Low)/e.Value, (e.Interval.High-e.Value)/e.Value
	}
	off := 0.0
	if s := &f.run.Rate.Spread; s.Samples > 1 {
		off = 2 * s.StdevPerS / f.rate / math.Sqrt(float64(s.Samples))
	}
	l.meanNs, l.halfNs, l.at = e.Value, stat.Middle(times), f.rate*e.Value/1e9
	l.low, l.high = math.Max(l.at*(1-math.Hypot(below, off)), 0), l.at*(1+math.Hypot(above, off))
}

// sampleChance returns the probability that as many of a sample of the loop's service times are
// as short as the unloaded requests were, at the rank that makes it least likely. The loop's times
// may be loneSlower times as long without a queue, and laterNs longer. Cold ones count too: they can
// only be longer.
func sampleChance(times []int64, laterNs float64, bins []record.Bin) float64 {
	all := 0.0
	for _, b := range bins {
		all += float64(b.Count)
	}
	if all == 0 {
		return 1
	}
	sorted := slices.Sorted(slices.Values(times))
	n, least := uint64(len(sorted)), 1.0
	for i, t := range sorted {
		longer := uint64(len(sorted) - 1 - i) // no more than these exceed t
		least = math.Min(least, stat.BinomialAtMost(longer, n, 1-shareWithin(bins, all, loneSlower*float64(t)+laterNs)))
	}
	return least
}

// shareWithin returns the share of all that took no longer than ns.
func shareWithin(bins []record.Bin, all, ns float64) float64 {
	sum := 0.0
	for _, b := range bins {
		if float64(b.Ns) <= ns {
			sum += float64(b.Count)
		}
	}
	return math.Min(sum/all, 1)
}

// firstAnswers counts the connections that had their first response within an unloaded request's time,
// all slots having started at once.
func (l *unloadedFacts) firstAnswers(f *cpuFacts, times []float64) {
	all := 0.0
	for _, b := range f.base.run.Latency.ServiceBins {
		all += float64(b.Count)
	}
	n := float64(f.base.run.Load.Established)
	if len(f.base.run.FirstAnswers) == 0 || all == 0 || n < loneFirsts || f.generator.apart() > skewMost {
		return
	}
	sorted := slices.Sorted(slices.Values(times))
	alone := loneFirstWithin * sorted[(len(sorted)-1)*9/10]
	within := alone + l.heldNs
	l.slow = float64(len(sorted)-sort.SearchFloat64s(sorted, math.Nextafter(alone, math.MaxFloat64))) / float64(len(sorted))
	l.answered = n * shareWithin(f.base.run.FirstAnswers, n, within)
	start := (f.server.subject.cores + f.server.subject.queue.value) / f.base.rate * 1e9 * f.base.slots
	l.soon = n * shareWithin(f.base.run.FirstAnswers, n, loneSoon*alone+l.heldNs+start)
	l.expected = n * shareWithin(f.base.run.Latency.ServiceBins, all, within+l.gatheredNs)
	l.first = some(l.answered / n)
}

// decide determines whether requests wait for each other.
func (l *unloadedFacts) decide(f *facts, warming bool) {
	c := math.Max(float64(f.base.run.Load.Established), 1)
	if f.base.run.Load.Pipelining > 1 && f.base.run.Load.HTTP2 == nil && l.low >= loneAlone*c && l.high <= loneMost*c {
		l.full, l.lined = c, true
	}
	// The ones being served are served at once, and most are not being served.
	passedBy := l.first.known && l.soon < mostOf*c && l.expected >= loneAlone*c
	// More first responses than S servers give in that time.
	together := l.first.known && l.first.value >= mostOf && l.answered > 2*l.high+2
	unlikely := loneChance
	if l.first.known {
		unlikely = loneUnlikely // the first responses do not contradict
	}
	explained := f.explained()
	far := l.high <= math.Min(loneQueue, loneRoom-explained)*l.full
	switch {
	case far && (l.chance <= unlikely || passedBy) && !together && !f.time.trend.worse() && !f.mayBeAcks():
		l.is = queued
	case far && f.time.trend.worse():
		l.why = say("lone.slowed-down", nil)
	case far && f.mayBeAcks():
		l.why = say("lone.delayed-ack", nil)
	case warming:
		l.why = say("lone.warming", nil)
	case l.low >= loneAlone*l.full, l.looksLikeTheLoop(c):
		l.is = alone
	default:
		may, few := 0.0, 0
		switch {
		case far:
			few = l.n
		case l.high <= loneQueue*l.full:
			may = explained
		}
		l.why = say("lone.between", with{"lone_ns": l.meanNs, "low": places(l.low), "high": places(l.high), "of": l.full, "few": few,
			"explained": may})
	}
}

// looksLikeTheLoop reports whether the unloaded requests may be a sample of the loop's, nearly all of
// which take no longer than most lone ones did: a few are inherently slow, and none waits for
// another. Either a lone one was slow too, or the first responses came as the loop's do, not in
// turn.
func (l *unloadedFacts) looksLikeTheLoop(connections float64) bool {
	fast := l.expected / connections
	return l.chance > loneLikely && l.n >= loneHalf && l.first.known && fast >= loneAlone &&
		(l.slow > 0 && l.slow >= (1-fast)/2 || l.soon >= loneAlone*l.expected)
}

// explained returns the largest share of a response time that waiting for the server's CPU, or a
// stall, may account for: requests wait for a CPU only while it is busy and a server thread runs
// or is runnable.
func (f *facts) explained() float64 {
	share := 0.0
	if n := float64(len(f.cpu.server.cpus)); f.cpu.server.host.known && n > 0 {
		share = math.Max(1-f.cpu.server.host.over(f.cpu.server.cpus, idle)/n, 0)
		if f.cpu.server.subject.queue.known {
			share = math.Min(share, f.cpu.server.subject.cores+f.cpu.server.subject.queue.value)
		}
	}
	if f.time.stall.known {
		share = math.Min(share+f.time.stall.share, 1)
	}
	return share
}

// mayBeAcks reports whether responses take as long as a delayed ACK and may be waiting for one.
func (f *facts) mayBeAcks() bool {
	l := &f.base.run.Latency.Response
	return !f.delayed.known && float64(l.P50Ns) >= delayedAckNs && float64(l.P90Ns) <= delayedAckTight && l.MeanNs <= delayedAckTight
}

// waiting returns whether requests wait for each other: what the unloaded requests show or, if they
// do not decide, the first responses, unless the two contradict.
func (f *facts) waiting() queueing {
	l := &f.lone
	switch {
	case f.base.slots <= 1 && !f.base.open:
		return alone
	case !l.known || l.is != unclear:
		if l.known {
			return l.is
		}
		return f.time.startupQueue.is
	case f.time.startupQueue.is == queued && l.low < loneAlone*l.full, f.time.startupQueue.is == alone && l.high > loneQueue*l.full:
		return f.time.startupQueue.is
	}
	return unclear
}

// whyUnclear says why it is unknown whether requests wait for each other.
func (f *facts) whyUnclear() []record.Statement {
	switch {
	case f.lone.why.Code == "":
		return []record.Statement{f.time.startupQueue.why}
	case f.time.startupQueue.why.Code == "" || f.lone.known:
		return []record.Statement{f.lone.why}
	}
	return []record.Statement{f.lone.why, f.time.startupQueue.why}
}

// places returns how many requests are worked on at a time, as a whole number if that is about as
// likely.
func places(n float64) float64 {
	if whole := math.Round(n); whole >= 1 && math.Abs(n-whole) <= loneWhole*whole {
		return whole
	}
	return n
}

// loneEvidence says how long an unloaded request takes and what follows for the loop; empty without
// unloaded requests.
func (f *facts) loneEvidence() []record.Evidence {
	l := &f.lone
	if !l.sent || l.n == 0 {
		return nil
	}
	says := say("lone.time", with{"lone_ns": l.meanNs, "requests": l.n, "mean_ns": f.base.run.Latency.Service.MeanNs,
		"without_acks": l.heldNs > 0})
	if l.known {
		says = say("lone.at-once", with{"time": says, "per_s": f.base.rate, "lone_ns": l.meanNs, "at_once": l.at, "low": l.low, "high": l.high,
			"of": l.full})
	}
	list := []record.Evidence{record.NewEvidence("lone.service_ns", l.at, "requests", says)}
	if l.first.known {
		list = append(list, record.NewEvidence("first_answers", l.first.value, "share", say("lone.first-answers", with{"share": l.first.value})))
	}
	return list
}

// asLong says that an unloaded request takes as long as one under load: by its mean or, if a few slow
// ones make that a matter of luck, by its median.
func (l *unloadedFacts) asLong(f *runFacts) record.Statement {
	if under := f.run.Latency.Service; l.low < loneAlone*l.full {
		return say("lone.half-as-long", with{"half_ns": l.halfNs, "under_load_ns": under.P50Ns})
	}
	return say("lone.as-long", with{"lone_ns": l.meanNs})
}

// turnEvidence returns the evidence for or against requests waiting for each other.
func (f *facts) turnEvidence() []record.Evidence {
	list := f.loneEvidence()
	if f.time.startupQueue.q.known && (!f.lone.known || f.lone.is == unclear) || f.time.startupQueue.is == queued && !f.lone.known {
		list = append(list, f.time.startupEvidence())
	}
	return list
}

// rateLimit returns the rate that somebody set for the server; 0: none. Its responses are as many in every
// interval, and in the end a number of two digits: those of a lock drift with what its holders do.
func (f *runFacts) rateLimit() float64 {
	s, rate := &f.run.Rate.Spread, f.rate
	if rate <= 0 || s.Samples < limitSamples || s.P50PerS*s.WidthS < limitCount {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(rate))-1)
	round := math.Round(rate/unit) * unit
	least := math.Max(limitOff*rate, limitOne/s.WidthS)
	if s.MaxPerS-s.MinPerS > 2*least || math.Abs(rate-round) > math.Max(limitOff*rate, limitOne/f.run.ElapsedS) {
		return 0
	}
	return round
}

// turns says how many requests a server with idle CPU works on at a time, what for, and what
// doubling that would give.
func (f *facts) turns() record.Statement {
	l := &f.lone
	if !l.known || l.is != queued {
		return say("turns.unknown", nil)
	}
	if limit := f.base.rateLimit(); limit > 0 {
		return say("turns.limit", with{"per_s": limit})
	}
	if l.high < 1-loneWhole {
		return say("turns.less-than-one", with{"lone_ns": l.meanNs})
	}
	what := say("turns.pool", nil)
	if l.at < 2 {
		what = say("turns.lock", nil)
		if c := f.cpu.server.subject.cores; c >= halfOf*l.at && c <= 1.1 {
			what = say("turns.interpreter", with{"cores": c})
		}
	}
	if u := f.poolBefore(); u != nil {
		size := float64(u.high)
		what = say("turns.connections", with{"connections": u.high, "to": f.cpu.server.called(u), "whole": size < loneQueue*l.at || loneQueue*size > l.at})
	}
	if at := places(l.at); at > 1 && at < 2 {
		return say("turns.one-or-two", with{"what": what})
	}
	more, perS, cpu := 2*places(l.at), 2*f.base.rate, false
	if more > f.base.slots {
		more, perS = 0, 0
	} else if capacity, _ := f.cpu.server.capacity(); capacity.known && f.cpu.server.subject.cores > 0 {
		cpu = f.cpu.cpuRoom(capacity.value) < 2
	}
	return say("turns", with{"at_once": places(l.at), "what": what, "more": places(more), "more_per_s": perS, "cpu": cpu})
}

// result returns what the record keeps of it; nil if no unloaded request is usable.
func (l *unloadedFacts) result(f *runFacts) *record.ServedAtOnce {
	if !l.known {
		return nil
	}
	out := &record.ServedAtOnce{Requests: positive(l.at), Low: positive(l.low), High: positive(l.high), Of: l.full, LoneNs: positive(l.meanNs)}
	switch l.is {
	case queued:
		out.Means = record.InTurn
	case alone:
		out.Means = record.EachItsTime
	}
	return out
}
