package chart

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"
	"sync"

	"ceiling/internal/unit"
)

// Graph is what was measured at a few places of an x axis, each with its
// interval, and what was fitted to it.
type Graph struct {
	Title string
	// Says is the picture in a sentence, for those who cannot see it.
	Says   string
	X      Axis
	Y      Axis
	Lines  []Measured
	Spans  []Span
	Limits []Limit
}

// Measured is one line of a Graph.
type Measured struct {
	Name string
	// Tone is its colour, from 0 to Tones-1; Dashed tells two lines of one colour
	// apart.
	Tone   int
	Dashed bool
	// Joined draws straight lines between neighbouring places.
	Joined bool
	Places []Place
	// Fit is a fitted curve, from place to place.
	Fit []Place
}

// Place is one point with the interval that its value may lie in.
type Place struct {
	X, Y, Low, High float64
	// Hollow marks what does not count: it is drawn as a ring, and no line goes
	// through it.
	Hollow bool
}

// Span is a stretch of the x axis that something is said of.
type Span struct {
	Name     string
	From, To float64
	Tone     int
}

// NewGraph puts axes under lines: x is where something was measured, and y
// begins at 0, or is logarithmic where its unit is a time.
func NewGraph(title string, x, y Axis, lines []Measured) (Graph, bool) {
	g := Graph{Title: title, Lines: lines}
	low, high := math.Inf(1), math.Inf(-1)
	var at []float64
	for i := range lines {
		for _, p := range lines[i].Places {
			at = append(at, p.X)
			if !p.Hollow {
				low, high = min(low, p.Low, p.Y), max(high, p.High, p.Y)
			}
		}
	}
	if len(at) == 0 || low > high {
		return g, false
	}
	g.X = placesAxis(x.Name, x.Unit, at)
	if y.Unit == Nanoseconds {
		g.Y = decades(y.Name, y.Unit, low, high)
	} else {
		g.Y = fromZero(y.Name, y.Unit, high)
	}
	return g, true
}

// placesApart is how far apart two labels have to be, as a share of the axis.
const placesApart = 0.055

// placesAxis is an axis with a label at each place that something was measured
// at, but those that would run into the one before. It is logarithmic where the
// places are far apart in proportion: 1, 2, 5, 10, 20, 50.
func placesAxis(name, of string, at []float64) Axis {
	low, high := at[0], at[0]
	for _, v := range at {
		low, high = min(low, v), max(high, v)
	}
	a := Axis{Name: name, Unit: of, Min: 0, Max: high * 1.04}
	if low > 0 && high/low >= 8 {
		a.Log, a.Min, a.Max = true, low/1.12, high*1.12
	}
	if !(a.Max > a.Min) {
		a.Max = a.Min + 1
	}
	for _, v := range sortedOnce(at) {
		if n := len(a.Ticks); n == 0 || a.At(v)-a.At(a.Ticks[n-1].At) >= placesApart {
			a.Ticks = append(a.Ticks, Tick{v, tidy(unit.FormatSI(v))})
		}
	}
	return a
}

//go:embed graph.html
var graphFile string

// graphs is what HTML executes here, apart from the pictures of series.
var graphs = sync.OnceValue(func() *template.Template { return template.Must(template.New("").Parse(graphFile)) }) // read-only

func executeGraph(name string, data any) (template.HTML, error) {
	var b strings.Builder
	if err := graphs().ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("draw %s: %w", name, err)
	}
	return template.HTML(b.String()), nil // what html/template has made is escaped
}

// graphDrawing is a Graph in units of the picture.
type graphDrawing struct {
	Says        string
	Wide, High  int
	Across, Up  []Tick
	Spans       []spanDrawn
	Limits      []stroke
	Lines, Fits []stroke
	Reaches     []stroke
	Dots, Rings []stroke
	XName       string
}

type spanDrawn struct {
	shade
	Name string
	Tone int
	At   float64 // per cent
}

// HTML is the graph as a picture that needs no script.
func (g *Graph) HTML() (template.HTML, error) {
	p := Plot{X: g.X, Y: g.Y, Limits: g.Limits}
	base := p.drawing()
	d := graphDrawing{Says: g.Title + ". " + strings.TrimSpace(g.Says), Wide: wide, High: high, Across: base.Across, Up: base.Up,
		Limits: base.Limits, XName: g.X.Name}
	for _, s := range g.Spans {
		from, to := p.x(s.From), p.x(s.To)
		d.Spans = append(d.Spans, spanDrawn{shade{round(from), round(to - from)}, s.Name, s.Tone, round((from + to) / 2 / wide * 100)})
	}
	for i := range g.Lines {
		d.line(&p, &g.Lines[i])
	}
	return executeGraph("graph", d)
}

func (d *graphDrawing) line(p *Plot, l *Measured) {
	style := stroke{Tone: l.Tone, Dashed: l.Dashed, Name: l.Name}
	add := func(to *[]stroke, path string, points int) {
		if path != "" {
			s := style
			s.Path, s.Points = path, points
			*to = append(*to, s)
		}
	}
	var counted []Place
	var dots, rings, reaches strings.Builder
	for _, at := range l.Places {
		x, y := figure(p.x(at.X)), figure(p.y(at.Y))
		if at.Hollow {
			fmt.Fprintf(&rings, "M%s %sh0", x, y)
			continue
		}
		counted = append(counted, at)
		fmt.Fprintf(&dots, "M%s %sh0", x, y)
		if at.High > at.Low {
			fmt.Fprintf(&reaches, "M%s %sV%s", x, figure(p.y(at.Low)), figure(p.y(at.High)))
		}
	}
	if l.Joined && len(counted) > 1 {
		add(&d.Lines, joinedPath(p, counted), len(counted))
	}
	if len(l.Fit) > 1 {
		add(&d.Fits, joinedPath(p, l.Fit), len(l.Fit))
	}
	add(&d.Reaches, reaches.String(), len(counted))
	add(&d.Dots, dots.String(), len(counted))
	add(&d.Rings, rings.String(), len(l.Places)-len(counted))
}

func joinedPath(p *Plot, places []Place) string {
	var b strings.Builder
	for i, at := range places {
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		b.WriteString(letter + figure(p.x(at.X)) + " " + figure(p.y(at.Y)))
	}
	return b.String()
}

//go:embed graph.css
var graphStyle string
