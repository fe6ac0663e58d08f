package chart

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"ceiling/internal/unit"
)

// Graph plots measurements at a few x positions, each with its interval, and curves fitted to
// them.
type Graph struct {
	Title string
	// Says describes the picture in one sentence, for screen readers.
	Says   string
	X      Axis
	Y      Axis
	Lines  []Measured
	Spans  []Span
	Limits []Limit
	Stacks []Stack
}

// Measured is one series of a Graph.
type Measured struct {
	Name string
	// Tone is its colour, 0 to Tones-1; Dashed distinguishes two lines of the same colour.
	Tone   int
	Dashed bool
	// Joined connects neighbouring points with straight lines.
	Joined bool
	Places []Place
	// Each holds the individual runs behind Places, drawn as small dots.
	Each []Place
	// Fit is a fitted curve, as points.
	Fit []Place
}

// Place is one point with its confidence interval.
type Place struct {
	X, Y, Low, High float64
	// Hollow marks a point that does not count: drawn as a ring, with no line through it.
	Hollow bool
	// Early marks a run that was stopped early: drawn as a triangle that points where the value
	// was heading.
	Early bool
	// Label is shown next to the mark if there is room.
	Label string
}

// Stack is a stacked column at an x position, first part at the bottom.
type Stack struct {
	X     float64
	Parts []StackPart
	// Wide is its width on the x axis; 0 fills the gap to the neighbours.
	Wide float64
}

// StackPart is one part of a Stack: a share from 0 to 1, or nanoseconds in a graph of times.
// Class sets its colour.
type StackPart struct {
	Share float64
	Class string
}

// Span is a labelled range of the x axis.
type Span struct {
	Name string  `json:"name"`
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Tone int     `json:"tone"`
}

// NewGraph builds a graph with axes that fit the lines. The y axis starts at 0, or is logarithmic
// if its unit is a time.
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
		for _, p := range lines[i].Each {
			low, high = min(low, p.Y), max(high, p.Y)
		}
	}
	if len(at) == 0 || low > high {
		return g, false
	}
	g.X = PlacesAxis(x.Name, x.Unit, at)
	if y.Unit == Nanoseconds {
		g.Y = decades(y.Name, y.Unit, low, high)
	} else {
		g.Y = fromZero(y.Name, y.Unit, high)
	}
	return g, true
}

// Near starts the x axis just below the lowest x position, and makes it logarithmic if the
// positions are far apart.
func (g *Graph) Near() {
	at := g.placesX()
	if len(at) == 0 || g.X.Log {
		return
	}
	least, most := slices.Min(at), slices.Max(at)
	if !(most > least) {
		return
	}
	if least > 0 && least < most/3 { // a search bisects: equal ratios are equal steps
		g.X.Log, g.X.Min, g.X.Max = true, least/1.15, most*1.15
		g.X.Ticks = placeTicks(g.X, at)
		return
	}
	g.X.Min, g.X.Max = least-0.08*(most-least), most+0.08*(most-least)
	g.X.Ticks = placeTicks(g.X, at)
}

// placesX returns the x positions of all measurements.
func (g *Graph) placesX() []float64 {
	var at []float64
	for i := range g.Lines {
		for _, p := range g.Lines[i].Places {
			at = append(at, p.X)
		}
	}
	return at
}

// Reach extends the y axis to include v.
func (g *Graph) Reach(v float64) {
	if g.Y.Log && v > 0 && (v < g.Y.Min || v > g.Y.Max) {
		g.Y = decades(g.Y.Name, g.Y.Unit, min(v, g.Y.Min), max(v, g.Y.Max))
	}
}

// NewStacks draws stacked shares on the x axis of another graph.
func NewStacks(title string, x Axis, stacks []Stack) Graph {
	y := fromZero("share", Plain, 1)
	y.Ticks = []Tick{{0, "0%"}, {.5, "50%"}, {1, "100%"}}
	return Graph{Title: title, X: x, Y: y, Stacks: stacks}
}

// NewTimes draws stacked columns over the time of a run: the height of a column is a time, its
// parts are nanoseconds that add up to it.
func NewTimes(title, name string, stacks []Stack, elapsedS float64) Graph {
	most := 0.0
	for i := range stacks {
		whole := 0.0
		for _, part := range stacks[i].Parts {
			whole += part.Share
		}
		most = max(most, whole)
	}
	return Graph{Title: title, X: timeAxis(0, elapsedS), Y: fromZero(name, Nanoseconds, most), Stacks: stacks}
}

// placesApart is the minimum distance between two labels, as a share of the axis.
const placesApart = 0.055

// PlacesAxis returns an axis with a label at each measured position, except labels that would
// overlap the previous one. It is logarithmic if the positions are far apart in proportion: 1, 2,
// 5, 10, 20, 50.
func PlacesAxis(name, of string, at []float64) Axis {
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
	a.Ticks = placeTicks(a, at)
	return a
}

// placeTicks returns labels at positions, without those that would overlap the previous one.
func placeTicks(a Axis, at []float64) []Tick {
	var list []Tick
	for _, v := range sortedOnce(at) {
		if n := len(list); n == 0 || a.At(v)-a.At(list[n-1].At) >= placesApart {
			list = append(list, Tick{v, tidy(unit.FormatSI(v))})
		}
	}
	return list
}

// graphDrawing is a Graph in units of the picture.
type graphDrawing struct {
	Says                string
	Wide, High          int
	Across, Up          []Tick
	Spans               []spanDrawn
	Limits, Lines, Fits []stroke
	Reaches             []stroke
	Dots, Rings         []stroke
	Each                []stroke
	Early               []earlyMark
	Columns             []column
}

// earlyMark is a triangle, in per cent of the picture.
type earlyMark struct {
	Left, Bottom float64
	Tone         int
	Label        string
	Before       bool // the label is to the left of the mark
}

// labelWide and labelHigh are the approximate size of a label, in per cent of a picture on a
// phone.
const labelWide, labelHigh = 12, 7

// room drops the labels of marks that would overlap another mark's.
func room(marks []earlyMark) {
	slices.SortStableFunc(marks, func(a, b earlyMark) int { return cmp.Compare(b.Bottom, a.Bottom) })
	var taken []earlyMark
	for i := range marks {
		m := &marks[i]
		m.Before = m.Left > 100-labelWide
		clash := slices.ContainsFunc(taken, func(o earlyMark) bool {
			return math.Abs(o.Left-m.Left) < 2*labelWide && math.Abs(o.Bottom-m.Bottom) < labelHigh
		})
		if clash {
			m.Label = ""
		}
		if m.Label != "" {
			taken = append(taken, *m)
		}
	}
}

// column is one part of a stack, in units of the picture.
type column struct {
	X, Y, Wide, High float64
	Class            string
}

type spanDrawn struct {
	shade
	Name string
	Tone int
	At   float64 // per cent
}

// HTML renders the graph as a picture that needs no script.
func (g *Graph) HTML() (template.HTML, error) {
	p := Plot{X: g.X, Y: g.Y, Limits: g.Limits, Spans: g.Spans}
	base, err := p.drawing()
	if err != nil {
		return "", err
	}
	d := graphDrawing{Says: g.Title + ". " + strings.TrimSpace(g.Says), Wide: wide, High: high, Across: base.Across, Up: base.Up,
		Limits: base.Limits, Spans: base.Spans}
	for i := range g.Lines {
		d.line(&p, &g.Lines[i])
	}
	room(d.Early)
	d.Columns = columns(&p, g.Stacks)
	return execute("graph", d)
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
		if at.Early {
			d.Early = append(d.Early, earlyMark{round(100 * p.X.At(at.X)), round(100 * p.Y.At(at.Y)), l.Tone, at.Label, false})
			continue
		}
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
	var each strings.Builder
	for _, at := range l.Each {
		fmt.Fprintf(&each, "M%s %sh0", figure(p.x(at.X)), figure(p.y(at.Y)))
	}
	add(&d.Each, each.String(), len(l.Each))
	add(&d.Reaches, reaches.String(), len(counted))
	add(&d.Dots, dots.String(), len(counted))
	add(&d.Rings, rings.String(), len(l.Places)-len(counted))
}

// Columns take this share of the gap between two neighbours, up to a maximum share of the axis.
const (
	columnShare = 0.62
	columnMost  = 0.045
	columnGap   = 1 // between columns with a width, in units of the picture
)

// columns returns the parts of all stacks.
func columns(p *Plot, stacks []Stack) []column {
	wideMost := columnMost * wide
	for i := range stacks {
		for _, other := range stacks[:i] {
			if gap := math.Abs(p.x(stacks[i].X) - p.x(other.X)); gap > 0 {
				wideMost = min(wideMost, columnShare*gap)
			}
		}
	}
	var list []column
	for _, s := range stacks {
		left, width := p.x(s.X)-wideMost/2, wideMost
		if s.Wide > 0 {
			left = p.x(s.X - s.Wide/2)
			width = p.x(s.X+s.Wide/2) - left - columnGap
		}
		under := 0.0
		for _, part := range s.Parts {
			top := under + part.Share
			list = append(list, column{X: round(left), Y: round(p.y(top)), Wide: round(width),
				High: round(p.y(under) - p.y(top)), Class: part.Class})
			under = top
		}
	}
	return list
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
