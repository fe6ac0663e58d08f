package page

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"ceiling/experiment/plan"
	"ceiling/experiment/spec"
	"ceiling/internal/secret"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
)

// Plan is the page of a sweep, search, proof, comparison or factorial experiment. An interrupted
// plan without an answer shows the runs that it has.
func Plan(p *record.Plan) (Document, error) {
	if len(p.Experiment.Servers) == 0 {
		return Document{}, errors.New("make page: the plan has no server")
	}
	d := Document{Title: planTitle(p) + " · ceiling", Subtitle: planTitle(p), Lead: planLead(p), Footer: planFooter(p)}
	d.add(Answer(p))
	d.add(answerOf(p).sections(planPaths(p))...)
	d.add(plannedRuns(p), planEnvironment(p))
	return d, nil
}

// OpenPlan reads a plan. It evaluates an interrupted plan from the runs that it has; the plan
// stays unfinished.
func OpenPlan(f record.File) (*record.Plan, error) {
	p, err := record.OpenPlan(f)
	if err != nil {
		return nil, err
	}
	if p.Ended == "" && len(p.Runs) > 0 {
		if err := record.ReadHistograms(f, p.Runs); err != nil {
			return nil, err
		}
		plan.Conclude(p)
	}
	return p, nil
}

// planTitle returns the question, or the kind of plan and its servers.
func planTitle(p *record.Plan) string {
	if q := secret.Plain().Text(p.Experiment.Question); q != "" {
		return clip(q, 200)
	}
	var names []string
	for i := range p.Experiment.Servers {
		names = append(names, redact(p.Experiment.Servers[i].Label()))
	}
	if c := p.Comparison; c != nil {
		a, b := sideNames(c)
		return clip("comparison of "+a+" and "+b, 200)
	}
	return clip(p.Experiment.Noun()+" of "+strings.Join(names, ", "), 200)
}

func planLead(p *record.Plan) string {
	return fmt.Sprintf("A %s of %s · %s", p.Experiment.Noun(), unit.Plural(len(p.Runs), "run", "runs"),
		p.Created.UTC().Format("2 January 2006, 15:04 UTC"))
}

func planFooter(p *record.Plan) string {
	return fmt.Sprintf("Plan %s, %s. Measured by ceiling %s. Everything on this page is from its record (%s); it loads nothing.",
		p.ID, p.Created.UTC().Format("2 January 2006, 15:04:05 UTC"), p.Environment.Version, record.PlanSchema)
}

// reach formats the interval of an estimate; "" if it has no width.
func reach(e *record.Estimate, format func(float64) string) string {
	if !(e.High > e.Low) {
		return ""
	}
	text := format(e.Low) + "–" + format(e.High)
	if e.Confidence > 0 {
		return fmt.Sprintf("%s (%.0f%%)", text, 100*e.Confidence)
	}
	return text + " (min–max)"
}

// estimated formats an estimate and its interval for a cell.
func estimated(e *record.Estimate, format func(float64) string) string {
	if !(e.Mid > 0) {
		return "–"
	}
	if !(e.High > e.Low) {
		return format(e.Mid)
	}
	return fmt.Sprintf("%s (%s)", format(e.Mid), unit.Range(format(e.Low), "–", format(e.High)))
}

func nanoseconds(v float64) string { return unit.FormatNs(int64(min(max(v, -1e18), 1e18) + 0.5)) }

func count(v float64) string { return unit.FormatCount(int64(min(max(v, -1e18), 1e18) + 0.5)) }

// plannedRuns lists every run of the plan, one per line.
func plannedRuns(p *record.Plan) Section {
	s := Section{ID: "runs", Title: "Every run"}
	if len(p.Runs) > 0 {
		s.Blocks = []Block{RunsTable(p.Runs, func(i int) string { return part(p, &p.Runs[i]) })}
	}
	return s
}

// RunsTable has a line for each run of a plan, with the part that it has in the plan.
func RunsTable(runs []record.Measured, part func(i int) string) Table {
	t := Table{Caption: fmt.Sprintf("The %s, in execution order", unit.Plural(len(runs), "run", "runs")), Fold: len(runs) > tableRows, Anchor: "run",
		Columns: []Column{{Name: "run", Figure: true}, {Name: "what"}, {Name: "connections", Figure: true}, {Name: "pipelining", Figure: true},
			{Name: "asked", Figure: true},
			{Name: "req/s", Figure: true}, {Name: "p50", Figure: true}, {Name: "p99", Figure: true}, {Name: "server CPU", Figure: true},
			{Name: "outcome"}, {Name: "bottleneck"}, {Name: "record"}}}
	for i := range runs {
		m := &runs[i]
		asked := "–"
		if m.TargetPerS > 0 {
			asked = unit.FormatRate(m.TargetPerS)
		}
		cpu := "–"
		if m.ServerCPUNs > 0 {
			cpu = nanoseconds(m.ServerCPUNs)
		}
		outcome := string(m.Outcome)
		if m.StoppedEarly != "" {
			outcome += ", ended early: " + m.StoppedEarly
		}
		t.Rows = append(t.Rows, []Cell{{Text: fmt.Sprint(m.Number)}, {Text: part(i)}, {Text: fmt.Sprint(m.Connections)},
			{Text: fmt.Sprint(m.Pipelining)}, {Text: asked},
			{Text: count(m.CompletedPerS)}, {Text: quantileCell(&m.Response, .5)}, {Text: quantileCell(&m.Response, .99)},
			{Text: cpu},
			{Text: outcome}, {Text: report.Limit(m.Outcome, m.Bottleneck)}, {Text: m.Run, Code: true}})
	}
	return t
}

func quantileCell(l *record.Quantiles, q float64) string {
	if !l.Known() {
		return "–"
	}
	return l.Text(q)
}

// part is a run's role in its plan.
func part(p *record.Plan, m *record.Measured) string {
	text := fmt.Sprintf("server %d, requests %d", m.Server, m.Mix)
	if m.Server >= 0 && m.Server < len(p.Experiment.Servers) && m.Mix >= 0 && m.Mix < len(p.Experiment.Requests) {
		text = redact(spec.Loaded(p.Experiment.Servers[m.Server].Label(), p.Experiment.Requests[m.Mix].Label()))
	}
	if cell := p.Experiment.CellLabel(m.Cell); cell != "" {
		text = redact(cell)
	}
	if len(p.Experiment.Load.Threads) > 1 {
		text += ", " + unit.Plural(m.Threads, "generator thread", "generator threads")
	}
	if is := m.Part(); is != "" {
		text += ", " + is
	}
	return text
}

// planEnvironment shows the plan's definition, command and host.
func planEnvironment(p *record.Plan) Section {
	s := Section{ID: "environment", Title: "Command and environment"}
	if len(p.Command) > 0 {
		s.Blocks = append(s.Blocks, Code{commandLine(p.Command)})
	} else {
		s.Blocks = append(s.Blocks, Paragraph{Text: "The command line is not recorded."})
	}
	s.Blocks = append(s.Blocks, Paragraph{Text: host(&p.Environment)})
	e, _ := p.Experiment.Concealed(secret.Plain())
	list, err := flat("experiment", e)
	if err != nil {
		return s.failed(err)
	}
	env, err := flat("environment", p.Environment)
	if err != nil {
		return s.failed(err)
	}
	s.Blocks = append(s.Blocks, Columns{[][]Block{{fieldTable("Test definition", list)}, {folded(fieldTable("Load generator host", env))}}})
	return s
}

// toneOf returns the colour of the i-th line, and whether it must be dashed because the colour is
// in use.
func toneOf(i int) (tone int, dashed bool) { return i % chart.Tones, i/chart.Tones%2 == 1 }

// planPaths shows the path of a request at the plan's answer.
func planPaths(p *record.Plan) Section {
	s := Section{ID: "where", Title: "Where the time goes"}
	add := func(says string, of record.Bottleneck, in func(m *record.Measured) bool) {
		if path, ok := measuredPath(p, of, in); ok {
			path.Says = says
			s.Blocks = append(s.Blocks, path.On("", []Section{{}}))
		}
	}
	answerOf(p).paths(add)
	return s
}

// measuredPath returns the path of the requests of selected runs of a plan. Its bottleneck is the
// answer's; if that is "", the one that most of the runs have.
func measuredPath(p *record.Plan, of record.Bottleneck, in func(m *record.Measured) bool) (Path, bool) {
	var runs []*record.Run
	for i := range p.Runs {
		m := &p.Runs[i]
		if m.WarmupRun || m.Outcome == record.Invalid || m.StoppedEarly != "" || len(m.Stations) == 0 || !in(m) {
			continue
		}
		r := &record.Run{ElapsedS: m.ElapsedS, Verdict: record.Verdict{Stations: m.Stations, Bottleneck: cmp.Or(of, m.Bottleneck)}}
		r.Latency.Service, r.Requests.Completed = m.Service, m.Completed
		if m.ServerCPUNs > 0 {
			r.Verdict.Uses = []record.Use{{Station: record.PlaceInServer, What: record.UseOfCores, Used: m.ServerCPUNs * m.CompletedPerS / 1e9}}
		}
		runs = append(runs, r)
	}
	path, ok := PathOf(runs)
	path.Evidence = ""
	return path, ok
}
