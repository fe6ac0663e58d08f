package page

import (
	"fmt"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
)

// Headline shows the figures that readers look for first.
func Headline(runs []chart.Run) Section {
	s := Section{ID: "figures", Title: "Headline figures"}
	if len(runs) == 1 {
		s.Blocks = []Block{Tiles{slices.Concat(tiles(&runs[0]), early(runs[0].Run), handshakes(&runs[0]))}}
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
	deltas(&t, runs)
	shakes(&t, runs)
	s.Blocks = []Block{t, Paragraph{Text: deltaMethod, Quiet: true}}
	return s
}

// early has the tiles of what came before the ends of responses, if it was another time.
func early(r *record.Run) (list []Tile) {
	l := &r.Latency
	for _, t := range []struct {
		name string
		q    *record.Quantiles
	}{{"first byte", l.FirstByte}, {"first event", l.FirstEvent}} {
		if t.q != nil && !t.q.Near(&l.Response) {
			list = append(list, Tile{t.name + " p99", quantile(t.q, .99), t.name + " of the response − sent, p50 " + t.q.Text(.5)})
		}
	}
	return list
}

// tiles are the same for every run, in the same order.
func tiles(run *chart.Run) []Tile {
	response, name := &run.Latency.Response, "response time"
	list := []Tile{
		{run.Spec.Kind.Many() + "/s", rate(run), steadiness(run)},
		{"p50", quantile(response, .5), "response time, done − due"},
		{"p99", quantile(response, .99), name},
		{"p99.9", quantile(response, .999), name},
		{"max", quantile(response, 1), name},
		{"lag p99", quantile(&run.Latency.Lag, .99), "what the generator added: sent − due"},
	}
	bad := "not measured"
	if q := &run.Requests; q.Completed+q.Failed > 0 {
		bad = unit.FormatCount(int64(q.Failed + statusErrors(run)))
	}
	list = append(list, Tile{"errors", bad, "no response, or an unexpected one (a status from 400 on, or not as in --expect)"})
	transfer := "not measured"
	if run.ElapsedS > 0 {
		transfer = unit.FormatBytesSI(int64(record.ReadPerS(run.Run))) + "/s"
	}
	list = append(list, Tile{"read", transfer, "above TCP: heads, framing and bodies"})
	return append(list, costs(run)...)
}

// shakes adds a row for TLS handshakes per second if a run had any.
func shakes(t *Table, runs []chart.Run) {
	row, rates, any := []Cell{{Text: "handshakes"}}, []headlineFigure{}, false
	for i := range runs {
		cell, rate := Cell{Text: "none"}, headlineFigure{}
		if list := handshakes(&runs[i]); len(list) > 0 {
			any, cell.Text, rate.value = true, list[0].Value, runs[i].Load.TLS.PerS
		}
		row, rates = append(row, cell), append(rates, rate)
	}
	for _, rate := range rates[1:] {
		row = append(row, Cell{Text: rates[0].delta(rate)})
	}
	if any {
		t.Rows = append(t.Rows, row)
	}
}

// handshakes shows the TLS handshakes of the window, if there were any.
func handshakes(run *chart.Run) []Tile {
	t := run.Load.TLS
	if t == nil || t.Count() == 0 {
		return nil
	}
	note := "of TLS, in the window"
	if t.Resumptions != nil {
		note += fmt.Sprintf("; %s of them resumed a session", unit.Percent(float64(t.Resumptions.Count)/float64(t.Count())))
	}
	each := fmt.Sprintf("generator CPU %s each, without system calls; the CPU per request has it too",
		unit.FormatNs(t.CPUNs/int64(t.Count())))
	list := []Tile{{"handshakes", unit.FormatSI(t.PerS) + "/s", note}}
	if q := &t.Handshakes; q.Count > 0 {
		list = append(list, Tile{"full handshake p50", unit.FormatNs(q.P50Ns), each})
	}
	if q := t.Resumptions; q != nil && q.Count > 0 {
		list = append(list, Tile{"resumed handshake p50", unit.FormatNs(q.P50Ns), each})
	}
	return list
}

// costs are the CPU costs per request at both ends.
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
	if g := &run.Generator; run.Headroom() > 0 {
		headroom, how = fmt.Sprintf("%.1f×", run.Headroom()), "maximum ÷ measured rate"
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

// statusErrors returns the number of completed requests whose response counts as an error.
func statusErrors(run *chart.Run) uint64 {
	var n uint64
	for _, e := range run.Errors {
		if e.OfResponse() && !e.BeforeWindow {
			n += e.Count
		}
	}
	return n
}

func quantile(l *record.Quantiles, q float64) string {
	if !l.Known() {
		return "not measured"
	}
	return l.Text(q)
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
