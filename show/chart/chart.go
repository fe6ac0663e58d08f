// Package chart works out what a page draws: which points, on which axes, with
// which labels, from what a record holds. It is pure. The pictures themselves
// are HTML with an SVG in it (Plot.HTML, Spark.HTML) that can be read without
// script; plot.js lets a reader zoom into the same points.
package chart

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"ceiling/internal/hist"
	"ceiling/record"
)

// Run is one run with everything that its record holds.
type Run struct {
	*record.Run
	// Label tells it from the other runs of a page; "" where it is the only one.
	Label  string
	Series *record.Series
	// The histograms of the whole run; nil where the record has none.
	Response, Service, Lag *hist.Hist
	// ProfileFiles are the attached profiles by the names of their files; those that the
	// record lacks are not there.
	ProfileFiles map[string][]byte
}

// observed is what the hosts did, nothing where the series was not kept.
func (r *Run) observed() *record.ObservedRows {
	if r.Series == nil {
		return new(record.ObservedRows)
	}
	return &r.Series.Observed
}

// Plot is lines over two axes.
type Plot struct {
	Title string `json:"title"`
	// Says is the picture in a sentence, for those who cannot see it.
	Says   string  `json:"says"`
	X      Axis    `json:"x"`
	Y      Axis    `json:"y"`
	Groups []Group `json:"groups"`
	Limits []Limit `json:"limits,omitempty"`
	// Spans are stretches of the x axis that something is said of.
	Spans []Span `json:"spans,omitempty"`
	// Density lies under the lines; nil is none.
	Density *Density `json:"density,omitempty"`
}

// Units of an axis.
const (
	Seconds      = "s"
	Nanoseconds  = "ns"
	PerSecond    = "/s"
	BitPerSecond = "bit/s"
	Plain        = ""     // a count
	OneOver      = "tail" // 1/(1-q) of a quantile q: the HDR axis
)

// Axis is one of a plot. Min and Max are in its unit.
type Axis struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Log   bool    `json:"log,omitempty"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Ticks []Tick  `json:"ticks"`
}

// Tick is a labelled place on an axis.
type Tick struct {
	At    float64 `json:"at"`
	Label string  `json:"label"`
}

// At is where v lies between Min (0) and Max (1), held to that range.
func (a *Axis) At(v float64) float64 {
	low, high := a.Min, a.Max
	if a.Log {
		low, high, v = math.Log(low), math.Log(high), math.Log(max(v, a.Min))
	}
	if !(high > low) || math.IsNaN(v) {
		return 0
	}
	return min(max((v-low)/(high-low), 0), 1)
}

// Group is the lines of one run. They share their points: point i covers From[i]
// to To[i] on the x axis.
type Group struct {
	Name  string `json:"name"`
	From  Values `json:"from"`
	To    Values `json:"to"`
	Lines []Line `json:"lines"`
	// Rows of the record are drawn, at most Each of them as one point.
	Rows int `json:"rows"`
	Each int `json:"each"`
	// Late are the points that hold a row marked late; LateRows counts the rows.
	Late     []int `json:"late,omitempty"`
	LateRows int   `json:"late_rows,omitempty"`
	// Opens and Closes are the measured window, seconds on the x axis; both 0
	// where the axis is not time.
	Opens  float64 `json:"opens,omitempty"`
	Closes float64 `json:"closes,omitempty"`
}

// Points is how many there are on each line.
func (g *Group) Points() int { return len(g.To) }

// Line is one line. Where a point stands for several rows, Low and High reach
// over them all; else they are nil.
type Line struct {
	Name string `json:"name"`
	// Tone is its colour, from 0 to Tones-1; Dashed tells two lines of one colour
	// apart.
	Tone   int    `json:"tone"`
	Dashed bool   `json:"dashed,omitempty"`
	Mid    Values `json:"mid"`
	Low    Values `json:"low,omitempty"`
	High   Values `json:"high,omitempty"`

	reduce reduce
}

// Tones is how many colours there are for lines.
const Tones = 8

// Limit is a level that the lines may reach, or shall.
type Limit struct {
	Name string  `json:"name"`
	At   float64 `json:"at"`
}

// Values are numbers for a page: NaN is a gap, in JSON null; JSON has seven
// significant digits of the others, finer than a screen.
type Values []float64

// MarshalJSON implements json.Marshaler.
func (v Values) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('[')
	for i, x := range v {
		if i > 0 {
			out.WriteByte(',')
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			out.WriteString("null")
			continue
		}
		out.Write(strconv.AppendFloat(nil, x, 'g', 7, 64))
	}
	out.WriteByte(']')
	return out.Bytes(), nil
}

var _ json.Marshaler = Values(nil)
