package page

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/live"
	"ceiling/show/page"
	"ceiling/show/path"
)

//go:embed live.html
var frameFile string

// frames has the page around the parts, and its head: html/template escapes everything.
var frames = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"text": page.Text}).Parse(frameFile))
}) // read-only

// part is a part of the page, as HTML. It follows from of, where that is cheaper to compare than the part is to make.
type part struct {
	id   string
	of   any
	html func() (template.HTML, error)
}

// section is a part with blocks of a report; without any it is empty.
func section(id, title string, of any, blocks func() []page.Block) part {
	return part{id, of, func() (template.HTML, error) {
		list := blocks()
		if len(list) == 0 {
			return "", nil
		}
		return page.Sections(page.Document{Sections: []page.Section{{ID: id, Title: title, Blocks: list}}})
	}}
}

// frame renders one of the page's own templates.
func frame(name string, data any) (template.HTML, error) {
	var b strings.Builder
	err := frames().ExecuteTemplate(&b, name, data)
	return template.HTML(b.String()), err // html/template has escaped it
}

// event is the part as an event: the first line of its data is the id.
func (p part) event() []byte {
	html, err := p.html()
	if err != nil {
		html = template.HTML(template.HTMLEscapeString("this part cannot be shown: " + err.Error()))
	}
	return fmt.Appendf(nil, "event: part\ndata: %s\ndata: %s\n\n", p.id, strings.ReplaceAll(styled(html), "\n", "\ndata: "))
}

// view is what the page shows.
type view struct {
	*live.Snapshot
	run    chart.Run // as far as it was judged
	done   []live.FinishedRun
	over   []live.Stretch
	overs  int // changes of over
	cost   string
	Report bool // whether there is one
	tick   int  // of the figures that change all the time
}

// partIDs lists the parts in the order of the page, before and after the charts.
func partIDs() (before, after []string) {
	return []string{"plan", "figures", "verdict", "stations", "reasons"}, []string{"cores", "link", "agents", "runs", "missing", "cost"}
}

// parts returns the parts of the page.
func (s *view) parts() []part {
	s.run.Run = &record.Run{}
	if s.Formed != nil {
		r := s.Formed.Run
		r.Unfinished = r.Unfinished && s.Formed.Final // a run in progress is not lost
		s.run.Run = &r
	}
	of, now, plan := [3]any{s.Formed, s.VerdictBasis(), s.Phase}, [5]any{s.tick, s.ID, s.Phase, s.Formed, s.Report}, "The plan so far"
	if s.answered() {
		plan = "The plan"
	}
	return []part{
		{"head", now, func() (template.HTML, error) { return frame("head", s) }},
		section("plan", plan, [2]any{plan, len(s.done)}, s.plan),
		section("figures", "Headline figures", now, s.figures),
		section("verdict", "Verdict", of, s.verdict),
		section("stations", "Where the time goes", [2]any{of, s.overs}, s.stations),
		section("reasons", "Evidence and caveats", of, s.reasons),
		section("cores", "CPU", now, s.cores),
		section("link", "The link", now, s.links),
		section("agents", "The agents", now, s.agents),
		section("runs", "Finished runs", len(s.done), s.runs),
		section("missing", "Not measured", [2]any{s.ID, len(s.Lost)}, s.missing),
		{"cost", now, func() (template.HTML, error) { return page.Blocks(s.overhead()) }},
	}
}

// Over reports whether nothing more is measured.
func (s *view) Over() bool { return s.Phase == live.Ended }

// answered reports whether the answer of the plan replaces the last run's figures.
func (s *view) answered() bool { return s.Over() && s.Plan != nil && s.Plan.Record != nil }

func (s *view) measured() []record.Measured {
	list := make([]record.Measured, len(s.done))
	for i := range s.done {
		list[i] = s.done[i].Measured
	}
	return list
}

func (s *view) plan() []page.Block {
	marks := page.Marks(s.measured(), s.Spec.SLO)
	if s.answered() {
		return slices.Concat(page.Answer(s.Plan.Record).Blocks, marks)
	}
	return marks
}

func (s *view) runs() []page.Block {
	if len(s.done) == 0 {
		return nil
	}
	return []page.Block{page.RunsTable(s.measured(), func(i int) string { return s.done[i].Doing })}
}

// figures are those of a report once the run has ended.
func (s *view) figures() []page.Block {
	switch {
	case s.answered():
		return nil
	case s.Formed != nil && s.Formed.Final && !s.Killed:
		return page.Headline([]chart.Run{s.run}).Blocks
	}
	so, last := &s.SoFar, cmp.Or(s.Last, &live.Point{})
	rate := page.Tile{Name: s.Spec.Kind.Many() + "/s", Value: "–", Note: "no data yet"}
	if s.Last != nil {
		rate.Value, rate.Note = unit.FormatCount(int64(s.LastPerS+0.5)), "in the last second"
		if so.Intervals > 0 {
			rate.Note += "; " + unit.FormatRate(so.PerS) + " in the window"
		}
	}
	tiles := []page.Tile{rate}
	for _, q := range []struct {
		name string
		of   float64
		ns   int64
	}{{"p50", .5, last.P50Ns}, {"p90", .9, last.P90Ns}, {"p99", .99, last.P99Ns}, {"max", 1, last.MaxNs}} {
		t := page.Tile{Name: q.name, Value: live.Quantile(last.Answered, q.ns), Note: "response time, of the last interval"}
		if so.Response.Count > 0 {
			t.Value, t.Note = so.Response.Text(q.of), "response time; "+t.Value+" in the last interval"
		}
		tiles = append(tiles, t)
	}
	if text := s.HandshakesSay(); text != "" {
		tiles = append(tiles, page.Tile{Name: "handshakes", Value: text, Note: "of TLS, in the window"})
	}
	return []page.Block{page.Tiles{Tiles: append(tiles, page.Tile{Name: "errors", Value: unit.FormatCount(int64(so.Failed)),
		Note: "no response, or an unexpected one"})}}
}

func (s *view) verdict() []page.Block {
	switch {
	case s.Formed == nil && s.answered():
		return nil
	case s.Formed == nil:
		return []page.Block{page.Paragraph{Text: "Verdict: " + s.VerdictBasis(), Quiet: true}}
	}
	card := page.Card(&s.run)
	if !s.Formed.Final || s.Killed {
		card.Gloss = s.VerdictName() + ", " + s.VerdictBasis()
	}
	return []page.Block{card}
}

func (s *view) reasons() []page.Block {
	anchors := map[string]bool{"stations": true, "cores": true, "link": true, "figures": true, "rate": true, "missing": true}
	return page.Reasons(&s.run, anchors).Blocks
}

// stations are the path of a request, now and over time.
func (s *view) stations() []page.Block {
	var p page.Path
	ok := s.Formed != nil
	if ok {
		p, ok = page.PathOf([]*record.Run{&s.Formed.Run})
	}
	if !ok && s.answered() {
		return nil
	}
	if !ok {
		return []page.Block{page.Paragraph{Text: s.PathUnknown(), Quiet: true}}
	}
	for i := range p.Boxes {
		b := &p.Boxes[i]
		if to, there := map[string]string{"#queues": "#path-time", "#processes": "#cores"}[b.Href]; there {
			b.Href = to
		}
		if !b.Known {
			b.Time = path.Unknown
		}
		if !b.Known && s.Over() {
			b.Time = "not known"
		}
	}
	blocks := []page.Block{p}
	if d, ok := page.PathOverTime(s.over, s.Progress.ElapsedS, 1); ok {
		blocks = append(blocks, d)
	}
	return blocks
}

// cores are the processes and the CPUs of both ends.
func (s *view) cores() []page.Block {
	var ends page.List
	for i, e := range []*live.End{&s.Ends.Generator, &s.Ends.Server} {
		name := strings.TrimSuffix([]string{"generator: ", "server: "}[i]+e.Name+", ", ": , ")
		ends.Items = append(ends.Items, page.Item{Text: name + e.CoresSay()})
	}
	blocks := []page.Block{ends}
	for _, h := range s.Ends.Hosts {
		t := page.Table{Caption: "The last second of each core of " + h.Name, Columns: []page.Column{{Name: "core"}, {Name: "busy", Figure: true}, {Name: "of the time"}}}
		for _, name := range live.CorePartNames() {
			t.Columns = append(t.Columns, page.Column{Name: name, Figure: true})
		}
		for i := range h.Cores {
			c := &h.Cores[i]
			row := []page.Cell{{Text: fmt.Sprint(c.CPU)}, {Text: "inconsistent"}}
			if !c.Bad {
				row = []page.Cell{row[0], {Text: unit.Percent(c.Busy())}, used(c.Busy())}
				for _, share := range c.Shares {
					row = append(row, page.Cell{Text: unit.Percent(share)})
				}
			}
			t.Rows = append(t.Rows, row)
		}
		blocks = append(blocks, t)
	}
	return blocks
}

// used is a bar as long as a share.
func used(share float64) page.Cell {
	return page.Cell{Range: &page.Range{Share: share, High: share, Tone: "dot-0"}}
}

func (s *view) links() []page.Block {
	var blocks []page.Block
	for i := range s.Links {
		l := &s.Links[i]
		t := page.Table{Caption: l.Iface + ": " + l.LimitSays(), Columns: []page.Column{{Name: "direction"}, {Name: "throughput", Figure: true},
			{Name: "utilisation"}, {Name: "packets", Figure: true}}}
		if l.Side != "" {
			t.Caption = l.Iface + ", " + l.Side + " side: " + l.LimitSays()
		}
		for _, w := range []struct {
			name string
			of   *record.LinkWay
		}{{"received", &l.Received}, {"sent", &l.Sent}} {
			full := page.Cell{Text: "–"}
			if share := w.of.Share(); share >= 0 {
				full = used(share)
			}
			t.Rows = append(t.Rows, []page.Cell{{Text: w.name}, {Text: live.Carried(w.of)}, full, {Text: unit.FormatSI(w.of.PacketsPerS) + "/s"}})
		}
		blocks = append(blocks, t)
	}
	if blocks == nil {
		return []page.Block{page.Paragraph{Text: "No network interface observed yet.", Quiet: true}}
	}
	return blocks
}

func (s *view) agents() []page.Block {
	var list page.List
	for i := range s.Agents {
		list.Items = append(list.Items, page.Item{Text: s.Agents[i].Name + ": " + s.Agents[i].Says()})
	}
	if list.Items == nil {
		return nil
	}
	return []page.Block{list}
}

func (s *view) missing() []page.Block {
	if len(s.Lost) == 0 {
		return nil
	}
	return page.Missing([]chart.Run{{Run: &record.Run{NotMeasured: s.Lost}}}).Blocks
}

func (s *view) overhead() page.Block {
	return page.Fold{Title: "Dashboard overhead: " + s.cost, Blocks: []page.Block{page.Paragraph{Quiet: true,
		Text: "CPU time of the threads that compute the verdict and serve all open pages, and of garbage collection; " +
			"drawing in the browser is not included."}}}
}

// styled moves style attributes to where the script finds them: the page's policy allows none, but it lets the script
// set them. In text, and in values, every quote is escaped, so that only a template's own attribute is one.
func styled(html template.HTML) string {
	return strings.ReplaceAll(string(html), ` style="`, ` data-style="`)
}

// index renders the page before it has received anything: places for the parts, and charts without points.
func index() (template.HTML, error) {
	rate, response := chart.Growing(&chart.Run{Run: &record.Run{}}, chart.Extent{})
	charts, err := page.Sections(page.Document{Sections: []page.Section{{ID: "time", Title: "Over time", Blocks: []page.Block{
		page.Columns{Of: [][]page.Block{{page.Figure{ID: "rate", Plot: rate, Zoom: true}},
			{page.Figure{ID: "response", Plot: response, Zoom: true, Note: "Darker: more responses, on a logarithmic scale."}}}}}}}})
	if err != nil {
		return "", err
	}
	before, after := partIDs()
	return frame("index", map[string]any{"Before": before, "After": after, "Charts": template.HTML(styled(charts))})
}
