package chart

import (
	"bytes"
	"image/png"
	"math"
	"strings"
	"testing"

	"ceiling/internal/hist"
	"ceiling/record"
)

// rowOf is an interval of 100 ms that ends at a tenth of a second, with so many responses of each time.
func rowOf(tenth int64, responses map[int64]uint64) record.LoadRow {
	var h hist.Hist
	for ns, n := range responses {
		h.RecordN(ns, n)
	}
	return record.LoadRow{TNs: tenth * 1e8, WidthNs: 1e8, Completed: h.Count(), P50Ns: h.Quantile(.5), P99Ns: h.Quantile(.99), MaxNs: h.Max(),
		Response: record.StepsOf(&h)}
}

// Each response is in the cell of its time and its interval, as dark as its number says; the quantiles of the
// record lie within the cells that their rank says.
func TestDensityIsTheRowsOwn(t *testing.T) {
	late := rowOf(7, map[int64]uint64{2e6: 400})
	late.WidthNs = 4e8
	nothing := record.LoadRow{TNs: 3e8, WidthNs: 1e8}
	run := runOf(rowOf(1, map[int64]uint64{1e6: 990, 50e6: 10}), rowOf(2, map[int64]uint64{1e6: 100}), nothing, late)
	p, ok := LatencyOverTime([]Run{run}, Most)
	d := p.Density
	if !ok || d == nil {
		t.Fatal("no heat map")
	}
	if d.Columns != 7 || math.Abs(d.ColumnS-.1) > 1e-9 || math.Abs(d.Most-990) > 1e-6 {
		t.Fatalf("%d columns of %v s, at most %v", d.Columns, d.ColumnS, d.Most)
	}
	at := func(column int, ns float64) float64 { // responses in the cell of a time
		line := int(math.Log2(d.High/ns) * 4)
		return math.Expm1(d.Cells[line*d.Columns+column] * math.Log1p(d.Most))
	}
	for _, c := range []struct {
		column int
		ns     float64
		want   float64
	}{{0, 1e6, 990}, {0, 50e6, 10}, {1, 1e6, 100}, {1, 50e6, 0}, {2, 1e6, 0}, {3, 2e6, 100}, {6, 2e6, 100}} {
		if got := at(c.column, c.ns); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("column %d, %v ns: %v responses, want %v", c.column, c.ns, got, c.want)
		}
	}
	sum := 0.0
	for _, v := range d.Cells {
		sum += math.Expm1(v * math.Log1p(d.Most))
	}
	if math.Abs(sum-1500) > 1e-6 {
		t.Errorf("%v responses are drawn of 1500", sum)
	}
	data, err := d.PNG()
	if err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(bytes.NewReader(data)); err != nil || img.Bounds().Dx() != 7 || img.Bounds().Dy() != d.Height {
		t.Errorf("picture %v, %v", img.Bounds(), err)
	}
	html, err := p.HTML()
	if err != nil || !strings.Contains(string(html), `<image class="density" href="data:image/png;base64,`) {
		t.Errorf("%.300s, %v", html, err)
	}
}

// A record of before has no heat map, nor have runs over each other; an hour has no more columns than points.
func TestDensityIsLeftOut(t *testing.T) {
	if p, _ := LatencyOverTime([]Run{runOf(row10(1, 5))}, Most); p.Density != nil {
		t.Error("a heat map of nothing")
	}
	run := runOf(rowOf(1, map[int64]uint64{1e6: 9}))
	if p, _ := LatencyOverTime([]Run{run, run}, Most); p.Density != nil {
		t.Error("a heat map of two runs")
	}
	var rows []record.LoadRow
	for n := range int64(5 * Most) {
		rows = append(rows, rowOf(n+1, map[int64]uint64{1e6: 5}))
	}
	p, _ := LatencyOverTime([]Run{runOf(rows...)}, Most)
	if p.Density == nil || p.Density.Columns != Most || math.Abs(p.Density.Most-25) > 1e-6 {
		t.Errorf("%+v", p.Density)
	}
}

func TestStallsAreMarked(t *testing.T) {
	run := runOf(row10(1, 5), row10(2, 5))
	run.Verdict.Stalls = []record.Stall{{FromNs: 1e8, ToNs: 2e8}, {FromNs: 2e8, ToNs: 25e7, Outage: true}}
	p, _ := LatencyOverTime([]Run{run}, Most)
	if len(p.Spans) != 2 || p.Spans[0].Name != "stall 100 ms" || p.Spans[1].Name != "outage 50.0 ms" || p.Spans[1].From != .2 {
		t.Errorf("%+v", p.Spans)
	}
}
