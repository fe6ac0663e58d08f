package chart

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/png"
	"math"
	"slices"

	"ceiling/internal/hist"
	"ceiling/record"
)

// Density is the heat map under the lines of a plot: how many responses took how long, over time.
// Its picture has one pixel per cell, and plot.js moves it with the lines.
type Density struct {
	// From and To are seconds on the x axis, Low and High nanoseconds on the y axis.
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Columns and Height of the grid; Cells has Height lines of Columns shades, 0 to
	// 1, from the longest time to the shortest.
	Columns int       `json:"-"`
	Height  int       `json:"-"`
	Cells   []float64 `json:"-"`
	// Most is the number of responses in the fullest cell, ColumnS the width of a column in
	// seconds.
	Most    float64 `json:"-"`
	ColumnS float64 `json:"-"`
}

// densityOf builds the heat map of a run's rows in at most that many columns; nil if the record
// has no distribution per interval.
func densityOf(run *Run, from, to float64, most int) *Density {
	if run.Series == nil {
		return nil
	}
	var rows []*record.LoadRow
	var widths []int64
	first, end := math.MaxInt, 0
	for i := range run.Series.Load {
		r := &run.Series.Load[i]
		if s := r.Response; s == nil || r.WidthNs <= 0 || !s.Possible() {
			continue
		}
		rows, widths = append(rows, r), append(widths, r.WidthNs)
		first, end = min(first, r.Response.First), max(end, r.Response.First+len(r.Response.Counts))
	}
	if len(rows) == 0 || !(to > from) {
		return nil
	}
	slices.Sort(widths)
	usual := float64(widths[len(widths)/2]) / 1e9
	d := &Density{From: from, To: to, Low: hist.StepNs(first), High: hist.StepNs(end), Height: end - first,
		Columns: int(min(max(math.Round((to-from)/usual), 1), float64(most)))}
	d.ColumnS = (to - from) / float64(d.Columns)
	counts, width := make([]float64, d.Columns*d.Height), make([]float64, d.Columns)
	for _, r := range rows {
		a, b := interval(r.TNs, r.WidthNs)
		// A row fills the columns whose middles it covers: several if it came late, and at least
		// the one that its own middle falls in.
		c, last := int(math.Ceil((a-from)/d.ColumnS-.5)), int(math.Ceil((b-from)/d.ColumnS-.5))-1
		if last < c {
			c = int(((a+b)/2 - from) / d.ColumnS)
			last = c
		}
		c, last = min(max(c, 0), d.Columns-1), min(max(last, 0), d.Columns-1)
		share := 1 / float64(last-c+1)
		for ; c <= last; c++ {
			width[c] += (b - a) * share
			for i, n := range r.Response.Counts {
				line := d.Height - 1 - (r.Response.First + i - first)
				counts[line*d.Columns+c] += float64(n) * share
			}
		}
	}
	d.shade(counts, width)
	return d
}

// shade converts counts to shades on a logarithmic scale, so that a single response stays visible
// next to thousands. It divides by the time that each column actually covers.
func (d *Density) shade(counts, width []float64) {
	for i := range counts {
		if w := width[i%d.Columns]; w > 0 {
			counts[i] *= d.ColumnS / w
		}
		d.Most = max(d.Most, counts[i])
	}
	d.Cells = counts
	for i, n := range counts {
		d.Cells[i] = math.Log1p(n) / math.Log1p(max(d.Most, 1))
	}
}

// PNG draws the map with one pixel per cell, in a mid-tone colour whose opacity is the shade.
func (d *Density) PNG() ([]byte, error) {
	if d.Height <= 0 || d.Columns <= 0 || len(d.Cells) != d.Height*d.Columns {
		return nil, fmt.Errorf("draw the response times: %d cells for %d × %d", len(d.Cells), d.Columns, d.Height)
	}
	palette := make(color.Palette, 0, shades+1)
	for i := range shades + 1 {
		ink := color.NRGBA{R: 0x80, G: 0x8b, B: 0xa3}
		if i > 0 {
			ink.A = uint8(math.Round(255 * (faintest + (1-faintest)*float64(i)/shades)))
		}
		palette = append(palette, ink)
	}
	img := image.NewPaletted(image.Rect(0, 0, d.Columns, d.Height), palette)
	for i, v := range d.Cells {
		shade := int(math.Round(min(max(v, 0), 1) * shades))
		if v > 0 {
			shade = max(shade, 1)
		}
		img.Pix[i] = uint8(shade)
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, img); err != nil {
		return nil, fmt.Errorf("draw the response times: %w", err)
	}
	return out.Bytes(), nil
}

// densityDrawn is a heat map in units of the picture.
type densityDrawn struct {
	URL              template.URL
	X, Y, Wide, High float64
}

func (p *Plot) density() (*densityDrawn, error) {
	d := p.Density
	if d == nil {
		return nil, nil
	}
	data, err := d.PNG()
	if err != nil {
		return nil, err
	}
	x, y := p.x(d.From), p.y(d.High)
	return &densityDrawn{template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(data)),
		round(x), round(y), round(p.x(d.To) - x), round(p.y(d.Low) - y)}, nil
}
