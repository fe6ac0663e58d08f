package preview

import (
	"image/color"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"image"
)

// textOf is the style of a text; its size is in pixels.
type textOf struct {
	size  float64
	bold  bool
	color color.RGBA
}

// faceOf is a font and its size.
type faceOf struct {
	size float64
	bold bool
}

// box is the area of a paragraph: from the baseline of its first line, at most that many lines
// down.
type box struct{ x, y, right, lines int }

func (s *sheet) face(of faceOf) font.Face {
	if f := s.faces[of]; f != nil {
		return f
	}
	from := s.fonts[0]
	if of.bold {
		from = s.fonts[1]
	}
	f, err := opentype.NewFace(from, &opentype.FaceOptions{Size: of.size, DPI: 72, Hinting: font.HintingNone})
	if err != nil && s.err == nil {
		s.err = err
	}
	s.faces[of] = f
	return f
}

// wide returns the width of a text in pixels.
func (s *sheet) wide(text string, look textOf) int {
	f := s.face(faceOf{look.size, look.bold})
	if s.err != nil {
		return 0
	}
	return font.MeasureString(f, text).Ceil()
}

// line draws a text on one line, cut to end before right; y is its baseline.
func (s *sheet) line(text string, x, y, right int, look textOf) {
	text = s.cut(text, right-x, look)
	if s.err != nil {
		return
	}
	d := font.Drawer{Dst: s.to, Src: image.NewUniform(look.color), Face: s.face(faceOf{look.size, look.bold}), Dot: fixed.P(x, y)}
	d.DrawString(text)
}

// cut shortens a text to fit, with a mark if it was longer.
func (s *sheet) cut(text string, room int, look textOf) string {
	if s.wide(text, look) <= room {
		return text
	}
	letters := []rune(text)
	for n := len(letters); n > 0; n-- {
		if short := strings.TrimRight(string(letters[:n]), " ,;:") + "…"; s.wide(short, look) <= room {
			return short
		}
	}
	return ""
}

// paragraph wraps and draws a text, and returns the baseline of its last line.
func (s *sheet) paragraph(text string, at box, look textOf) int {
	lines := s.wrapped(text, at.right-at.x, look)
	if len(lines) > at.lines {
		lines[at.lines-1] = strings.Join(lines[at.lines-1:], " ")
		lines = lines[:at.lines]
	}
	y := at.y
	for i, l := range lines {
		y = at.y + int(float64(i)*look.size*1.22)
		s.line(l, at.x, y, at.right, look)
	}
	return y
}

// wrapped splits a text into lines; a word longer than a line gets its own.
func (s *sheet) wrapped(text string, room int, look textOf) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		if n := len(lines); n > 0 && s.wide(lines[n-1]+" "+word, look) <= room {
			lines[n-1] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// fitting returns the largest size, from most down, at which a bold text fits.
func (s *sheet) fitting(text string, room int, most float64) float64 {
	size := most
	for size > 40 && s.wide(text, textOf{size, true, ink}) > room {
		size -= 4
	}
	return size
}
