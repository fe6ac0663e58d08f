package export

import (
	"math"
	"slices"
	"strings"
)

// figureKind is the metric type in OpenMetrics' terms.
type figureKind int

const (
	counter   figureKind = iota // grows from 0 at the start of the window
	gauge                       // current value
	info                        // labels; the value is always 1
	histogram                   // counts by upper bound
)

// figure is one metric.
type figure struct {
	// name is without the leading "ceiling", the unit and the trailing "_total".
	name string
	// unit is an OpenMetrics unit: "seconds", "bytes", "ratio"; "" for counts.
	unit   string
	kind   figureKind
	help   string
	points []point
}

// point is one value of a figure.
type point struct {
	labels []label
	value  float64
	// spread is set only in histograms.
	spread *spread
}

type label struct{ name, value string }

// spread is a histogram: counts[i] values are above bounds[i-1] and at most bounds[i] seconds;
// the last count is of values above all bounds.
type spread struct {
	bounds []float64
	counts []uint64
	count  uint64
	sum    float64 // seconds
}

// boundsNs are the upper bounds of a finished run's histograms: 1, 2, 5 from 10 µs to 50 s. No
// TCP round trip is shorter, no timeout longer.
var boundsNs = []int64{
	10e3, 20e3, 50e3, 100e3, 200e3, 500e3, 1e6, 2e6, 5e6, 10e6, 20e6, 50e6,
	100e6, 200e6, 500e6, 1e9, 2e9, 5e9, 10e9, 20e9, 50e9,
} // read-only

// figures is a list of metrics, in order.
type figures []figure

// add appends one value; it drops NaN and infinities, which mean not measured.
func (f *figures) add(kind figureKind, name, unit, help string, value float64, labels ...label) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	f.addPoint(kind, name, unit, help, point{labels: labels, value: value})
}

func (f *figures) addPoint(kind figureKind, name, unit, help string, p point) {
	for i := range p.labels {
		p.labels[i].value = strings.ToValidUTF8(p.labels[i].value, "\uFFFD")
	}
	i := slices.IndexFunc(*f, func(g figure) bool { return g.name == name && g.unit == unit })
	if i < 0 {
		*f = append(*f, figure{name: name, unit: unit, kind: kind, help: help})
		i = len(*f) - 1
	}
	(*f)[i].points = append((*f)[i].points, p)
}
