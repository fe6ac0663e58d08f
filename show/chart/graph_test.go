package chart

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever was measured, all of it lies on the axes, and the picture has no
// place that is no number.
func TestGraphsHoldWhatWasMeasured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(0, 1e12), rapid.Just(0.0), rapid.Float64Range(1e-9, 1))
		var places []Place
		for range rapid.IntRange(1, 20).Draw(t, "n") {
			y := value.Draw(t, "y")
			places = append(places, Place{X: value.Draw(t, "x"), Y: y, Low: y * .5, High: y * 1.5, Hollow: rapid.Bool().Draw(t, "hollow")})
		}
		of := rapid.SampledFrom([]string{PerSecond, Nanoseconds}).Draw(t, "unit")
		g, ok := NewGraph("t", Axis{Name: "x"}, Axis{Name: "y", Unit: of}, []Measured{{Name: "l", Places: places, Joined: true}})
		if !ok {
			for _, p := range places {
				if !p.Hollow {
					t.Fatal("nothing is drawn of what was measured")
				}
			}
			return
		}
		for _, p := range places {
			if p.X > g.X.Max || g.X.Min > p.X || !p.Hollow && p.High > g.Y.Max*(1+1e-9) {
				t.Fatalf("%+v is not on the axes %+v, %+v", p, g.X, g.Y)
			}
		}
		html, err := g.HTML()
		if err != nil || strings.Contains(string(html), "NaN") || strings.Contains(string(html), "Inf") {
			t.Fatalf("%v: %s", err, html)
		}
		if len(g.X.Ticks) == 0 || len(g.Y.Ticks) < 2 || len(g.Y.Ticks) > 30 {
			t.Fatalf("%d and %d labels", len(g.X.Ticks), len(g.Y.Ticks))
		}
		for i, tick := range g.X.Ticks[1:] {
			if g.X.At(tick.At)-g.X.At(g.X.Ticks[i].At) < placesApart-1e-9 {
				t.Fatalf("labels %v and %v run into each other", g.X.Ticks[i], tick)
			}
		}
	})
}

func TestForestsHoldWhatWasMeasured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Float64Range(-1e9, 1e9)
		var rows []Estimated
		for range rapid.IntRange(0, 10).Draw(t, "n") {
			mid, reach := value.Draw(t, "mid"), rapid.Float64Range(0, 1e6).Draw(t, "reach")
			rows = append(rows, Estimated{Name: "<r>", Mid: mid, Low: mid - reach, High: mid + reach, None: rapid.Bool().Draw(t, "none")})
		}
		of := rapid.SampledFrom([]string{Signed, Plain}).Draw(t, "unit")
		f, ok := NewForest("t", "x", of, rows, []Limit{{"no change", 0}}, false)
		if !ok {
			return
		}
		for _, r := range rows {
			if slack := 1e-6 * (f.X.Max - f.X.Min); !r.None && (r.High > f.X.Max+slack || r.Low < f.X.Min-slack) {
				t.Fatalf("%+v is not on the axis %+v", r, f.X)
			}
		}
		if f.X.At(0) < 0 || f.X.Min > 0 || f.X.Max < 0 {
			t.Fatalf("no change is not on the axis %+v", f.X)
		}
		html, err := f.HTML()
		if err != nil || strings.Contains(string(html), "NaN") || strings.Contains(string(html), "<r>") {
			t.Fatalf("%v: %s", err, html)
		}
	})
}

func TestAxesOfGraphs(t *testing.T) {
	labels := func(a Axis) string {
		var list []string
		for _, tick := range a.Ticks {
			list = append(list, tick.Label)
		}
		return strings.Join(list, " ")
	}
	check := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("labels %q, want %q", got, want)
		}
	}
	check(labels(PlacesAxis("c", Plain, []float64{1, 2, 5, 10, 20, 50, 50})), "1 2 5 10 20 50")
	check(labels(PlacesAxis("c", Plain, []float64{1000, 2000, 3000, 5000})), "1k 2k 3k 5k")
	check(labels(PlacesAxis("c", Plain, []float64{100, 101, 102, 200})), "100 200")
	check(labels(around("e", Plain, -.1, 1.1)), "-0.5 0 0.5 1 1.5")
	check(labels(around("e", Signed, -.03, .05)), "−4% −2% 0 +2% +4% +6%")
	check(labels(around("e", Signed, -.003, .005)), "−0.4% −0.2% 0 +0.2% +0.4% +0.6%")
}

// A stack's parts fill its column from below, and its neighbours do not touch.
func TestStacksFillTheirColumns(t *testing.T) {
	axis := PlacesAxis("connections", "", []float64{1, 2, 4, 64})
	g := NewStacks("where", axis, []Stack{{1, []StackPart{{.25, "st-server"}, {.75, "st-queue"}}, 0}, {2, []StackPart{{1, "st-queue"}}, 0}, {64, nil, 0}})
	p := Plot{X: g.X, Y: g.Y}
	list := columns(&p, g.Stacks)
	if len(list) != 3 || list[0].High+list[1].High != high || list[0].Y+list[0].High != high || list[1].Y != 0 {
		t.Errorf("%+v", list)
	}
	if list[0].High*3 != list[1].High || list[0].X != list[1].X || list[0].X+list[0].Wide >= list[2].X {
		t.Errorf("%+v", list)
	}
	text, err := g.HTML()
	if err != nil || strings.Count(string(text), "<rect") != 3 {
		t.Errorf("%v in %s", err, text)
	}
}

// What was ended early is a triangle and no dot, and an axis reaches the SLO.
func TestEarlyPlacesAreTriangles(t *testing.T) {
	g, ok := NewGraph("tried", Axis{Unit: PerSecond}, Axis{Unit: Nanoseconds}, []Measured{{Name: "fail", Tone: 1, Places: []Place{
		{X: 60_000, Y: 2e6, Low: 2e6, High: 2e6}, {X: 90_000, Y: 9e6, Low: 9e6, High: 9e6, Early: true}}}})
	if !ok {
		t.Fatal("no graph")
	}
	g.Near()
	g.Reach(50e6)
	if g.X.Min < 50_000 || g.X.Max < 90_000 || g.Y.Max < 50e6 {
		t.Errorf("x %v, y %v", g.X, g.Y)
	}
	text, err := g.HTML()
	if err != nil || strings.Count(string(text), `class="early`) != 1 || !strings.Contains(string(text), `data-points="1"`) {
		t.Errorf("%v in %s", err, text)
	}
}
