package preview

import (
	"image"
	"image/color"
	"image/draw"
	"math"

	"golang.org/x/image/vector"

	"ceiling/show/chart"
)

// Sizes of a chart's parts, in pixels.
const (
	lineWide   = 3.5
	dotRadius  = 6
	eachRadius = 3
	axisRoom   = 90 // for the labels left of a graph
	labelHigh  = 30
)

var small = textOf{20, false, soft} // read-only

func (s *sheet) fill(r image.Rectangle, c color.RGBA) {
	draw.Draw(s.to, r, image.NewUniform(c), image.Point{}, draw.Src)
}

// shape fills a path with smooth edges.
func (s *sheet) shape(c color.RGBA, path func(v *vector.Rasterizer)) {
	v := vector.NewRasterizer(Wide, High)
	path(v)
	v.Draw(s.to, s.to.Rect, image.NewUniform(c), image.Point{})
}

// stroke draws a straight line of a given width.
func (s *sheet) stroke(x1, y1, x2, y2, wide float64, c color.RGBA) {
	long := math.Hypot(x2-x1, y2-y1)
	if long == 0 {
		return
	}
	dx, dy := (y2-y1)/long*wide/2, (x2-x1)/long*wide/2
	s.shape(c, func(v *vector.Rasterizer) {
		v.MoveTo(float32(x1+dx), float32(y1-dy))
		v.LineTo(float32(x2+dx), float32(y2-dy))
		v.LineTo(float32(x2-dx), float32(y2+dy))
		v.LineTo(float32(x1-dx), float32(y1+dy))
		v.ClosePath()
	})
}

// dot draws a filled circle.
func (s *sheet) dot(x, y, radius float64, c color.RGBA) {
	const corners = 32
	s.shape(c, func(v *vector.Rasterizer) {
		for i := range corners {
			a := 2 * math.Pi * float64(i) / corners
			px, py := float32(x+radius*math.Cos(a)), float32(y+radius*math.Sin(a))
			if i == 0 {
				v.MoveTo(px, py)
			} else {
				v.LineTo(px, py)
			}
		}
		v.ClosePath()
	})
}

// graph draws lines over two axes, with a legend below.
func (s *sheet) graph(g *chart.Graph, area image.Rectangle) {
	legend := min(len(g.Lines), 4)
	in := image.Rect(area.Min.X+axisRoom, area.Min.Y, area.Max.X, area.Max.Y-labelHigh-legend*labelHigh)
	x := func(v float64) float64 { return float64(in.Min.X) + g.X.At(v)*float64(in.Dx()) }
	y := func(v float64) float64 { return float64(in.Max.Y) - g.Y.At(v)*float64(in.Dy()) }
	for _, t := range g.Y.Ticks {
		at := int(y(t.At))
		s.fill(image.Rect(in.Min.X, at, in.Max.X, at+1), rule)
		s.line(t.Label, in.Min.X-12-s.wide(t.Label, small), at+7, in.Min.X, small)
	}
	s.fill(image.Rect(in.Min.X, in.Max.Y, in.Max.X, in.Max.Y+2), soft)
	s.across(g.X, in)
	for i := range g.Lines {
		s.measured(&g.Lines[i], x, y)
		if i < legend {
			at := in.Max.Y + labelHigh + (i+1)*labelHigh - 4
			s.dot(float64(in.Min.X)+8, float64(at)-7, 7, tone(g.Lines[i].Tone))
			name := g.Lines[i].Name
			if g.Lines[i].Dashed {
				name += " (dashed)"
			}
			s.line(name, in.Min.X+26, at, area.Max.X, textOf{20, false, ink})
		}
	}
}

// across draws the labels below a chart, without those that would overlap the previous one.
func (s *sheet) across(a chart.Axis, in image.Rectangle) {
	end := 0
	for _, t := range a.Ticks {
		wide := s.wide(t.Label, small)
		from := min(in.Min.X+int(a.At(t.At)*float64(in.Dx()))-wide/2, Wide-margin-wide)
		if from > end {
			s.line(t.Label, from, in.Max.Y+26, Wide, small)
			end = from + wide + 8
		}
	}
}

// measured draws one line of a graph, with its intervals.
func (s *sheet) measured(l *chart.Measured, x, y func(float64) float64) {
	c := tone(l.Tone)
	var before *chart.Place
	for i := range l.Places {
		p := &l.Places[i]
		if p.Hollow || p.Early {
			continue
		}
		if l.Joined && before != nil {
			s.joint(x(before.X), y(before.Y), x(p.X), y(p.Y), l.Dashed, c)
		}
		if p.High > p.Low {
			s.stroke(x(p.X), y(p.Low), x(p.X), y(p.High), 2, c)
		}
		s.dot(x(p.X), y(p.Y), dotRadius, c)
		before = p
	}
	for _, p := range l.Each {
		s.dot(x(p.X), y(p.Y), eachRadius, c)
	}
}

// joint draws a line between two points, in pieces if dashed.
func (s *sheet) joint(x1, y1, x2, y2 float64, dashed bool, c color.RGBA) {
	if !dashed {
		s.stroke(x1, y1, x2, y2, lineWide, c)
		return
	}
	const dash = 12.0
	long := math.Hypot(x2-x1, y2-y1)
	for at := 0.0; at < long; at += 2 * dash {
		to := min(at+dash, long)
		s.stroke(x1+(x2-x1)*at/long, y1+(y2-y1)*at/long, x1+(x2-x1)*to/long, y1+(y2-y1)*to/long, lineWide, c)
	}
}

// forest draws estimates in rows, each with its name and value.
func (s *sheet) forest(f *chart.Forest, area image.Rectangle) {
	rows := min(len(f.Rows), 6)
	if rows == 0 {
		return
	}
	step := min((area.Dy()-labelHigh)/rows, 88)
	in := image.Rect(area.Min.X+10, area.Min.Y, area.Max.X-10, area.Min.Y+rows*step)
	x := func(v float64) float64 { return float64(in.Min.X) + f.X.At(v)*float64(in.Dx()) }
	for _, t := range f.X.Ticks {
		at := int(x(t.At))
		s.fill(image.Rect(at, in.Min.Y, at+1, in.Max.Y), rule)
	}
	s.across(f.X, in)
	for i := range rows {
		r := &f.Rows[i]
		top, c := in.Min.Y+i*step, tone(r.Tone)
		middle := float64(top) + float64(step)*0.72
		room := s.wide(r.Value, textOf{20, true, ink})
		s.fill(image.Rect(in.Min.X, top+step/3-16, in.Max.X, top+step/3+10), paper)
		s.line(r.Value, in.Max.X-room, top+step/3+4, Wide, textOf{20, true, ink})
		s.line(r.Name, in.Min.X, top+step/3+4, in.Max.X-room-16, textOf{20, false, ink})
		if r.None {
			continue
		}
		s.stroke(x(r.Low), middle, x(r.High), middle, lineWide, c)
		s.dot(x(r.Mid), middle, dotRadius+1, c)
	}
}
