package plan

import (
	"fmt"
	"math"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
)

const (
	// earlyStopAlpha is the chance, over all checks of a step, of stopping one whose rate its
	// server can just sustain; TestEarlyStopSparesAStableQueue enforces it.
	earlyStopAlpha = 0.01
	// driftSure is the growth of the backlog that counts as drift, in deviations of a driftless
	// walk. With a check every 100 ms from a quarter of the step on, about 1 in 1,000 exceeds it
	// by chance.
	driftSure = 4
	// driftLow is subtracted from the growth before extrapolating it to the end of the step, in
	// deviations.
	driftLow = 2
	// driftEven is the minimum growth of each quarter of the time, relative to the mean quarter.
	// Under a server that only stalled, some quarters did not grow.
	driftEven = 1. / 3
	// driftFrom is the share of the step, and driftFromS the seconds, that must have passed; a
	// longer stall breaks most SLOs by itself.
	driftFrom  = 0.25
	driftFromS = 2
	// driftRows is the minimum number of changes for a deviation.
	driftRows = 8
	// earlyStopBacklogMax is the share of requests that may be unanswered at the end beyond those at the
	// start. A run with a backlog of more than half of it is invalid by its own verdict.
	earlyStopBacklogMax = 0.02
	// lateTimes is the factor over the SLO's allowance by which late requests must exceed it by
	// the end.
	lateTimes = 2
)

// backlog is the number of requests due and not answered, over a step.
//
// Its growth is tested against a random walk. The queue of a server at its capacity, but not
// above it, wanders: by chance it is long for long periods. The Mann-Kendall test on the means of
// eight blocks, at p < 0.001 twice a second, stopped 46 % of such steps, and 10 % at 97 % of the
// capacity; on blocks longer than the correlation time (stat.MannKendall) 14 % and 2 %. The
// changes of that queue between intervals are nearly independent, so the test is on their mean:
// there is drift if the queue has grown by driftSure deviations of a walk of that length.
type backlog struct {
	slo    spec.SLO
	perS   float64
	length float64 // seconds
	fromS  float64
	atS    []float64
	size   []float64
}

func newBacklog(slo spec.SLO, perS float64, length time.Duration) backlog {
	b := backlog{slo: slo, perS: perS, length: length.Seconds()}
	b.fromS = math.Max(driftFromS, driftFrom*b.length)
	for _, t := range slo {
		if t.Metric == spec.MetricResponse {
			// A stall as long as the limit may be acceptable.
			b.fromS = math.Max(b.fromS, 2*t.Limit/1e9)
		}
	}
	return b
}

// add adds one interval and returns why the step must fail.
func (b *backlog) add(row *record.LoadRow) string {
	now, size := float64(row.TNs)/1e9, float64(row.InFlight)+float64(row.Backlog)
	if n := len(b.atS); n > 0 && now <= b.atS[n-1] {
		return ""
	}
	b.atS, b.size = append(b.atS, now), append(b.size, size)
	if now < b.fromS || now >= b.length {
		return ""
	}
	slope, deviation, sure := b.drift()
	if !sure || !b.even() {
		return ""
	}
	least := slope - driftLow*deviation
	end := size + least*(b.length-now)
	served := math.Max(b.perS-slope, b.perS/1000)
	growing := fmt.Sprintf("at %s, %s requests are waiting, %s more every second", at(row), countOf(size), countOf(slope))
	if owed := end - b.size[0]; owed > earlyStopBacklogMax*b.perS*b.length {
		return fmt.Sprintf("the server cannot keep up: %s", growing)
	}
	for _, t := range b.slo {
		if t.Metric != spec.MetricResponse || !(t.Quantile > 0) || t.Quantile > 1 {
			continue
		}
		// A request that arrives behind size others waits size/served.
		fits := now + (t.Limit/1e9*served-size)/least
		if late := (b.length - math.Max(fits, now)) / b.length; late > lateTimes*(1-t.Quantile) {
			return fmt.Sprintf("%s cannot be met: %s, a wait of %s by the end", t, growing, unit.FormatNs(int64(end/served*1e9)))
		}
	}
	return ""
}

// drift returns the growth of the backlog per second with its standard deviation, and whether a
// driftless walk can be ruled out.
func (b *backlog) drift() (slope, deviation float64, sure bool) {
	n := len(b.size) - 1
	if n < driftRows {
		return 0, 0, false
	}
	span, grown := b.atS[n]-b.atS[0], b.size[n]-b.size[0]
	slope = grown / span
	square := 0.0
	for i := 1; i <= n; i++ {
		off := b.size[i] - b.size[i-1] - slope*(b.atS[i]-b.atS[i-1])
		square += off * off
	}
	// A change of one request is not growth, however regular.
	walk := math.Max(math.Sqrt(square/float64(n-1)*float64(n)), 1)
	return slope, walk / span, grown > driftSure*walk
}

// even reports whether every quarter of the time contributed to the growth.
func (b *backlog) even() bool {
	n := len(b.size) - 1
	grown := b.size[n] - b.size[0]
	last := 0
	for quarter := 1; quarter <= 4; quarter++ {
		until := b.atS[0] + (b.atS[n]-b.atS[0])*float64(quarter)/4
		i := last
		for i < n && b.atS[i] < until {
			i++
		}
		if b.size[i]-b.size[last] < driftEven*grown/4 {
			return false
		}
		last = i
	}
	return true
}
