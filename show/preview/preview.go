// Package preview draws the preview image of a link: a title, the main figure and its chart, as a
// bitmap of the size that Open Graph recommends. It needs no browser and no installed fonts.
package preview

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"

	"ceiling/show/chart"
)

// Wide and High are the image's size in pixels.
const Wide, High = 1200, 630

// Card is the content of an image.
type Card struct {
	// Site is the name of the site, Title the page's.
	Site, Title string
	// Figure is printed large, Of is what it counts; both "" for none.
	Figure, Of string
	// Says is the text of a card without a figure.
	Says string
	// Foot is the line at the bottom: status and day.
	Foot string
	// Graph or Forest is the chart; both nil for none.
	Graph  *chart.Graph
	Forest *chart.Forest
}

// The colours of the pages' light theme.
var (
	paper  = color.RGBA{0xff, 0xff, 0xff, 0xff} // read-only
	ink    = color.RGBA{0x16, 0x19, 0x1d, 0xff} // read-only
	soft   = color.RGBA{0x55, 0x5d, 0x68, 0xff} // read-only
	rule   = color.RGBA{0xdc, 0xe0, 0xe6, 0xff} // read-only
	orange = color.RGBA{0xcf, 0x46, 0x0e, 0xff} // read-only
)

// tone returns a line's colour, as in plot.css.
func tone(n int) color.RGBA {
	return [chart.Tones]color.RGBA{{0x1f, 0x6f, 0xd6, 0xff}, orange, {0x7a, 0x3f, 0xb5, 0xff}, {0x0c, 0x7f, 0x57, 0xff},
		{0xb0, 0x26, 0x7a, 0xff}, {0x86, 0x66, 0x00, 0xff}, {0x0a, 0x76, 0x87, 0xff}, {0x69, 0x71, 0x7d, 0xff}}[n%chart.Tones]
}

const margin = 64

// Alt describes the image in words.
func (c Card) Alt() string {
	if c.Figure != "" {
		return c.Title + " " + c.Figure + " " + c.Of
	}
	return c.Title
}

// PNG draws the image. It is deterministic, byte for byte.
func (c Card) PNG() ([]byte, error) {
	s, err := newSheet()
	if err != nil {
		return nil, err
	}
	s.mark(margin, 52)
	s.line(c.Site, margin+58, 78, Wide-margin, textOf{26, false, soft})
	y := s.paragraph(c.Title, box{margin, 150, Wide - margin, 2}, textOf{54, true, ink})
	left := Wide - margin
	if c.Graph != nil || c.Forest != nil {
		left = 470
	}
	switch {
	case c.Figure != "":
		big := s.fitting(c.Figure, left-margin, 104)
		s.line(c.Figure, margin, y+int(big)+20, left, textOf{big, true, tone(0)})
		s.paragraph(c.Of, box{margin, y + int(big) + 78, left, 4}, textOf{32, false, ink})
	case c.Says != "":
		s.paragraph(c.Says, box{margin, y + 60, left, 6}, textOf{36, false, ink})
	}
	s.line(c.Foot, margin, High-44, left, textOf{24, false, soft})
	area := image.Rect(left+40, y+44, Wide-margin, High-44)
	switch {
	case c.Graph != nil:
		s.graph(c.Graph, area)
	case c.Forest != nil:
		s.forest(c.Forest, area)
	}
	if s.err != nil {
		return nil, fmt.Errorf("draw preview of %q: %w", c.Title, s.err)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, s.to); err != nil {
		return nil, fmt.Errorf("draw preview of %q: %w", c.Title, err)
	}
	return b.Bytes(), nil
}

// fonts are parsed once: Go's own fonts, which are embedded.
var fonts = sync.OnceValues(func() (list [2]*opentype.Font, err error) {
	for i, data := range [][]byte{goregular.TTF, gobold.TTF} {
		if list[i], err = opentype.Parse(data); err != nil {
			return list, fmt.Errorf("parse Go's font: %w", err)
		}
	}
	return list, nil
}) // read-only

// sheet is an image being drawn, with its first error.
type sheet struct {
	to    *image.RGBA
	fonts [2]*opentype.Font
	faces map[faceOf]font.Face
	err   error
}

func newSheet() (*sheet, error) {
	list, err := fonts()
	if err != nil {
		return nil, err
	}
	s := &sheet{to: image.NewRGBA(image.Rect(0, 0, Wide, High)), fonts: list, faces: map[faceOf]font.Face{}}
	draw.Draw(s.to, s.to.Rect, image.NewUniform(paper), image.Point{}, draw.Src)
	s.fill(image.Rect(0, High-10, Wide, High), tone(0))
	return s, nil
}

// mark draws the pages' logo: bars under a line.
func (s *sheet) mark(x, y int) {
	for _, b := range []struct{ x, top, wide int }{{0, 18, 8}, {12, 12, 8}, {24, 6, 8}, {36, 6, 6}} {
		s.fill(image.Rect(x+b.x, y+b.top-2, x+b.x+b.wide, y+30), tone(0))
	}
	s.fill(image.Rect(x-2, y-4, x+44, y), orange)
}
