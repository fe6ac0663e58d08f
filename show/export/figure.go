package export

import (
	"math"
	"slices"
	"strings"
)

// figureKind is what a figure is, in OpenMetrics' words.
type figureKind int

const (
	counter   figureKind = iota // grows from 0 at the opening of the window
	gauge                       // a value now
	info                        // labels; the value is always 1
	histogram                   // counts by upper bound
)

// figure is one metric, to be written as OpenMetrics or as OTLP.
type figure struct {
	// name without the "ceiling" before it, the unit and "_total" behind it.
	name string
	// unit is OpenMetrics': "seconds", "bytes", "ratio"; "" for counts.
	unit   string
	kind   figureKind
	help   string
	points []point
}

// point is one value of a figure.
type point struct {
	labels []label
	value  float64
	// spread is set in histograms alone.
	spread *spread
}

type label struct{ name, value string }

// spread is a histogram: counts[i] values are above bounds[i-1] and at most
// bounds[i] seconds; the last count is of those above all bounds.
type spread struct {
	bounds []float64
	counts []uint64
	count  uint64
	sum    float64 // seconds
}

// boundsNs are the upper bounds of the histograms of a finished run: 1, 2, 5
// from 10 µs to 50 s. Below lies no TCP round trip, above no timeout.
var boundsNs = []int64{
	10e3, 20e3, 50e3, 100e3, 200e3, 500e3, 1e6, 2e6, 5e6, 10e6, 20e6, 50e6,
	100e6, 200e6, 500e6, 1e9, 2e9, 5e9, 10e9, 20e9, 50e9,
} // read-only

// figures collects them in order.
type figures []figure

// add puts one value in; a value that is no number is not measured and left
// out.
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
