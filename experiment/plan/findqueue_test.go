package plan

import (
	"math"
	"math/rand/v2"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/record"
	"ceiling/record/recordtest"
)

// queue is a server in memory: workers that take requests in the order they
// arrive, each for meanNs, fixed or exponentially distributed.
type queue struct {
	workers     int
	meanNs      float64
	exponential bool
	// disturbed is the share of the runs in which everything takes slower times
	// as long.
	disturbed float64
	slower    float64
	// stallFrom and stallFor: nothing begins meanwhile, seconds.
	stallFrom, stallFor float64
	seed                uint64
}

func (q *queue) capacity() float64 { return float64(q.workers) / q.meanNs * 1e9 }

// trace is what one run of the queue leaves.
type trace struct {
	response  *hist.Hist
	rows      []record.LoadRow
	completed uint64
	elapsedS  float64
	owed      float64 // share of the requests unanswered at the end, beyond the beginning
}

const rowNs = 100e6

// histograms for the rows of a run of so many seconds.
func histograms(lengthS float64) []*hist.Hist {
	each := make([]*hist.Hist, int(math.Ceil(lengthS*1e9/rowNs))+1)
	for i := range each {
		each[i] = &hist.Hist{}
	}
	return each
}

// serve runs an open loop at perS for the warm-up and the length, in seconds.
// The run with the same number is the same run. each, where it is given, takes
// the response times by row.
func (q *queue) serve(perS, warmupS, lengthS float64, arrivals string, number uint64, each []*hist.Hist) trace {
	chance := rand.New(rand.NewPCG(q.seed, number))
	mean := q.meanNs
	if chance.Float64() < q.disturbed {
		mean *= q.slower
	}
	total := int(math.Ceil(lengthS*1e9/rowNs)) + 1
	out := trace{response: &hist.Hist{}}
	counts := make([]record.LoadRow, total)
	due := make([]int, total)
	for i := range each {
		each[i].Reset()
	}
	free := make([]float64, q.workers) // when each worker is free, nanoseconds from the window's opening
	for i := range free {
		free[i] = math.Inf(-1)
	}
	end := lengthS * 1e9
	var carried, n, left int
	var lastNs float64
	stallFrom, stallTo := q.stallFrom*1e9, (q.stallFrom+q.stallFor)*1e9
	for i, t := 0, -warmupS*1e9; ; i++ {
		if arrivals == spec.Poisson {
			t += chance.ExpFloat64() * 1e9 / perS
		} else {
			t = -warmupS*1e9 + (float64(i)+.5)*1e9/perS
		}
		if t >= end {
			break
		}
		next := 0
		for w := range free {
			if free[w] < free[next] {
				next = w
			}
		}
		begin := max(t, free[next])
		if begin >= stallFrom && begin < stallTo {
			begin = stallTo
		}
		took := mean
		if q.exponential {
			took *= chance.ExpFloat64()
		}
		done := begin + took
		free[next] = done
		if t < 0 {
			if done >= 0 {
				carried++
				counts[min(int(done/rowNs), total-1)].Completed++
			}
			continue
		}
		n++
		due[int(t/rowNs)]++
		out.response.Record(int64(done - t))
		lastNs = max(lastNs, done)
		if done >= end {
			left++
		}
		at := min(int(done/rowNs), total-1)
		counts[at].Completed++
		if each != nil && done < end {
			each[at].Record(int64(done - t))
		}
	}
	out.completed = uint64(n)
	out.elapsedS = max(lastNs, end) / 1e9
	out.owed = float64(left-carried) / float64(max(n, 1))
	inFlight := carried
	for i := 0; float64(i)*rowNs < end; i++ {
		row := counts[i]
		inFlight += due[i] - int(row.Completed)
		row.Kind, row.TNs, row.WidthNs, row.Sent = record.KindLoad, int64(min(float64(i+1)*rowNs, end)), rowNs, uint64(due[i])
		row.InFlight = uint64(max(inFlight, 0))
		out.rows = append(out.rows, row)
	}
	return out
}

// measured is a step done on the queue, as a run's record would have it, and
// judged as package verdict does. It costs no time but what it says in TookS.
func (q *queue) measured(e *spec.Experiment, d *Decision) record.Measured {
	step := d.Next
	m := record.Measured{Step: *step, Outcome: record.Valid, Bottleneck: record.TargetRate}
	warmup, length := e.Load.WarmupTime().Seconds(), time.Duration(e.Load.Duration).Seconds()
	if step.Rate.IsZero() {
		m.CompletedPerS, m.ElapsedS, m.TookS = .98*q.capacity(), length, warmup+length
		m.Completed = uint64(m.CompletedPerS * length)
		m.Bottleneck = "server CPU"
		return m
	}
	perS := step.Rate.PerSecond()
	var each []*hist.Hist
	if d.MayStopEarly {
		each = histograms(length)
	}
	t := q.serve(perS, warmup, length, e.Load.Arrivals, uint64(step.Number), each)
	m.TargetPerS = perS
	m.ElapsedS, m.Completed, m.Histogram = t.elapsedS, t.completed, t.response
	if d.MayStopEarly {
		stop := NewEarlyStop(e.SLO, perS, time.Duration(e.Load.Duration), e.Load.Arrivals)
		so := &hist.Hist{}
		var completed uint64
		for i := range t.rows {
			so.Merge(each[i])
			completed += t.rows[i].Completed
			if m.StoppedEarly = stop.Add(&t.rows[i], each[i]); m.StoppedEarly != "" {
				m.ElapsedS, m.Histogram, m.Completed = float64(t.rows[i].TNs)/1e9, so, completed
				break
			}
		}
	}
	m.TookS = warmup + m.ElapsedS
	m.CompletedPerS = float64(m.Completed) / m.ElapsedS
	m.Response = record.QuantilesOf(m.Histogram)
	for _, term := range e.SLO {
		if v, _, known := figure(term, &m); known {
			m.SLO = append(m.SLO, record.SLOTerm{Term: term.String(), Value: v, Met: term.Holds(v)})
			if !term.Holds(v) {
				m.Outcome = record.Fail
			}
		}
	}
	if t.owed > .01 {
		m.Bottleneck = "server CPU"
		if m.Outcome == record.Valid {
			m.Outcome, m.Because = record.Invalid, recordtest.Says("the target rate was sent but not answered")
		}
	}
	return m
}
