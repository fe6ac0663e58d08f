package chart

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"ceiling/internal/unit"
)

// Forest is a forest plot: estimates with their intervals, one per row, on a shared axis.
type Forest struct {
	Title string
	// Says describes the picture in one sentence, for screen readers.
	Says string
	X    Axis
	Rows []Estimated
	// Lines are reference lines across all rows.
	Lines []Limit
}

// Estimated is one row of a Forest.
type Estimated struct {
	Name string
	// Value is the formatted estimate.
	Value          string
	Mid, Low, High float64
	Tone           int
	// BandLow and BandHigh bound the band that the interval is compared with; both 0 for none.
	BandLow, BandHigh float64
	// Each holds the observations behind the estimate, drawn as dots.
	Each []float64
	// None means that nothing was measured: the row shows its text only.
	None bool
}

// Signed is the axis unit of a share shown as a change in per cent, +5 %.
const Signed = "±%"

// NewForest builds a forest with an axis wide enough for all rows and lines. fromZeroOn starts
// the axis at 0.
func NewForest(title, name, of string, rows []Estimated, lines []Limit, fromZeroOn bool) (Forest, bool) {
	f := Forest{Title: title, Rows: rows, Lines: lines}
	low, high := math.Inf(1), math.Inf(-1)
	for i := range rows {
		r := &rows[i]
		if !r.None {
			low, high = min(low, r.Low, r.Mid, r.BandLow), max(high, r.High, r.Mid, r.BandHigh)
			for _, v := range r.Each {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if !(low <= high) || math.IsInf(low, 0) || math.IsInf(high, 0) {
		return f, false
	}
	for _, l := range lines {
		low, high = min(low, l.At), max(high, l.At)
	}
	if fromZeroOn {
		f.X = fromZero(name, of, high)
	} else {
		f.X = around(name, of, low, high)
	}
	return f, true
}

// around returns an axis with round labels that covers low to high.
func around(name, of string, low, high float64) Axis {
	if !(high > low) {
		low, high = low-0.5, high+0.5
	}
	step := roundUp((high - low) / ticksWanted)
	a := Axis{Name: name, Unit: of, Min: step * math.Floor(low/step+1e-9), Max: step * math.Ceil(high/step-1e-9)}
	for i := math.Round(a.Min / step); i*step <= a.Max+step*1e-9; i++ {
		at := i * step
		text := label(of, at)
		if of == Signed {
			text = signedPercent(at, step)
		}
		a.Ticks = append(a.Ticks, Tick{at, text})
	}
	return a
}

// signedPercent formats a share as a change, with the precision that labels a step apart need.
func signedPercent(share, step float64) string {
	if math.Abs(share) < step/2 {
		return "0"
	}
	decimals := 0
	for s := 100 * step; s < 1 && decimals < 4; s *= 10 {
		decimals++
	}
	return unit.Minus(fmt.Sprintf("%+.*f%%", decimals, 100*share))
}

// forestRow is one row in per cent of the axis.
type forestRow struct {
	Name, Value           string
	Tone                  int
	None, Point           bool
	At, From, FromEnd     float64
	Band                  bool
	BandFrom, BandFromEnd float64
	Each                  []float64
}

// HTML renders the forest as a picture that needs no script.
func (f *Forest) HTML() (template.HTML, error) {
	d := struct {
		Says   string
		Rows   []forestRow
		Lines  []Tick
		Across []Tick
	}{Says: f.Title + ". " + strings.TrimSpace(f.Says)}
	at := func(v float64) float64 { return round(100 * f.X.At(v)) }
	for i := range f.Rows {
		r := &f.Rows[i]
		row := forestRow{Name: r.Name, Value: r.Value, Tone: r.Tone % Tones, None: r.None}
		if !r.None {
			row.At, row.From, row.FromEnd = at(r.Mid), at(r.Low), round(100-at(r.High))
			for _, v := range r.Each {
				row.Each = append(row.Each, at(v))
			}
			row.Band = r.BandHigh > r.BandLow
			row.BandFrom, row.BandFromEnd = at(r.BandLow), round(100-at(r.BandHigh))
		}
		d.Rows = append(d.Rows, row)
	}
	for _, l := range f.Lines {
		d.Lines = append(d.Lines, Tick{at(l.At), l.Name})
	}
	for _, t := range f.X.Ticks {
		d.Across = append(d.Across, Tick{at(t.At), t.Label})
	}
	return execute("forest", d)
}

func sortedOnce(values []float64) []float64 {
	list := slices.Clone(values)
	slices.Sort(list)
	return slices.Compact(list)
}
