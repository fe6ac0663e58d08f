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
)

// Heat is a heat map of shares: one line of cells per core, time to the right.
type Heat struct {
	Name string
	// Mean is the share over all rows and the measured window, 0 to 1.
	Mean float64
	// Kind sets the colour.
	Kind Kind
	// Height and Columns are the grid's size; Cells has Height lines of Columns shares, 0 to 1.
	// NaN: not measured, or discarded.
	Height, Columns int
	Cells           []float64
}

// Kind of time that a heat map shows.
type Kind int

// Kinds of time.
const (
	Work Kind = iota // done on this host
	Lost             // taken away, or waited for a disk
	Idle
)

// shades is the number of steps of a colour: the eye distinguishes no more.
const shades = 40

// faintest is the opacity of the smallest share above zero: about an eighth, so that it stays
// visible.
const faintest = 0.12

// Missing reports whether any cell was not measured.
func (h *Heat) Missing() bool {
	for _, v := range h.Cells {
		if math.IsNaN(v) {
			return true
		}
	}
	return false
}

// colour returns a kind's colour, a mid-tone that is visible on light and dark backgrounds; the
// share is its opacity.
func (k Kind) colour() color.NRGBA {
	switch k {
	case Lost:
		return color.NRGBA{R: 0xd9, G: 0x5f, B: 0x0e}
	case Idle:
		return color.NRGBA{R: 0x7a, G: 0x82, B: 0x8e}
	}
	return color.NRGBA{R: 0x2f, G: 0x78, B: 0xe0}
}

// PNG draws the map with one pixel per cell.
func (h *Heat) PNG() ([]byte, error) {
	if h.Height <= 0 || h.Columns <= 0 || len(h.Cells) != h.Height*h.Columns {
		return nil, fmt.Errorf("draw heat map %.20q: %d cells for %d × %d", h.Name, len(h.Cells), h.Columns, h.Height)
	}
	palette := make(color.Palette, 0, shades+2)
	ink := h.Kind.colour()
	for i := 0; i <= shades; i++ {
		ink.A = 0
		if i > 0 {
			ink.A = uint8(math.Round(255 * (faintest + (1-faintest)*float64(i)/shades)))
		}
		palette = append(palette, ink)
	}
	palette = append(palette, color.NRGBA{R: 0xa2, G: 0x1c, B: 0xaf, A: 150}) // as .heat-missing in chart.css
	img := image.NewPaletted(image.Rect(0, 0, h.Columns, h.Height), palette)
	for i, v := range h.Cells {
		shade := shades + 1
		if !math.IsNaN(v) {
			shade = int(math.Round(min(max(v, 0), 1) * shades))
		}
		img.Pix[i] = uint8(shade)
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, img); err != nil {
		return nil, fmt.Errorf("draw heat map %.20q: %w", h.Name, err)
	}
	return out.Bytes(), nil
}

// URL is the picture as a data URL.
func (h *Heat) URL() (template.URL, error) {
	data, err := h.PNG()
	if err != nil {
		return "", err
	}
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(data)), nil
}

// Empty reports whether the map has nothing to show.
func (h *Heat) Empty() bool {
	for _, v := range h.Cells {
		if math.IsNaN(v) || v*shades >= 0.5 {
			return false
		}
	}
	return true
}

// Pixels is the drawn height of the map: each core is visible, and all of them fit on one screen.
func (h *Heat) Pixels() int {
	const one, all = 18, 192
	return min(one*h.Height, max(all, h.Height))
}
