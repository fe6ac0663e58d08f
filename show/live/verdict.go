package live

import (
	"math"
	"slices"
	"strconv"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/record"
	"ceiling/verdict"
)

// leastNs is how much of the window must be over before a verdict is formed: with fewer than ten
// samples a rule's result is arbitrary.
const leastNs = 1e9

// Formed is a run as far as it is known, with its verdict.
type Formed struct {
	record.Run
	// Final is set if it is the run's own document, or all that there is of a killed run. A preliminary one covers the ElapsedS seconds
	// before AtNs and lacks what is known only at the end: the request accounting, the
	// generator's own figures, and the SLO if Quantiles is false.
	Final     bool
	AtNs      int64
	Quantiles bool
}

// evidence is the data that a verdict is formed from: a copy, unaffected by updates.
type evidence struct {
	start record.Start
	rows  rows
	// response is nil if only the quantiles of intervals are known.
	response    *hist.Hist
	batchMeanNs float64
}

// form judges a run in progress. ok is false if there is too little data.
func (e *evidence) form() (f Formed, ok bool) {
	from, to, ok := e.window()
	if !ok {
		return f, false
	}
	run := e.run(from, to)
	series := e.series(from)
	run.Agents = e.agents(&series, float64(to-from)/1e9)
	run.Verdict = verdict.Forming(&run, &series)
	return Formed{Run: run, AtNs: to, Quantiles: e.response != nil}, true
}

// lost turns it into a killed run, as in its record. The time breakdown up to that point stays, without a bottleneck.
func (f *Formed) lost(s spec.Spec, elapsedS float64) {
	v := &f.Verdict
	f.Spec, f.ElapsedS, f.Unfinished, f.Final = s, elapsedS, true, true
	f.Verdict = record.Verdict{Outcome: record.Invalid, Bottleneck: record.Inconclusive, Because: f.Killed(), Next: record.KilledNext(),
		Stations: v.Stations, StationsBy: v.StationsBy, StationsOf: v.StationsOf, Uses: v.Uses, Stalls: v.Stalls}
}

// window returns the period to judge: the whole window, or its last 20 s.
func (e *evidence) window() (from, to int64, ok bool) {
	n := len(e.rows.load)
	if n == 0 || e.rows.load[n-1].Warmup {
		return 0, 0, false
	}
	to = e.rows.load[n-1].TNs
	from = max(0, to-keepNs)
	return from, to, to-from >= leastNs
}

// run builds a run document from the rows of the window, as far as they go.
func (e *evidence) run(from, to int64) record.Run {
	s := e.start.Spec
	elapsed := float64(to-from) / 1e9
	r := record.Run{
		Schema: record.Schema, ID: e.start.ID, Command: e.start.Command, Started: e.start.Created, Spec: s,
		// Like a killed run, a run in progress has no request accounting to balance.
		Unfinished: true,
		Load: record.Load{
			Connections: s.Connections, Threads: s.Threads, Pipelining: s.Pipelining, Mode: "closed", Arrivals: s.Arrivals,
		},
		WarmupS: s.Warmup.Seconds(), ElapsedS: elapsed, Generator: record.Generator{RunDelay: -1, BatchMeanNs: e.batchMeanNs},
		NotMeasured: e.rows.lost,
	}
	if len(s.Targets) > 0 {
		r.Target = s.Targets[0].URL
	}
	r.Spec.Duration = time.Duration(to - from)
	if s.Open() {
		r.Load.Mode, r.Load.TargetPerS = "open", e.askedPerS(from, to)
	}
	bad := e.count(&r, from)
	r.Rate.CompletedPerS = float64(r.Requests.Completed) / elapsed
	r.Rate.SentPerS = float64(r.Requests.Sent) / elapsed
	r.Requests.Due = uint64(r.Load.TargetPerS * elapsed)
	r.Statuses = map[string]uint64{"200": r.Requests.Completed - min(bad, r.Requests.Completed)}
	if bad > 0 { // which ones is known at the end
		unexpected := 400
		for s.Expect.Has(unexpected) && unexpected < 999 {
			unexpected++
		}
		r.Statuses[strconv.Itoa(unexpected)] = bad
	}
	r.Latency.Response = e.quantiles(from)
	r.Latency.Service.MeanNs = e.serviceMean(from)
	r.Spec.SLO = slices.DeleteFunc(slices.Clone(s.SLO), func(t spec.Term) bool {
		return t.IsLatency() && (t.Metric != spec.MetricResponse || e.response == nil)
	})
	return r
}

// askedPerS returns the mean target rate over a period of an open loop.
func (e *evidence) askedPerS(from, to int64) float64 {
	r, d := e.start.Spec.Rate, e.start.Spec.Duration.Seconds()
	first, last := r.From.PerSecond(), r.To.PerSecond()
	if d <= 0 {
		return r.PerSecond()
	}
	middle := min(float64(from+to)/2e9/d, 1)
	return first + (last-first)*middle
}

// count adds up the window's rows and returns the number of bad responses.
func (e *evidence) count(r *record.Run, from int64) (bad uint64) {
	for i := range e.rows.load {
		row := &e.rows.load[i]
		if before(row, from) {
			r.Load.Established = row.Connected
			r.Requests.InFlightAtStart = row.InFlight
			continue
		}
		r.Load.Established = max(r.Load.Established, row.Connected)
		r.Requests.Sent += row.Sent
		r.Requests.Completed += row.Completed
		r.Requests.Failed += row.Failed
		r.Requests.InFlight = row.InFlight
		r.Requests.LateAtEnd = row.Backlog
		r.Bytes.Read += row.Read
		r.Bytes.Written += row.Written
		bad += row.Bad
	}
	r.Requests.Sent += r.Requests.InFlightAtStart
	return bad
}

// quantiles of the response time: exact if its distribution is known, otherwise the medians of
// the intervals' quantiles, for rules that need only the magnitude.
func (e *evidence) quantiles(from int64) record.Quantiles {
	if e.response != nil && e.response.Count() > 0 {
		q := record.QuantilesOf(e.response)
		if text, err := e.response.EncodeV2(); err == nil && e.start.Spec.SLO.NeedsHistogram() {
			q.HDR = text
		}
		return q
	}
	var q record.Quantiles
	var p50, p90, p99 []int64
	sum := 0.0
	for i := range e.rows.load {
		row := &e.rows.load[i]
		n := row.Completed + row.Failed
		if before(row, from) || n == 0 {
			continue
		}
		q.Count += n
		sum += row.MeanNs * float64(n)
		p50, p90, p99 = append(p50, row.P50Ns), append(p90, row.P90Ns), append(p99, row.P99Ns)
		if q.MinNs == 0 || row.MinNs < q.MinNs {
			q.MinNs = row.MinNs
		}
		q.MaxNs = max(q.MaxNs, row.MaxNs)
	}
	if q.Count > 0 {
		q.MeanNs = sum / float64(q.Count)
		q.P50Ns, q.P90Ns, q.P99Ns = middle(p50), middle(p90), middle(p99)
	}
	return q
}

// serviceMean returns the mean service time.
func (e *evidence) serviceMean(from int64) float64 {
	n, sum := 0.0, 0.0
	for i := range e.rows.load {
		if row := &e.rows.load[i]; !before(row, from) {
			n += float64(row.Completed)
			sum += float64(row.Completed) * row.ServiceMeanNs
		}
	}
	return sum / max(n, 1)
}

func middle(list []int64) int64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// series returns the rows with time 0 at the start of the window. Earlier rows count as warm-up.
func (e *evidence) series(from int64) record.Series {
	var s record.Series
	for _, row := range e.rows.firstLoad {
		if before(&row, from) {
			row.Warmup = true
			row.TNs -= from
			s.Load = append(s.Load, row)
		}
	}
	for _, row := range e.rows.load {
		if !before(&row, from) {
			row.TNs -= from
			s.Load = append(s.Load, row)
		}
	}
	for _, row := range e.rows.agents {
		if !before(&row, from) {
			row.TNs -= from
			s.Agents = append(s.Agents, row)
		}
	}
	first, observed := e.rows.before, e.rows.observed
	first.Window(math.MinInt64, math.MaxInt64, from)
	observed.Window(from, math.MaxInt64, from)
	s.Observed.Add(first.All()...)
	s.Observed.Add(observed.All()...)
	return s
}

// before reports whether most of a row lies before a time, or before the window.
func before(row *record.LoadRow, from int64) bool {
	return row.Warmup || row.TNs-row.WidthNs/2 < from
}
