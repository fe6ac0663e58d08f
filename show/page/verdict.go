package page

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/live"
	"ceiling/show/path"
	"ceiling/show/report"
	"ceiling/verdict/prose"
)

// verdicts shows each run's verdict in words, at the top of the page.
func verdicts(runs []chart.Run, anchors map[string]bool) Section {
	s := Section{ID: "verdict", Title: "Verdict"}
	if len(runs) == 1 {
		s.Blocks = verdictOf(&runs[0], true, anchors)
		return s
	}
	var cards Columns
	for i := range runs {
		cards.Of = append(cards.Of, verdictOf(&runs[i], false, nil))
	}
	s.Blocks = []Block{cards}
	return s
}

func verdictOf(run *chart.Run, lead bool, anchors map[string]bool) []Block {
	card := Card(run)
	if !lead {
		card.Lead, card.Caveats, card.Next = false, "", ""
		card.Load = clip(redact(run.Target), 120) + " · " + report.LoadLine(run.Run)
	}
	blocks := []Block{card}
	if run.StoppedEarly != "" {
		blocks = append(blocks, Notice{"Ended early: " + run.StoppedEarly})
	}
	if run.Interrupted {
		blocks = append(blocks, Notice{"Interrupted: the figures cover the time until then."})
	}
	if lead {
		return blocks
	}
	if list := reasons(run, false, anchors); len(list) > 0 {
		blocks = append(blocks, Fold{Title: "Evidence, caveats and next step for " + run.Label, Blocks: slices.Concat(list...)})
	}
	return blocks
}

// Card is the card of a run's verdict, at the head of a page.
func Card(run *chart.Run) Verdict {
	v := &run.Verdict
	card := Verdict{
		Run: run.Label, Outcome: string(v.Outcome), Mood: v.Outcome, Gloss: gloss(v), Figure: rate(run), Unit: run.Spec.Kind.Many() + "/s",
		Spread: spread(run), Bottleneck: string(v.Bottleneck), Because: because(v), Lead: true,
	}
	if v.Bottleneck == record.Failures && run.ElapsedS > 0 { // a rate of errors is no figure to remember
		card.Figure, card.Unit, card.Spread = unit.Percent(run.BadShare()), "errors", ""
	}
	if run.Unfinished {
		card.Outcome, card.Mood, card.Gloss = string(record.Lost), record.Lost, "the run was killed; "+card.Gloss
	}
	next := record.CommandIn(v.Next)
	if run.Unfinished { // what it says to do
		next = report.Again(run.Command)
	}
	return chips(card, len(v.Caveats), next)
}

// reasons returns the lists behind a verdict: evidence for and against, caveats and next steps.
func reasons(run *chart.Run, lead bool, anchors map[string]bool) [][]Block {
	v := &run.Verdict
	var left, right []Block
	put := func(to *[]Block, b List) {
		if len(b.Items) > 0 {
			*to = append(*to, b)
		}
	}
	put(&left, List{Title: "Evidence", Items: facts(v.Evidence, anchors), Mark: "for", ID: anchorOf("evidence", lead)})
	put(&left, List{Title: "Against it", Items: facts(v.Against, anchors), Mark: "against"})
	put(&right, List{Title: "Missing", Items: plain(prose.Texts(v.Missing)), Mark: "doubt"})
	put(&right, List{Title: "Caveats", Items: plain(prose.Texts(v.Caveats)), Mark: "doubt", ID: anchorOf("caveats", lead)})
	if v.NextBottleneck != nil {
		put(&right, List{Title: "Next bottleneck", Items: plain([]string{prose.Text(v.NextBottleneck.Says)})})
	}
	if v.Next != nil {
		put(&right, List{Title: "Next step", Items: plain([]string{prose.Sentence(v.Next)}), Mark: "next"})
	}
	return slices.DeleteFunc([][]Block{left, right}, func(b []Block) bool { return len(b) == 0 })
}

// Reasons shows the basis of a single run's verdict, linked to the anchors of the page. It follows the path, so that outcome,
// rate, bottleneck, next command and path are on the first screen.
func Reasons(run *chart.Run, anchors map[string]bool) Section {
	s := Section{ID: "reasons", Title: "Evidence and caveats"}
	if list := reasons(run, true, anchors); len(list) > 0 {
		s.Blocks = []Block{Columns{list}}
	}
	return s
}

// anchorOf returns the anchor of a list; "" if several runs would share it.
func anchorOf(name string, lead bool) string {
	if lead {
		return name
	}
	return ""
}

// chips adds the number of caveats and the next command to a card.
func chips(v Verdict, caveats int, next string) Verdict {
	if caveats > 0 {
		v.Caveats = unit.Plural(caveats, "caveat", "caveats")
	}
	v.Next = next
	return v
}

// spread describes the variation of the rate between intervals.
func spread(run *chart.Run) string {
	s := &run.Rate.Spread
	if s.Samples < 2 {
		return ""
	}
	return fmt.Sprintf("%s in %d × %s", unit.Range(unit.FormatSI(s.MinPerS), "–", unit.FormatSI(s.MaxPerS)), s.Samples, seconds(s.WidthS))
}

// because returns the reason, without the name of the bottleneck above it unless the sentence
// needs it.
func because(v *record.Verdict) string {
	if v.Bottleneck == record.Inconclusive {
		return prose.Sentence(v.Because)
	}
	return prose.Reason(v)
}

// rate returns the headline figure; a run without a window has none.
func rate(run *chart.Run) string {
	if run.ElapsedS <= 0 {
		return "no rate"
	}
	return unit.FormatCount(int64(run.Rate.CompletedPerS + 0.5))
}

// gloss explains an outcome to readers who have not read the docs.
func gloss(v *record.Verdict) string {
	if v.Outcome == record.Fail && !slices.ContainsFunc(v.SLO, func(t record.SLOTerm) bool { return !t.Met }) {
		return "responses were errors"
	}
	return map[record.Outcome]string{
		record.Pass:    "SLO met",
		record.Fail:    "SLO not met",
		record.Valid:   "no SLO set",
		record.Invalid: "do not use these numbers",
	}[v.Outcome]
}

// facts returns evidence, linked to the figures that show it, if the page has them.
func facts(list []record.Evidence, anchors map[string]bool) []Item {
	var items []Item
	for _, e := range list {
		item := Item{Text: prose.Text(e.Says), From: e.What}
		for _, at := range shownAt(e.What) {
			if anchors[at] {
				item.Href = "#" + at
				break
			}
		}
		items = append(items, item)
	}
	return items
}

// shownAt returns the anchors where a measurement is shown, nearest first: its figure, then its
// section.
func shownAt(what string) []string {
	for _, at := range []struct {
		prefix  string
		anchors []string
	}{
		{"series.sockets", []string{"queues"}}, {"series.times", []string{"stations"}}, {"series.cpu", []string{"cores"}},
		{"series.net", []string{"link-bits", "link-1-bits", "link"}}, {"series.tcp", []string{"link"}},
		{"series.load.busy", []string{"figures"}}, {"series.load", []string{"rate", "time"}},
		{"series.process", []string{"processes"}}, {"series.thread", []string{"processes"}}, {"stacks", []string{"processes"}},
		{"profile", []string{"profiles"}}, {"generator", []string{"figures"}}, {"latency", []string{"percentiles", "latency"}},
		{"requests", []string{"errors"}}, {"errors", []string{"errors"}}, {"statuses", []string{"errors"}},
	} {
		if strings.HasPrefix(what, at.prefix) {
			return at.anchors
		}
	}
	return nil
}

// anchorsOf returns the sections and figures that can be linked to.
func anchorsOf(sections []Section) map[string]bool {
	all := map[string]bool{}
	for _, s := range sections {
		all[s.ID] = len(s.Blocks) > 0
		for _, b := range s.Blocks {
			if f, is := b.(Figure); is {
				all[f.ID] = true
			}
		}
	}
	return all
}

func plain(list []string) []Item {
	var items []Item
	for _, text := range list {
		items = append(items, Item{Text: text})
	}
	return items
}

// pathLeast is the number of segments from which a chart shows more than the boxes.
const pathLeast = 3

// stations shows where a request's time goes, as a picture and with intervals.
func stations(runs []chart.Run) Section {
	s := Section{ID: "stations", Title: "Where the time goes"}
	for i := range runs {
		run := &runs[i]
		if len(run.Verdict.Stations) == 0 {
			subject := "Where the time goes"
			if run.Label != "" {
				subject = run.Label
			}
			s.Blocks = append(s.Blocks, notMeasured(run, subject, "sockets"))
			continue
		}
		p, ok := PathOf([]*record.Run{run.Run})
		switch {
		case ok && len(runs) == 1:
			s.Blocks = append(s.Blocks, p)
			if f, ok := PathOverTime(live.PathOverTime(run.Run, run.Series), run.ElapsedS, pathLeast); ok {
				s.Blocks = append(s.Blocks, f)
			}
			s.Blocks = append(s.Blocks, stationTable(run))
		case ok:
			p.Says, p.Evidence, p.Run = run.Label+": the path of a request", "", run.Label
			s.Blocks = append(s.Blocks, p)
		}
		if text := report.AtOnce(run.Run); text != "" {
			s.Blocks = append(s.Blocks, Paragraph{Text: unloaded(run.Label, text)})
		}
	}
	if len(runs) > 1 {
		if t, ok := stationsCompared(runs); ok {
			s.Blocks = append(s.Blocks, t)
		}
		return s
	}
	if p, ok := chart.Queues(&runs[0], chart.Most); ok {
		s.Blocks = append(s.Blocks, figure("queues", p))
	}
	return s
}

// stationTone returns the class of a station's colour, by who has the request.
func stationTone(name string) string {
	return map[string]string{"generator": "st-generator", "network to server": "st-in", "server receive queue": "st-queue",
		"server":            "st-server",
		"network to client": "st-back", "generator receive queue": "st-unread"}[name]
}

// stationSays explains the time at a station.
func stationSays(name string) string {
	return map[string]string{
		"generator":               "sending, or handling a response",
		"network to server":       "sent, not yet received by the server's kernel",
		"server receive queue":    "received, not yet read by the server",
		"server":                  "read by the server, not yet answered",
		"network to client":       "answered, not yet received by the generator's kernel",
		"generator receive queue": "response received, not yet read by the generator",
	}[name]
}

func stationTable(run *chart.Run) Table {
	t := Table{Caption: "Share of a request's time at each place, with its 95% interval", Fold: true,
		Columns: []Column{{Name: "place"}, {Name: "share", Figure: true}, {Name: "interval"}, {Name: "from", Figure: true},
			{Name: "to", Figure: true}}}
	mean := run.Latency.Service.MeanNs
	if mean > 0 {
		t.Columns = append(t.Columns, Column{Name: "of the mean, " + unit.FormatNs(int64(mean)), Figure: true})
	}
	t.Columns = append(t.Columns, Column{Name: "the request is"})
	for _, st := range run.Verdict.Stations {
		tone := stationTone(st.Name)
		row := []Cell{{Text: path.LongName(st.Name), Tone: tone}, {Text: unit.Percent(st.Share)},
			{Range: &Range{st.Share, st.Low, st.High, tone}},
			{Text: unit.Percent(st.Low)}, {Text: unit.Percent(st.High)}}
		if mean > 0 {
			row = append(row, Cell{Text: unit.FormatNs(int64(st.Share * mean))})
		}
		t.Rows = append(t.Rows, append(row, Cell{Text: stationSays(st.Name)}))
	}
	return t
}

// stationsCompared has a row per station and a column per run.
func stationsCompared(runs []chart.Run) (Table, bool) {
	t := Table{Caption: "Share of a request's time at each place, with its 95% interval", Columns: []Column{{Name: "place"}}}
	rows := map[string]int{}
	for i := range runs {
		t.Columns = append(t.Columns, Column{Name: runs[i].Label, Figure: true})
		for _, st := range runs[i].Verdict.Stations {
			if _, there := rows[st.Name]; !there {
				rows[st.Name] = len(t.Rows)
				row := make([]Cell, len(runs)+1)
				row[0] = Cell{Text: path.LongName(st.Name), Tone: stationTone(st.Name)}
				for c := range runs {
					row[c+1].Text = "not measured"
				}
				t.Rows = append(t.Rows, row)
			}
			t.Rows[rows[st.Name]][i+1].Text = fmt.Sprintf("%s (%s)", unit.Percent(st.Share),
				unit.Range(unit.Percent(st.Low), "–", unit.Percent(st.High)))
		}
	}
	return t, len(t.Rows) > 0
}

// unloaded describes the requests before the load, with the label of their run.
func unloaded(label, text string) string {
	says := "By requests sent one at a time before the load: " + text + "."
	if label != "" {
		return label + ": " + strings.ToLower(says[:1]) + says[1:]
	}
	return says
}
