package page

import (
	"fmt"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
)

// headline is the figures that people ask for first.
func headline(runs []chart.Run) Section {
	s := Section{ID: "figures", Title: "Headline figures"}
	if len(runs) == 1 {
		s.Blocks = []Block{Tiles{tiles(&runs[0])}}
		return s
	}
	t := Table{Caption: "Headline figures of each run", Columns: []Column{{Name: "figure"}}}
	for i := range runs {
		t.Columns = append(t.Columns, Column{Name: runs[i].Label, Figure: true})
		for row, tile := range tiles(&runs[i]) {
			if i == 0 {
				t.Rows = append(t.Rows, []Cell{{Text: tile.Name}})
			}
			t.Rows[row] = append(t.Rows[row], Cell{Text: tile.Value})
		}
	}
	s.Blocks = []Block{t}
	return s
}

// tiles are the same for every run, in one order.
func tiles(run *chart.Run) []Tile {
	response := &run.Latency.Response
	list := []Tile{
		{"requests/s", rate(run), steadiness(run)},
		{"p50", quantile(response, response.P50Ns), "response time, done − due"},
		{"p99", quantile(response, response.P99Ns), "response time"},
		{"p99.9", quantile(response, response.P999Ns), "response time"},
		{"max", quantile(response, response.MaxNs), "response time"},
		{"lag p99", quantile(&run.Latency.Lag, run.Latency.Lag.P99Ns), "what the generator added: sent − due"},
	}
	bad := "not measured"
	if q := &run.Requests; q.Completed+q.Failed > 0 {
		bad = unit.FormatCount(int64(q.Failed + statusErrors(run)))
	}
	list = append(list, Tile{"errors", bad, "no response, or an unexpected status (from 400 on, or not in --expect)"})
	transfer := "not measured"
	if run.ElapsedS > 0 {
		transfer = unit.FormatBytesSI(int64(float64(run.Bytes.Read)/run.ElapsedS)) + "/s"
	}
	list = append(list, Tile{"read", transfer, "above TCP: heads, framing and bodies"})
	return append(list, costs(run)...)
}

// costs are what a request took of both ends' CPUs.
func costs(run *chart.Run) []Tile {
	server := "not measured"
	if run.Subject != nil && run.Subject.CPUNsPerRequest > 0 {
		server = unit.FormatNs(int64(run.Subject.CPUNsPerRequest))
	}
	generator, busy := "not measured", "not measured"
	if len(run.Generator.Workers) > 0 {
		generator = unit.FormatNs(int64(run.Generator.CPUNsPerRequest))
		busy = unit.Percent(run.Generator.BusiestWorker)
	}
	headroom, how := "not known", report.Headroom(run.Run)
	if g := &run.Generator; g.Headroom > 0 {
		headroom, how = fmt.Sprintf("%.1f×", g.Headroom), "reachable rate over this one"
		if g.HeadroomBy != "" {
			how += ": " + g.HeadroomBy
		}
	}
	return []Tile{
		{"server CPU", server, "of all its processes, per request"},
		{"generator CPU", generator, "per request"},
		{"generator peak thread", busy, "share of its time that the generator's busiest thread ran"},
		{"generator headroom", headroom, how},
	}
}

// statusErrors are completed requests with an unexpected status.
func statusErrors(run *chart.Run) uint64 {
	var n uint64
	for _, e := range run.Errors {
		if e.Phase == "status" && !e.BeforeWindow {
			n += e.Count
		}
	}
	return n
}

func quantile(q *record.Quantiles, ns int64) string {
	if q.Count == 0 {
		return "not measured"
	}
	return unit.FormatNs(ns)
}

func steadiness(run *chart.Run) string {
	s := &run.Rate.Spread
	if s.Samples < 2 {
		return "completed, over " + seconds(run.ElapsedS)
	}
	text := fmt.Sprintf("min %s · median %s · max %s over %d × %s", unit.FormatSI(s.MinPerS), unit.FormatSI(s.P50PerS),
		unit.FormatSI(s.MaxPerS), s.Samples, seconds(s.WidthS))
	if s.Late > 0 {
		text += fmt.Sprintf(", %d late", s.Late)
	}
	return text
}
