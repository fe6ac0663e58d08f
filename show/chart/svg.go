package chart

import (
	"embed"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"sync"
)

//go:embed plot.html graph.html
var files embed.FS

// pictures is the template that HTML executes; it escapes text from the record.
var pictures = sync.OnceValue(func() *template.Template { return template.Must(template.ParseFS(files, "*.html")) }) // read-only

// A picture is wide × high units, stretched to the available room. Line widths stay constant
// (vector-effect), and labels are HTML next to the SVG, so that both stay readable at any size.
const wide, high = 1000, 300

// HTML renders the plot as a picture that needs no script.
func (p *Plot) HTML() (template.HTML, error) {
	d, err := p.drawing()
	if err != nil {
		return "", err
	}
	return execute("plot", d)
}

// drawing is a plot in units of the picture.
type drawing struct {
	Says           string
	Wide, High     int
	Across, Up     []Tick // in per cent of the width and the height
	Shades         []shade
	Bands, Strokes []stroke
	Limits         []stroke
	Late           []stroke
	Spans          []spanDrawn
	Density        *densityDrawn
}

// shade is a stretch of time outside of the measured window.
type shade struct{ From, Wide float64 }

// stroke is a path with its style.
type stroke struct {
	Path   string
	Tone   int
	Dashed bool
	Name   string
	Points int
	At     float64 // of a limit, per cent from the bottom
}

func (p *Plot) drawing() (drawing, error) {
	density, err := p.density()
	if err != nil {
		return drawing{}, err
	}
	d := drawing{Density: density, Spans: p.spans(),
		Says: p.Title + ". " + strings.TrimSpace(p.Says), Wide: wide, High: high}
	for _, t := range p.X.Ticks {
		d.Across = append(d.Across, Tick{round(100 * p.X.At(t.At)), t.Label})
	}
	for _, t := range p.Y.Ticks {
		d.Up = append(d.Up, Tick{round(100 * p.Y.At(t.At)), t.Label})
	}
	for _, l := range p.Limits {
		y := p.y(l.At)
		d.Limits = append(d.Limits, stroke{Name: l.Name, Path: "M0 " + figure(y) + "H" + figure(wide), At: round(100 * p.Y.At(l.At))})
	}
	for i := range p.Groups {
		d.group(p, &p.Groups[i])
	}
	return d, nil
}

// spanLabel is the approximate width of a span's label, in per cent of a picture on a phone.
const spanLabel = 22

// spans returns the spans in units of the picture. It drops a label that would overlap the
// previous one.
func (p *Plot) spans() []spanDrawn {
	var list []spanDrawn
	last := math.Inf(-1)
	for _, s := range p.Spans {
		from, to := p.x(s.From), p.x(s.To)
		d := spanDrawn{shade{round(from), round(to - from)}, s.Name, s.Tone, round((from + to) / 2 / wide * 100)}
		if d.At-last < spanLabel {
			d.Name = ""
		} else if d.Name != "" {
			last = d.At
		}
		list = append(list, d)
	}
	return list
}

// group draws the lines of one run, and its warm-up if it is the only run.
func (d *drawing) group(p *Plot, g *Group) {
	if len(p.Groups) == 1 && g.Closes > g.Opens {
		d.Shades = append(d.Shades, shade{0, round(p.x(g.Opens))}, shade{round(p.x(g.Closes)), round(wide - p.x(g.Closes))})
	}
	for l := range g.Lines {
		line := &g.Lines[l]
		if line.Low != nil {
			d.Bands = append(d.Bands, stroke{Path: p.band(g, line), Tone: line.Tone})
		}
		path, points := p.steps(g, line.Mid)
		d.Strokes = append(d.Strokes, stroke{Path: path, Tone: line.Tone, Dashed: line.Dashed, Name: line.Name, Points: points})
	}
	var marks strings.Builder
	for _, i := range g.Late {
		if len(g.Lines) > 0 && !math.IsNaN(g.Lines[0].Mid[i]) {
			fmt.Fprintf(&marks, "M%s %sh0", figure(p.x((g.From[i]+g.To[i])/2)), figure(p.y(g.Lines[0].Mid[i])))
		}
	}
	if marks.Len() > 0 {
		d.Late = append(d.Late, stroke{Path: marks.String(), Points: len(g.Late)})
	}
}

func (p *Plot) x(v float64) float64 { return wide * p.X.At(v) }
func (p *Plot) y(v float64) float64 { return high * (1 - p.Y.At(v)) }

// steps returns a path that is level over each point's interval: one H per point.
func (p *Plot) steps(g *Group, values Values) (path string, points int) {
	var b strings.Builder
	joined := false
	for i, v := range values {
		if math.IsNaN(v) {
			joined = false
			continue
		}
		// Neighbours share an edge; after a gap the path starts over.
		joined = joined && !(g.From[i]-g.To[i-1] > gapMost*(g.To[i]-g.From[i]))
		if joined {
			b.WriteString("V" + figure(p.y(v)))
		} else {
			b.WriteString("M" + figure(p.x(g.From[i])) + " " + figure(p.y(v)))
		}
		b.WriteString("H" + figure(p.x(g.To[i])))
		joined = true
		points++
	}
	return b.String(), points
}

// band is the area between the minimum and the maximum of each point's rows.
func (p *Plot) band(g *Group, line *Line) string {
	var b strings.Builder
	for i := range line.Low {
		if !(line.High[i] > line.Low[i]) {
			continue // a single value, or none
		}
		fmt.Fprintf(&b, "M%s %sH%sV%sH%sz", figure(p.x(g.From[i])), figure(p.y(line.High[i])), figure(p.x(g.To[i])),
			figure(p.y(line.Low[i])), figure(p.x(g.From[i])))
	}
	return b.String()
}

// figure formats a coordinate to a tenth of a unit.
func figure(v float64) string { return strconv.FormatFloat(round(v), 'f', -1, 64) }

func round(v float64) float64 { return math.Round(v*10) / 10 }

// Spark is a sparkline without axes, for a table cell. It runs from 0 to Max.
type Spark struct {
	Max    float64
	Values Values
}

func sparkOf(g Group) Spark {
	s := Spark{Values: g.Lines[0].Mid}
	for _, values := range []Values{g.Lines[0].Mid, g.Lines[0].High} {
		for _, v := range values {
			if !math.IsNaN(v) {
				s.Max = max(s.Max, v)
			}
		}
	}
	return s
}

// At returns the position of v between 0 and Max, from 0 to 1.
func (s *Spark) At(v float64) float64 {
	if !(s.Max > 0) || math.IsNaN(v) {
		return 0
	}
	return min(max(v/s.Max, 0), 1)
}

// HTML renders the line as an SVG hidden from screen readers: the figures are next to it.
func (s *Spark) HTML() (template.HTML, error) {
	var b strings.Builder
	joined := false
	step := 100 / max(float64(len(s.Values)-1), 1)
	for i, v := range s.Values {
		if math.IsNaN(v) {
			joined = false
			continue
		}
		letter := "M"
		if joined {
			letter = "L"
		}
		joined = true
		b.WriteString(letter + figure(float64(i)*step) + " " + figure(20-20*s.At(v)))
	}
	return execute("spark", b.String())
}

func execute(name string, data any) (template.HTML, error) {
	var b strings.Builder
	if err := pictures().ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("draw %s: %w", name, err)
	}
	return template.HTML(b.String()), nil // html/template has escaped it
}
