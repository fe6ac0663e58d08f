package verdict

import (
	"cmp"
	"math"
	"slices"

	"ceiling/internal/stat"
	"ceiling/record"
)

// stallFacts describes the stalls: periods without a response although requests were in flight.
type stallFacts struct {
	known bool
	share float64 // of the window
	count int     // how often
	ns    float64 // total
	// from and to bound each stall on the run's clock, in ns.
	from, to []int64
	// cores is the server's CPU during the stalls; starved and hungry count the threads of the
	// server and of the generator that were runnable without a CPU.
	cores, starved, hungry figure
}

// stallsOf finds stretches of the window that are too quiet for chance: at the rate of the other
// rows they should have seen many responses.
func stallsOf(f *runFacts, rows []record.LoadRow) stallFacts {
	var s stallFacts
	if len(rows) < stallRows {
		return s
	}
	s.known = true
	whole := 0.0
	for i := range rows {
		whole += float64(rows[i].WidthNs)
	}
	usual := usualRate(rows)
	if usual <= 0 || whole <= 0 {
		return s
	}
	// Requests longer than the stretch explain it.
	patience := stallPatience * math.Max(float64(f.run.Latency.Response.P50Ns), 0)
	lost := func(i int) float64 { // of a row adjacent to a stall: the part of it that is missing
		if i < 0 || i >= len(rows) || rows[i].InFlight == 0 {
			return 0
		}
		return lackingNs(&rows[i], usual)
	}
	shortest, fewest := math.MaxFloat64, math.MaxFloat64
	for i := 0; i < len(rows); {
		j, width := i, 0.0
		for j < len(rows) && rows[j].InFlight > 0 && float64(rows[j].Completed) <= stallRest*usual*float64(rows[j].WidthNs) {
			width += float64(rows[j].WidthNs)
			j++
		}
		if j > i {
			whole := width + lost(i-1) + lost(j)
			if width >= stallShortestNs && whole >= patience && usual*width >= stallExpected {
				s.count++
				shortest, fewest = math.Min(shortest, width), math.Min(fewest, float64(rows[i].InFlight))
				s.ns += whole
				s.from, s.to = append(s.from, rows[i].TNs-rows[i].WidthNs), append(s.to, rows[j-1].TNs)
			}
		}
		i = j + 1
	}
	s.share = math.Min(s.ns/whole, 1)
	if f.byLongRequests(s.count, shortest, fewest, whole) {
		return stallFacts{known: true}
	}
	return s
}

// stallsMost bounds the stalls listed in a verdict.
const stallsMost = 100

// stalls returns the stalls and reported outages in time order.
func (f *facts) stalls() []record.Stall {
	list := slices.Clone(f.time.outage.list)
	for i := range f.time.stall.from {
		list = append(list, record.Stall{FromNs: f.time.stall.from[i], ToNs: f.time.stall.to[i]})
	}
	slices.SortFunc(list, func(a, b record.Stall) int { return cmp.Compare(a.FromNs, b.FromNs) })
	return list[:min(len(list), stallsMost)]
}

// byLongRequests reports whether long requests alone may explain the stalls: each slot spends its
// share of the time in one, and now and then all of them do so at once.
func (f *runFacts) byLongRequests(count int, stretchNs, inFlight, windowNs float64) bool {
	long, all := 0.0, 0.0
	for _, b := range f.run.Latency.ResponseBins {
		took := float64(b.Ns) * float64(b.Count)
		if all += took; float64(b.Ns) >= stretchNs {
			long += took
		}
	}
	if count == 0 || all <= 0 {
		return false
	}
	by := math.Pow(long/all, inFlight) * windowNs / stretchNs
	return stat.PoissonAtLeast(uint64(count), by) > stallChance
}

// during measures what the two sides did during the stalls.
func (s *stallFacts) during(f *cpuFacts, series *record.Series) {
	rows := ours(f, series.Observed.Processes)
	of := func(role, host string) (cores, queue figure) {
		cpu, wait, known, whole, width := 0.0, 0.0, true, 0.0, map[int]float64{}
		for _, row := range rows {
			if row.Role != role || row.Host != host || row.WidthNs <= 0 || !s.within(row.Observed()) {
				continue
			}
			cpu += math.Max(float64(row.CPUNs), 0)
			wait += float64(row.QueueNs)
			known = known && row.QueueNs >= 0
			width[row.PID] += float64(row.WidthNs)
			whole = math.Max(whole, width[row.PID])
		}
		if whole == 0 {
			return figure{}, figure{}
		}
		return some(cpu / whole), figure{wait / whole, known}
	}
	s.cores, s.starved = of(record.RoleSubject, f.server.subject.host)
	_, s.hungry = of(record.RoleGenerator, f.generator.homeHost)
	for _, a := range f.generator.agents {
		if _, hungry := of(record.RoleGenerator, a.cpu.generator.agent); hungry.value > s.hungry.value {
			s.hungry = hungry
		}
	}
}

// within reports whether the middle of an interval lies in a stall.
func (s *stallFacts) within(h *record.ObservedHead) bool {
	middle := h.TNs - h.WidthNs/2
	for i := range s.from {
		if middle >= s.from[i] && middle <= s.to[i] {
			return true
		}
	}
	return false
}

// queueing says whether requests wait for each other anywhere.
type queueing int

const (
	unclear queueing = iota
	alone            // no: each takes as long as it would alone
	queued           // yes: a request takes long because others are ahead of it
)

// startupQueueFacts distinguishes a queue from a plain delay. Once a closed loop runs, both look
// the same: every request takes equally long. They differ at the start, when all slots send at
// once. A plain delay D answers all of them after D. A queue answers the first at once and the
// last of N after N turns, so the mean of the first N responses is half of what it will become.
//
// In numbers: with C responses of mean m in the first rows and a steady mean R, q = (1 − m/R)·C/N
// is 0 for a plain delay and ½ for a queue. A delay that itself varies gives q = cv², its squared
// coefficient of variation, because short ones come back first; so only q beyond cv² indicates a
// queue.
type startupQueueFacts struct {
	is      queueing
	q       figure
	cv      float64
	first   float64          // mean response time of the first responses, ns
	firstN  float64          // how many there are
	lasting float64          // steady mean response time, ns
	why     record.Statement // why it is unclear
}

// lasting returns the mean response time of the window's rows once the loop runs, and its
// relative deviation from row to row, which a difference has to exceed. It uses median and
// quartiles so that one hiccup does not decide.
func lasting(rows []record.LoadRow) (meanNs, deviation float64) {
	var means []float64
	for i := range rows {
		if m := positive(rows[i].MeanNs); !rows[i].Warmup && m > 0 {
			means = append(means, m)
		}
	}
	n := len(means)
	if n < stallRows {
		return 0, 1
	}
	slices.Sort(means)
	// For a normal distribution the quartiles are 1.349 standard deviations apart.
	return means[n/2], (means[n*3/4] - means[n/4]) / 1.349 / means[n/2]
}

// fastest returns the shortest response time of the run, including the warm-up where the rows
// have it: a queue lets the very first requests pass.
func fastest(l *record.Quantiles, rows []record.LoadRow) float64 {
	low := positive(float64(l.MinNs))
	for i := range rows {
		if m := float64(rows[i].MinNs); m > 0 && rows[i].Completed > 0 && rows[i].Failed == 0 {
			low = min(low, m)
		}
	}
	return low
}

// variation returns the coefficient of variation of the response times, including a tail rarer
// than one in ten. If only quantiles are known, it takes the middle between neighbouring ones.
func (f *runFacts) variation() float64 {
	l := &f.run.Latency
	square := secondMoment(l)
	if q := &l.Response; len(l.ResponseBins) == 0 {
		between := func(a, b int64) float64 { m := (float64(a) + float64(b)) / 2; return m * m }
		square = .5*between(max(q.MinNs, q.P50Ns/2), q.P50Ns) + .4*between(q.P50Ns, q.P90Ns) + .09*between(q.P90Ns, q.P99Ns) +
			.009*between(q.P99Ns, max(q.P999Ns, q.P99Ns)) + .001*between(max(q.P999Ns, q.P99Ns), max(q.MaxNs, q.P999Ns, q.P99Ns))
	}
	mean := l.Response.MeanNs
	return math.Sqrt(math.Max(square/mean/mean-1, 0))
}

// startupOf reads the first responses, and the fastest one if too many arrived at a time.
func startupOf(f *generatorSide, series *record.Series, delayed *delayedAckFacts) startupQueueFacts {
	var c startupQueueFacts
	l := &f.base.run.Latency.Response
	mean := positive(l.MeanNs)
	switch {
	case f.base.open:
		c.fallenBehind(f.base, series)
		return c
	case f.base.slots <= 1:
		c.is = alone
		return c
	case mean == 0 || l.Count == 0 || series == nil:
		c.why = say("startup.no-rows", nil)
		return c
	case f.base.run.Spec.ConnectRamp > 0 || f.base.run.Spec.NewConnections > 0 || f.apart() > skewMost:
		c.why = say("startup.apart", nil)
		return c
	}
	c.cv = f.base.variation()
	rows := slices.DeleteFunc(slices.Clone(series.Load), func(r record.LoadRow) bool { return r.WidthNs <= 0 })
	sortLoad(rows)
	if len(rows) > 0 && !rows[0].Warmup && f.base.run.WarmupS > 0 {
		c.why = say("startup.not-recorded", nil)
		return c
	}
	sum, n := 0.0, 0.0
	for i := range rows {
		if n >= f.base.slots {
			break
		}
		n += float64(rows[i].Completed)
		sum += float64(rows[i].Completed) * positive(rows[i].MeanNs)
	}
	if n < f.base.slots || sum == 0 {
		c.why = say("startup.not-recorded", nil)
		return c
	}
	c.first, c.firstN = sum/n, n
	// Of one kind of request, a delay in the work itself is never a small fraction of the usual time, but a
	// queue occasionally lets a request pass.
	alike := len(f.base.run.Spec.Targets) <= 1 && len(f.base.run.Statuses) <= 1 && f.base.run.Requests.Failed == 0
	if low := fastest(l, rows); alike && c.cv <= startupSteady && f.base.slots >= startupSlots && low > 0 &&
		low <= startupFastest*(mean-delayed.waitNs()) {
		c.is, c.first, c.firstN = queued, low, 1
		return c
	}
	c.lasting = mean
	settled, deviation := lasting(rows)
	if startupSure*deviation*n/f.base.slots > startupAlone {
		c.why = say("startup.late", nil)
		return c
	}
	c.lasting = settled
	c.q = some((1 - c.first/settled) * n / f.base.slots)
	c.is, c.why = c.concludes(c.q.value)
	// The first responses may have waited for an ACK or not: a new connection delays none.
	if rest := settled - delayed.waitNs(); rest < settled {
		if is, _ := c.concludes((1 - c.first/math.Max(rest, 1)) * n / f.base.slots); is != c.is {
			c.is, c.why = unclear, say("startup.delayed-ack", nil)
		}
	}
	return c
}

// fallenBehind reads an open loop that is not answered as fast as it sends: if the first responses,
// with few requests in flight, were much faster than the mean, a request waits for those ahead of it.
// The mean is from when it was sent, so what waits for a slot does not count.
func (c *startupQueueFacts) fallenBehind(f *runFacts, series *record.Series) {
	s := &f.schedule
	if series == nil || !f.starvedOfSlots() && (s.missed > unsentShare || !s.owed.known || s.owed.value <= backlogMax) {
		c.why = say("startup.open-loop", nil)
		return
	}
	rows := slices.DeleteFunc(slices.Clone(series.Load), func(r record.LoadRow) bool { return r.WidthNs <= 0 || r.Completed < startupSlots })
	sortLoad(rows)
	c.why = say("startup.not-recorded", nil)
	if len(rows) > 0 {
		c.first, c.firstN = positive(cmp.Or(rows[0].ServiceMeanNs, rows[0].MeanNs)), float64(rows[0].Completed)
		c.lasting, c.why = positive(f.run.Latency.Service.MeanNs), say("startup.between", nil)
	}
	if c.first > 0 && c.lasting >= startupGrew*c.first {
		c.is, c.why = queued, record.Statement{}
	}
}

// concludes tells what a value of q shows.
func (c *startupQueueFacts) concludes(q float64) (queueing, record.Statement) {
	beyond := q - c.cv*c.cv
	switch {
	case c.cv > startupSteady:
		return unclear, say("startup.vary", nil)
	case beyond >= startupQueued:
		return queued, record.Statement{}
	case math.Abs(beyond) <= startupAlone:
		return alone, record.Statement{}
	case beyond < 0:
		return unclear, say("startup.slower", nil)
	}
	return unclear, say("startup.between", nil)
}
