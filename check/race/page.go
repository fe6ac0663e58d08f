package race

import (
	"cmp"
	"fmt"
	"slices"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
)

// Page is the race as a page: the targets, the CPU per request of every case against
// nginx, the figures of each contestant, and how it was measured.
func (r *Result) Page() page.Document {
	d := page.Document{Title: "Race of proxies · ceiling", Subtitle: "What does a request cost each reverse proxy?",
		Lead: "CPU per request in interleaved runs of the same load · " + r.Time.UTC().Format("2 January 2006, 15:04 UTC")}
	answer := page.Section{ID: "answer", Title: "Answer", Blocks: []page.Block{r.card()}}
	if forest, ok := r.forest(); ok {
		answer.Blocks = append(answer.Blocks, forest)
	}
	if len(r.Verdicts) > 0 {
		answer.Blocks = append(answer.Blocks, r.targets())
	}
	if len(r.Caveats) > 0 {
		answer.Blocks = append(answer.Blocks, itemised("Caveats", "doubt", r.Caveats))
	}
	d.Sections = append(d.Sections, answer)
	for i := range r.Cases {
		d.Sections = append(d.Sections, r.Cases[i].section(i))
	}
	method := page.Section{ID: "method", Title: "Method", Blocks: []page.Block{fields("How it was measured", r.method()), fields("Contestants", r.entrants())}}
	for i := range r.Cases {
		method.Blocks = append(method.Blocks, r.Cases[i].configurations())
	}
	d.Sections = append(d.Sections, method)
	return d
}

func itemised(title, mark string, texts []string) page.List {
	l := page.List{Title: title, Mark: mark}
	for _, text := range texts {
		l.Items = append(l.Items, page.Item{Text: text})
	}
	return l
}

// card counts the targets and has the range of our CPU per request against nginx's.
func (r *Result) card() page.Verdict {
	v := page.Verdict{Outcome: "measured", Mood: record.Valid, Gloss: "no targets", Lead: true,
		Because: "No ratio: nginx or ceiling did not take part."}
	missed := slices.DeleteFunc(slices.Clone(r.Verdicts), Verdict.met)
	if n := len(r.Verdicts); n > 0 {
		v.Outcome, v.Gloss = fmt.Sprintf("%d of %d", n-len(missed), n), "targets met"
	}
	if len(missed) > 0 {
		v.Mood, v.Next = record.Invalid, "ceiling race --only nginx,ceiling --rounds 15 --case "+missed[0].Case
	}
	raced := r.ours()
	if len(raced) == 0 {
		return v
	}
	ratio := func(c *CaseResult) float64 { return c.row(Ours).ToNginx.Value }
	slices.SortStableFunc(raced, func(a, b *CaseResult) int { return cmp.Compare(ratio(a), ratio(b)) })
	least, most := raced[0], raced[len(raced)-1]
	v.Figure, v.Unit = figure(ratio(least)), "of nginx's CPU/request"
	v.Because = fmt.Sprintf("In %q: %s.", least.Name, least.About)
	if least != most {
		v.Figure += "–" + figure(ratio(most))
		v.Because = fmt.Sprintf("Least in %q (%s), most in %q (%s).", least.Name, least.About, most.Name, most.About)
	}
	return v
}

// ours are the cases in which our proxy has a ratio to nginx.
func (r *Result) ours() (list []*CaseResult) {
	for i := range r.Cases {
		if row := r.Cases[i].row(Ours); row != nil && row.ToNginx != nil {
			list = append(list, &r.Cases[i])
		}
	}
	return list
}

func (c *CaseResult) row(name string) *Row {
	if i := slices.IndexFunc(c.Rows, func(row Row) bool { return row.Name == name }); i >= 0 {
		return &c.Rows[i]
	}
	return nil
}

// forest is our CPU per request against nginx's, case by case.
func (r *Result) forest() (page.Drawing, bool) {
	var rows []chart.Estimated
	for _, c := range r.ours() {
		rows = append(rows, c.against(c.Name, c.row(Ours)))
	}
	return drawing("cpu", "ceiling's CPU/request against nginx's, by case", rows)
}

// against is a contestant's CPU per request to nginx's, with the ratio of each round.
func (c *CaseResult) against(name string, row *Row) chart.Estimated {
	e := row.ToNginx
	out := chart.Estimated{Name: name, Value: between(e), Mid: e.Value, Low: e.Low, High: e.High, Tone: 1}
	if e.High < 1 {
		out.Tone = 3
	} else if e.Low <= 1 {
		out.Tone = 7
	}
	out.Each = pairs(c.of(row.Name), c.of(Nginx), (*Sample).nsPerRequest)
	return out
}

func drawing(id, title string, rows []chart.Estimated) (page.Drawing, bool) {
	f, ok := chart.NewForest(title, "ratio", chart.Plain, rows, []chart.Limit{{Name: "nginx", At: 1}}, true)
	for i := range rows {
		f.Says += rows[i].Name + " " + rows[i].Value + ". "
	}
	return page.Drawing{ID: id, Plot: page.Legend{Title: title}, Forest: &f,
		Note: "Line: nginx. Dots: pairs of one round. Bars: 95% intervals over the rounds."}, ok && len(rows) > 0
}

func (r *Result) targets() page.Table {
	t := page.Table{Caption: "Targets", Columns: []page.Column{{Name: "figure"}, {Name: "measured", Figure: true}, {Name: "target", Figure: true},
		{Name: "result"}}}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		t.Rows = append(t.Rows, page.Cells(v.Figure, between(&v.Estimate), "≤ "+figure(v.Limit), v.Says))
	}
	return t
}

// section is one case: every contestant against nginx, and its figures.
func (c *CaseResult) section(n int) page.Section {
	id := fmt.Sprintf("case-%d", n)
	out := page.Section{ID: id, Title: c.Name, Blocks: []page.Block{page.Paragraph{Text: c.title()}}}
	var rows []chart.Estimated
	for i := range c.Rows {
		if row := &c.Rows[i]; row.ToNginx != nil {
			rows = append(rows, c.against(row.Name, row))
		}
	}
	if f, ok := drawing(id+"-cpu", "CPU/request against nginx's", rows); ok {
		out.Blocks = append(out.Blocks, f)
	}
	out.Blocks = append(out.Blocks, c.table())
	if absent := c.absent(); len(absent) > 0 {
		out.Blocks = append(out.Blocks, itemised("Not raced", "", absent))
	}
	return out
}

// fields is a table of facts.
func fields(caption string, list []fact) page.Table {
	t := page.Table{Caption: caption, Columns: []page.Column{{Name: "what"}, {Name: "how"}}, Fields: true}
	for _, f := range list {
		t.Rows = append(t.Rows, page.Cells(f.name, f.text))
	}
	return t
}

// configurations of a case, as they were run.
func (c *CaseResult) configurations() page.Fold {
	f := page.Fold{Title: "Configurations of " + c.Name}
	for i := range c.Rows {
		if row := &c.Rows[i]; row.Hash != "" {
			text := row.Configuration.Command
			if row.Configuration.Text != "" {
				text += "\n\n" + row.Configuration.Text
			}
			f.Blocks = append(f.Blocks, page.Heading{Text: row.Name + " · " + row.Hash}, page.Code{Text: text})
		}
	}
	return f
}

// fact is one line of the method.
type fact struct{ name, text string }

// method is what was equal for all contestants, and how each figure was measured.
func (r *Result) method() []fact {
	s, e := &r.Settings, &r.Environment
	return []fact{
		{"equal", fmt.Sprintf("%s per contestant; %d keep-alive connections; one request, byte for byte; one backend, `ceiling serve floor`, with one thread and keep-alive connections; %s of %s, each with the contestants in random order (seed %d), after one that is discarded",
			unit.Plural(s.Workers, "worker", "workers"), s.Connections, unit.Plural(s.Rounds, "round", "rounds"), unit.FormatNs(int64(s.DurationS*1e9)), s.Seed)},
		{"checked", "before every case: the request that each contestant forwards, by a backend that records it, and its response; in every round: errors, and the backend's count against the generator's"},
		{"CPU", "of all processes of a contestant, by the CPU clock of each process, divided by the requests of a closed loop; /nginx is the ratio of pairs from one round with its 95% interval"},
		{"open p99", fmt.Sprintf("at %s req/s for all, unless the case says otherwise, from when a request was due", unit.FormatSI(float64(s.PerS)))},
		{"MB", "proportional set size of all processes"},
		{"host", fmt.Sprintf("%s, %s, Linux %s; generator, backend and contestant share them", e.CPUModel, unit.Plural(e.CoresAllowed, "CPU", "CPUs"), e.Kernel)},
	}
}

// entrants are who took part: version and program, or why not.
func (r *Result) entrants() (list []fact) {
	for _, e := range r.Entrants {
		text := fmt.Sprintf("%s, program %s", e.Version, e.Binary)
		if e.Differs != "" {
			text += "; " + e.Differs
		}
		list = append(list, fact{e.Name, cmp.Or(e.Missing, text)})
	}
	return list
}
