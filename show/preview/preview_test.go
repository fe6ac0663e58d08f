package preview

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"ceiling/show/chart"
)

func sampleGraph() *chart.Graph {
	return &chart.Graph{X: chart.Axis{Min: 0, Max: 10, Ticks: []chart.Tick{{At: 0, Label: "0"}, {At: 10, Label: "10"}}},
		Y:     chart.Axis{Min: 0, Max: 100, Ticks: []chart.Tick{{At: 0, Label: "0"}, {At: 100, Label: "100"}}},
		Lines: []chart.Measured{{Name: "up", Tone: 3, Joined: true, Places: []chart.Place{{X: 0, Y: 0}, {X: 10, Y: 100}}}}}
}

func drawn(t *testing.T, c Card) image.Image {
	t.Helper()
	data, err := c.PNG()
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.PNG()
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("the same card makes other bytes (%v)", err)
	}
	m, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if m.Bounds() != image.Rect(0, 0, 1200, 630) {
		t.Fatalf("it is %v", m.Bounds())
	}
	return m
}

// count is how many pixels of a colour a part of the picture has.
func count(m image.Image, in image.Rectangle, c color.RGBA) (n int) {
	for y := in.Min.Y; y < in.Max.Y; y++ {
		for x := in.Min.X; x < in.Max.X; x++ {
			if color.RGBAModel.Convert(m.At(x, y)) == c {
				n++
			}
		}
	}
	return n
}

func TestCardShowsItsParts(t *testing.T) {
	m := drawn(t, Card{Site: "A journal", Title: "Does it pay?", Figure: "1.49 times", Of: "the rate", Foot: "done", Graph: sampleGraph()})
	left, right := image.Rect(64, 160, 470, 560), image.Rect(600, 170, 1150, 500)
	if n := count(m, left, tone(0)); n < 1000 {
		t.Errorf("the figure has %d pixels", n)
	}
	if n := count(m, right, tone(3)); n < 1000 {
		t.Errorf("the line has %d pixels", n)
	}
	// A rising line: its left end is low, its right end high.
	if a, b := lowest(m, 620, tone(3)), lowest(m, 1130, tone(3)); a < b+200 {
		t.Errorf("the line goes from %d to %d pixels from the top", a, b)
	}
	bare := drawn(t, Card{Title: "Does it pay?", Says: "Not measured yet."})
	if n := count(bare, right, tone(3)) + count(bare, left, tone(0)); n != 0 {
		t.Errorf("a card without figure and chart has %d pixels of them", n)
	}
}

// lowest is the last row of a column that has a colour.
func lowest(m image.Image, x int, c color.RGBA) int {
	at := 0
	for y := range 530 {
		if color.RGBAModel.Convert(m.At(x, y)) == c {
			at = y
		}
	}
	return at
}

// Texts of any length end before the margin, and say that they were longer.
func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("connections ", 60)
	c := Card{Site: long, Title: long, Figure: long, Of: long, Foot: long, Graph: sampleGraph()}
	c.Graph.Lines[0].Name = long
	m := drawn(t, c)
	beyond := image.Rect(Wide-margin+2, 0, Wide, High-10)
	if n := count(m, beyond, ink) + count(m, beyond, soft); n != 0 {
		t.Errorf("%d pixels of text are in the margin", n)
	}
	s, err := newSheet()
	if err != nil {
		t.Fatal(err)
	}
	look := textOf{30, false, ink}
	if got := s.cut(long, 300, look); !strings.HasSuffix(got, "…") || s.wide(got, look) > 300 {
		t.Errorf("cut to %q, %d wide", got, s.wide(got, look))
	}
	if got := s.cut("short", 300, look); got != "short" {
		t.Errorf("what fits became %q", got)
	}
}

// The whole of a forest is inside its picture, with rows that were not measured.
func TestForest(t *testing.T) {
	f, ok := chart.NewForest("rates", "rate", chart.PerSecond, []chart.Estimated{
		{Name: "a", Value: "10 /s", Mid: 10, Low: 8, High: 12, Tone: 1}, {Name: "b", Value: "none", None: true}}, nil, true)
	if !ok {
		t.Fatal("no forest")
	}
	m := drawn(t, Card{Title: "Which?", Figure: "2", Of: "servers", Forest: &f})
	if n := count(m, image.Rect(510, 160, 1140, 600), orange); n < 200 {
		t.Errorf("the estimate has %d pixels", n)
	}
	drawn(t, Card{Title: "Which?", Forest: &chart.Forest{}})
}
