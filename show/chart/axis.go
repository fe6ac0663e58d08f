package chart

import (
	"fmt"
	"math"
	"strconv"

	"ceiling/internal/unit"
)

// ticksWanted is the approximate number of labels on an axis: more overlap on a narrow page.
const ticksWanted = 5

// fromZero returns an axis from 0 to a round number at or above high.
func fromZero(name, of string, high float64) Axis {
	if !(high > 0) || math.IsInf(high, 0) {
		high = 1
	}
	step := roundUp(high / ticksWanted)
	if of == Plain {
		step = max(step, 1)
	}
	a := Axis{Name: name, Unit: of, Max: step * math.Ceil(high/step*(1-1e-9))}
	for i := 0; float64(i)*step <= a.Max*(1+1e-9); i++ {
		at := float64(i) * step
		a.Ticks = append(a.Ticks, Tick{at, label(of, at)})
	}
	return a
}

// roundUp returns the next 1, 2 or 5 times a power of ten.
func roundUp(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if x <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// decades returns a logarithmic axis that spans whole powers of ten, at least one.
func decades(name, of string, low, high float64) Axis {
	low = max(low, 1)
	high = max(high, low)
	first, last := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high)*(1-1e-12))
	if last <= first {
		last = first + 1
	}
	a := Axis{Name: name, Unit: of, Log: true, Min: math.Pow(10, first), Max: math.Pow(10, last)}
	for e := first; e <= last; e++ {
		at := math.Pow(10, e)
		a.Ticks = append(a.Ticks, Tick{at, label(of, at)})
	}
	return a
}

// label formats a value for an axis.
func label(of string, v float64) string {
	switch of {
	case Nanoseconds:
		return tidy(unit.FormatNs(int64(min(v, math.MaxInt64/2))))
	case BitPerSecond:
		return tidy(unit.FormatBits(unit.BitsPerSecond(max(v, 0))))
	case Plain, PerSecond:
		return tidy(unit.FormatSI(v))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// tidy strips trailing zeros after the decimal point: 1.00 ms becomes 1 ms on an axis.
func tidy(text string) string {
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || text[end] == '.' || text[end] == '-') {
		end++
	}
	figure, rest := text[:end], text[end:]
	if v, err := strconv.ParseFloat(figure, 64); err == nil {
		figure = strconv.FormatFloat(v, 'f', -1, 64)
	}
	return figure + rest
}

// timeSteps are the label spacings of a time axis in seconds, from 1 s up; below that, timeAxis
// uses 1, 2 and 5 times powers of ten.
func timeSteps() []float64 {
	return []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 4 * 3600, 12 * 3600, 86400}
}

// timeAxis returns an axis of seconds with round labels.
func timeAxis(from, to float64) Axis {
	a := Axis{Name: "time since the window opened", Unit: Seconds, Min: from, Max: to}
	if !(to > from) {
		a.Max = from + 1
	}
	const wanted = 8
	least := (a.Max - a.Min) / wanted
	step := roundUp(least)
	if least > 0.5 {
		for _, s := range timeSteps() {
			if step = s; s >= least {
				break
			}
		}
		for step < least { // a run of weeks, or a damaged row
			step *= 2
		}
	}
	for i := math.Ceil(a.Min/step - 1e-9); i*step <= a.Max+step*1e-9; i++ {
		a.Ticks = append(a.Ticks, Tick{i * step, timeLabel(i*step, step)})
		if len(a.Ticks) > 2*wanted {
			break // beyond the precision of a float64: step no longer changes the position
		}
	}
	return a
}

// timeLabel formats a time on an axis whose labels are a step apart.
func timeLabel(s, step float64) string {
	switch {
	case s == 0:
		return "0"
	case step >= 3600:
		return strconv.FormatFloat(s/3600, 'f', -1, 64) + " h"
	case step >= 60:
		return strconv.FormatFloat(s/60, 'f', -1, 64) + " min"
	case step >= .1:
		return strconv.FormatFloat(math.Round(s*10)/10, 'f', -1, 64) + " s"
	}
	return tidy(unit.FormatNs(int64(math.Round(s * 1e9))))
}

// tailAxis returns the HDR axis: 1/(1-q) of quantiles q on a logarithmic scale, so that each
// further nine takes as much room as the one before. It ends at n, the number of values; the
// largest value is drawn at n.
func tailAxis(n float64) Axis {
	a := Axis{Name: "percentile", Unit: OneOver, Log: true, Min: 1, Max: max(n, 10)}
	a.Ticks = []Tick{{1, "0%"}, {2, "50%"}, {10, "90%"}}
	nines := ""
	for at := 100.0; at <= a.Max; at *= 10 {
		a.Ticks = append(a.Ticks, Tick{at, fmt.Sprintf("99%s%%", nines)})
		if nines == "" {
			nines = "."
		}
		nines += "9"
	}
	return a
}
