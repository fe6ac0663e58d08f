package record

import (
	"math"
	"slices"
	"time"
)

const (
	// secondsFrom is the shortest run whose spread is over seconds: shorter ones have too few.
	secondsFrom = 3 * time.Second
	// lateShare is the ratio to its nominal width from which a second is late, as for rows
	// (LoadRow.Late).
	lateShare = 1.5
)

// sample is a stretch of the series.
type sample struct {
	widthNs   int64
	completed uint64
	late      bool
}

func (s sample) perS() float64 { return float64(s.completed) / (float64(s.widthNs) / 1e9) }

// SpreadOf returns how the completion rate varied over a run's rows: over whole seconds if they
// last 3 s or more, else over the rows themselves. Each rate uses the sample's true width.
// Warm-up rows do not count.
//
// It omits and counts late samples: rows marked late, and seconds wider than 1.5 s because of
// such a row. A partial second or row at the end is not a sample.
//
// The quartiles are interpolated between ranks (0 is the smallest, n−1 the largest), the
// deviation is that of a sample (n−1). Without samples everything is 0.
func SpreadOf(rows []LoadRow) Spread {
	var out Spread
	var rates []float64
	samples, width := intervals(rows)
	for _, s := range samples {
		if s.late {
			out.Late++
			continue
		}
		rates = append(rates, s.perS())
	}
	out.WidthS = float64(width) / 1e9
	out.Samples = len(rates)
	if len(rates) == 0 {
		return out
	}
	slices.Sort(rates)
	out.MinPerS, out.MaxPerS = rates[0], rates[len(rates)-1]
	out.P25PerS, out.P50PerS, out.P75PerS = ranked(rates, .25), ranked(rates, .5), ranked(rates, .75)
	mean := 0.0
	for _, v := range rates {
		mean += v / float64(len(rates))
	}
	out.StdevPerS = stdev(rates, mean)
	for _, v := range rates {
		if math.Abs(v-mean) <= out.StdevPerS {
			out.WithinStdev += 1 / float64(len(rates))
		}
	}
	return out
}

// intervals cuts rows into samples and returns their nominal width: if they are the rows, the
// median of theirs.
func intervals(rows []LoadRow) (samples []sample, widthNs int64) {
	var fromNs, toNs int64
	var widths []int64
	for i := range rows {
		row := &rows[i]
		if row.Warmup || row.WidthNs <= 0 {
			continue
		}
		if len(widths) == 0 {
			fromNs = row.TNs - row.WidthNs
		}
		toNs = row.TNs
		widths = append(widths, row.WidthNs)
		samples = append(samples, sample{row.WidthNs, row.Completed, row.Late})
	}
	if len(widths) == 0 {
		return nil, 0
	}
	if time.Duration(toNs-fromNs) >= secondsFrom {
		return seconds(samples), int64(time.Second)
	}
	last := widths[len(widths)-1]
	slices.Sort(widths)
	widthNs = widths[len(widths)/2]
	if last < widthNs/2 { // the window closed within it
		samples = samples[:len(samples)-1]
	}
	return samples, widthNs
}

// seconds joins rows into seconds. A second ends with the row whose end is nearest to it, so that
// jitter does not shift later seconds.
func seconds(rows []sample) []sample {
	var joined []sample
	var sum sample
	var nowNs int64
	endNs := int64(time.Second)
	for _, row := range rows {
		nowNs += row.widthNs
		sum.widthNs += row.widthNs
		sum.completed += row.completed
		if nowNs < endNs-row.widthNs/2 {
			continue
		}
		sum.late = float64(sum.widthNs) > lateShare*float64(time.Second)
		joined = append(joined, sum)
		sum = sample{}
		// The next whole second that is more than half a second away.
		endNs = (nowNs + int64(time.Second)*3/2) / int64(time.Second) * int64(time.Second)
	}
	return joined
}

// ranked returns the quantile q of ascending values, interpolated.
func ranked(values []float64, q float64) float64 {
	at := q * float64(len(values)-1)
	low := int(at)
	if low+1 >= len(values) {
		return values[len(values)-1]
	}
	return values[low] + (at-float64(low))*(values[low+1]-values[low])
}

func stdev(values []float64, mean float64) float64 {
	if len(values) < 2 {
		return 0
	}
	square := 0.0
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	return math.Sqrt(square / float64(len(values)-1))
}
