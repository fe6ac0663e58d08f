package page

import (
	"fmt"
	"math"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
)

// figure is a plot over time with a note about its points.
func figure(id string, p chart.Plot) Figure {
	t := timeTable(&p)
	f := Figure{ID: id, Plot: p, Note: note(&p), Zoom: p.X.Unit == chart.Seconds, Table: &t}
	if d := p.Density; d != nil {
		f.Note += fmt.Sprintf(" Darker: more responses, on a logarithmic scale up to %s in %s; a cell is a quarter of a power of two high.",
			unit.FormatSI(math.Round(d.Most)), unit.FormatNs(int64(d.ColumnS*1e9)))
	}
	return f
}

// note states how many points represent how many rows.
func note(p *chart.Plot) string {
	var parts []string
	late := 0
	for i := range p.Groups {
		g := &p.Groups[i]
		late += g.LateRows
		text := fmt.Sprintf("%s samples, all drawn", unit.FormatCount(int64(g.Rows)))
		if g.Each > 1 {
			text = fmt.Sprintf("%s points for %s samples (up to %d each): line is mean or median, band is min to max",
				unit.FormatCount(int64(g.Points())), unit.FormatCount(int64(g.Rows)), g.Each)
		}
		if g.Name != "" && len(p.Groups) > 1 {
			text = g.Name + ": " + text
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, "; ") + "."
	if len(p.Groups) == 1 && p.X.Min < 0 {
		text += " Grey: outside the measured window."
	}
	if late > 0 {
		text += fmt.Sprintf(" %s late: marked, and counted over their true width.", unit.FormatCount(int64(late)))
	}
	return text
}

// tableRows is the number of rows in a plot's table.
const tableRows = 20

// timeTable summarises a plot over time: minimum, median and maximum of its points in equal parts
// of the time.
func timeTable(p *chart.Plot) Table {
	t := Table{Caption: p.Title + ", as a table", Columns: []Column{{Name: "from"}, {Name: "to"}}, Fold: true}
	width := (p.X.Max - p.X.Min) / tableRows
	for i := range p.Groups {
		for _, line := range p.Groups[i].Lines {
			t.Columns = append(t.Columns, Column{Name: line.Name, Figure: true})
		}
	}
	for n := range tableRows {
		from, to := p.X.Min+float64(n)*width, p.X.Min+float64(n+1)*width
		row := []Cell{{Text: clock(from, width)}, {Text: clock(to, width)}}
		any := false
		for i := range p.Groups {
			g := &p.Groups[i]
			for l := range g.Lines {
				text, some := rangeOf(g, &g.Lines[l], from, to, p.Y.Unit)
				any = any || some
				row = append(row, Cell{Text: text})
			}
		}
		if any {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// clock formats a time in seconds, with the precision that the table's rows need.
func clock(s, width float64) string {
	decimals := 0
	for w := width; w < 2 && decimals < 6; w *= 10 {
		decimals++
	}
	return fmt.Sprintf("%.*f s", decimals, s)
}

// rangeOf formats the minimum and maximum of the points that end in a part of the time.
func rangeOf(g *chart.Group, line *chart.Line, from, to float64, of string) (string, bool) {
	low, high := math.Inf(1), math.Inf(-1)
	for i, end := range g.To {
		if end <= from || end > to {
			continue
		}
		a, b := line.Mid[i], line.Mid[i]
		if line.Low != nil {
			a, b = line.Low[i], line.High[i]
		}
		if !math.IsNaN(a) {
			low, high = min(low, a), max(high, b)
		}
	}
	switch {
	case low > high:
		return "–", false
	case value(of, low) == value(of, high):
		return value(of, low), true
	}
	return value(of, low) + "–" + value(of, high), true
}

// value formats a number with its unit.
func value(of string, v float64) string {
	switch of {
	case chart.Nanoseconds:
		return unit.FormatNs(int64(min(max(v, math.MinInt64/2), math.MaxInt64/2)))
	case chart.BitPerSecond:
		return unit.FormatBits(unit.BitsPerSecond(max(v, 0)))
	case chart.PerSecond:
		return unit.FormatSI(v) + "/s"
	}
	if v == math.Trunc(v) && math.Abs(v) < 1e15 { // a count
		return unit.FormatCount(int64(v))
	}
	return unit.FormatSI(v)
}

// latency plots percentiles on the HDR axis.
func latency(runs []chart.Run) Section {
	s := Section{ID: "latency", Title: "Latency by percentile"}
	if len(runs) == 1 {
		run := &runs[0]
		if p, ok := chart.Percentiles(run); ok {
			t := percentileTable(run)
			f := Figure{ID: "percentiles", Plot: p, Tall: true, Table: &t}
			f.Table.Fold = false
			s.Blocks = append(s.Blocks, Paragraph{Text: "Response is done − due, what a client waits. Service is done − sent. Lag is sent − due, what the generator added.", Quiet: true}, f)
		} else {
			s.Blocks = append(s.Blocks, notMeasured(run, "Latency by percentile", "latency"))
		}
		return s
	}
	for _, name := range chart.LatencyNames() {
		if p, ok := chart.PercentilesOf(name, runs); ok {
			t := percentilesCompared(name, runs)
			s.Blocks = append(s.Blocks, Figure{ID: "percentiles-" + name, Plot: p, Tall: name == "response", Table: &t})
		}
	}
	for i := range runs {
		if h, _ := runs[i].Latencies("response"); h == nil {
			s.Blocks = append(s.Blocks, notMeasured(&runs[i], runs[i].Label, "latency"))
		}
	}
	return s
}

// quantilesShown are the quantiles of the tables, with their names.
func quantilesShown() []struct {
	name string
	q    float64
} {
	return []struct {
		name string
		q    float64
	}{{"50%", .5}, {"75%", .75}, {"90%", .9}, {"95%", .95}, {"99%", .99}, {"99.9%", .999}, {"99.99%", .9999}, {"max", 1}}
}

func percentileTable(run *chart.Run) Table {
	t := Table{Caption: "Latency by percentile, as a table", Columns: []Column{{Name: "percentile"}}}
	for _, name := range chart.LatencyNames() {
		t.Columns = append(t.Columns, Column{Name: name, Figure: true})
	}
	for _, q := range quantilesShown() {
		row := []Cell{{Text: q.name}}
		for _, name := range chart.LatencyNames() {
			row = append(row, Cell{Text: quantileOf(run, name, q.q)})
		}
		t.Rows = append(t.Rows, row)
	}
	row := []Cell{{Text: "mean"}}
	for _, name := range chart.LatencyNames() {
		row = append(row, Cell{Text: meanOf(run, name)})
	}
	t.Rows = append(t.Rows, row)
	return t
}

func percentilesCompared(name string, runs []chart.Run) Table {
	t := Table{Caption: "The same as a table", Columns: []Column{{Name: "percentile"}}, Fold: name != "response"}
	for _, q := range quantilesShown() {
		row := []Cell{{Text: q.name}}
		for i := range runs {
			row = append(row, Cell{Text: quantileOf(&runs[i], name, q.q)})
		}
		t.Rows = append(t.Rows, row)
	}
	for i := range runs {
		t.Columns = append(t.Columns, Column{Name: runs[i].Label, Figure: true})
	}
	return t
}

// quantileOf formats the record's figure if it has one, otherwise the histogram's (within 0.2 %).
func quantileOf(run *chart.Run, name string, q float64) string {
	h, exact := run.Latencies(name)
	if _, ok := exact.Quantile(q); ok {
		return exact.Text(q)
	}
	if h == nil || h.Count() == 0 {
		return "not measured"
	}
	u, err := run.Latency.Waited(name).Unanswered()
	if err != nil {
		return unit.FormatNs(h.Quantile(q))
	}
	return record.FormatBound(record.AtLeast(h, u, q))
}

func meanOf(run *chart.Run, name string) string {
	_, exact := run.Latencies(name)
	if exact.Count == 0 {
		return "not measured"
	}
	return exact.MeanText(run.Latency.Waited(name))
}

// overTime shows rate and latency over time.
func overTime(runs []chart.Run) Section {
	s := Section{ID: "time", Title: "Over time"}
	most := chart.MostEach(len(runs))
	if p, ok := chart.Rate(runs, most); ok {
		s.Blocks = append(s.Blocks, figure("rate", p))
	}
	if p, ok := chart.LatencyOverTime(runs, most); ok {
		f := figure("response", p)
		if len(runs) == 1 && p.Density == nil {
			f.Note += " No heat map: this record does not have the distribution of each interval."
		}
		s.Blocks = append(s.Blocks, f)
	}
	for i := range runs {
		if runs[i].Series == nil || len(runs[i].Series.Load) == 0 {
			name := "Rate and latency over time"
			if runs[i].Label != "" {
				name = runs[i].Label
			}
			s.Blocks = append(s.Blocks, notMeasured(&runs[i], name, "load"))
		}
	}
	return s
}
