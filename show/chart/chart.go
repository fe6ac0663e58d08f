// Package chart computes what a page draws from a record: points, axes and labels. It has no side
// effects. The pictures are HTML with an SVG inside (Plot.HTML, Spark.HTML) and need no script;
// plot.js adds zooming over the same points.
package chart

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"ceiling/internal/hist"
	"ceiling/record"
)

// Run is one run and all the data in its record.
type Run struct {
	*record.Run
	// Label distinguishes the run from others on the page; "" if it is the only one.
	Label  string
	Series *record.Series
	// Histograms of the whole run; nil if the record has none.
	Response, Service, Lag *hist.Hist
	// ProfileFiles are the attached profiles by file name; profiles that the record lacks are
	// absent.
	ProfileFiles map[string][]byte
}

// observed returns the observed rows of the hosts, empty if the series was not recorded.
func (r *Run) observed() *record.ObservedRows {
	if r.Series == nil {
		return new(record.ObservedRows)
	}
	return &r.Series.Observed
}

// Plot is a set of lines over two axes.
type Plot struct {
	Title string `json:"title"`
	// Says describes the picture in one sentence, for screen readers.
	Says   string  `json:"says"`
	X      Axis    `json:"x"`
	Y      Axis    `json:"y"`
	Groups []Group `json:"groups"`
	Limits []Limit `json:"limits,omitempty"`
	// Spans are labelled ranges of the x axis.
	Spans []Span `json:"spans,omitempty"`
	// Density is the heat map under the lines; nil for none.
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

// Axis is one axis of a plot. Min and Max are in its unit.
type Axis struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Log   bool    `json:"log,omitempty"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Ticks []Tick  `json:"ticks"`
}

// Tick is a labelled position on an axis.
type Tick struct {
	At    float64 `json:"at"`
	Label string  `json:"label"`
}

// At returns the position of v between Min (0) and Max (1), clamped to that range.
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

// Group holds the lines of one run. They share their x positions: point i covers From[i] to
// To[i].
type Group struct {
	Name  string `json:"name"`
	From  Values `json:"from"`
	To    Values `json:"to"`
	Lines []Line `json:"lines"`
	// Rows is the number of rows drawn; each point covers at most Each of them.
	Rows int `json:"rows"`
	Each int `json:"each"`
	// Late are the points that contain a row marked late; LateRows counts those rows.
	Late     []int `json:"late,omitempty"`
	LateRows int   `json:"late_rows,omitempty"`
	// Opens and Closes bound the measured window in seconds on the x axis; both are 0 if the axis
	// is not time.
	Opens  float64 `json:"opens,omitempty"`
	Closes float64 `json:"closes,omitempty"`
}

// Points returns the number of points on each line.
func (g *Group) Points() int { return len(g.To) }

// Line is one line. Low and High are the range of the rows that each point summarises; nil if
// every point is one row.
type Line struct {
	Name string `json:"name"`
	// Tone is its colour, 0 to Tones-1; Dashed distinguishes two lines of the same colour.
	Tone   int    `json:"tone"`
	Dashed bool   `json:"dashed,omitempty"`
	Mid    Values `json:"mid"`
	Low    Values `json:"low,omitempty"`
	High   Values `json:"high,omitempty"`

	reduce reduce
}

// Tones is the number of line colours.
const Tones = 8

// Limit is a level drawn across the plot, such as an SLO or a capacity.
type Limit struct {
	Name string  `json:"name"`
	At   float64 `json:"at"`
}

// Values are numbers for a page. NaN is a gap (null in JSON); other values have seven significant
// digits in JSON, finer than a screen.
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
