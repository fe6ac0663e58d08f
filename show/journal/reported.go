package journal

import (
	"errors"
	"fmt"
	"os"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/importer"
	"ceiling/show/page"
	"ceiling/verdict/audit"
	"ceiling/verdict/prose"
)

// reportedFigures are what another tool's output says. They have no record: a tool prints neither
// what it observed nor how.
type reportedFigures struct {
	name   string
	result importer.Result
}

// reportedIn reads a tool's output in the entry's folder.
func reportedIn(e *Entry, file string) (*reportedFigures, error) {
	path, err := pathInside(e, file, usages["reported"])
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := importer.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", clip(file), err)
	}
	return &reportedFigures{file, r}, nil
}

// publishedIn returns the published measurements of the file that the front matter names, each with its
// author's conclusion and what its figures prove. Points are judged together, and group selects some by their
// entry.
func publishedIn(e *Entry, group string) (answer, error) {
	file := e.Front.Files.Points
	if file == "" {
		return answer{}, errors.New("this entry names no points; points: records/points.yaml in its front matter does that")
	}
	path, err := pathInside(e, file, "points: records/points.yaml")
	if err != nil {
		return answer{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return answer{}, err
	}
	defer f.Close()
	points, err := record.ReadPoints(f)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", clip(file), err)
	}
	var rows [][]page.Cell
	for i, judged := range audit.Judge(points.Points).Points {
		if p := &points.Points[i]; p.Entry == group {
			rows = append(rows, publishedRow(p, &judged))
		}
	}
	if len(rows) == 0 {
		return answer{}, fmt.Errorf("%s has no points of entry %q", clip(file), clip(group))
	}
	t := page.Table{Caption: "Published in " + page.Shown(group), Columns: []page.Column{{Name: "point"}, {Name: "server"}, {Name: "load"},
		{Name: "req/s", Figure: true}, {Name: "P99", Figure: true}, {Name: "the author's conclusion"}, {Name: "what the figures prove"}}, Rows: rows}
	return answer{isBlock: true, blocks: []page.Block{t}}, nil
}

func publishedRow(p *record.Point, judged *audit.PointVerdict) []page.Cell {
	load := "not stated"
	if p.Connections.Known {
		load = unit.FormatSI(p.Connections.Value)
		if p.Pipelining.Known {
			load += " × " + unit.FormatSI(p.Pipelining.Value)
		}
	}
	figure := func(f record.Figure, format func(float64) string) string {
		if !f.Known {
			return "–"
		}
		return format(f.Value)
	}
	says := fmt.Sprintf("%s: %s", judged.Verdict.Bottleneck, prose.Sentence(judged.Verdict.Because))
	if judged.Verdict.Outcome == record.Invalid {
		says = "invalid, " + says
	}
	for i := range judged.Inconsistencies {
		says += "; " + prose.Text(judged.Inconsistencies[i].Says)
	}
	return []page.Cell{{Text: page.Shown(p.ID)}, {Text: page.Shown(p.ServerKind + ", " + p.Route + ", " + p.ServerInstance)}, {Text: load},
		{Text: figure(p.RPS, kindCount.format)}, {Text: figure(p.P99Ms, func(ms float64) string { return unit.FormatNsFloat(ms * 1e6) })},
		{Text: page.Shown(p.AuthorVerdict)}, {Text: page.Shown(says)}}
}

// number returns a figure, marked with the tool that reports it.
func (r *reportedFigures) number(k kind, v float64, known bool) (answer, error) {
	if !known {
		return answer{}, fmt.Errorf("%s does not report it", r.result.Tool)
	}
	a := answer{short: k.format(v), kind: k, number: v, low: v, high: v}
	a.text = a.short + " (reported by " + page.Shown(r.result.Tool) + ")"
	return a, nil
}

func (r *reportedFigures) duration(ns *int64) (answer, error) {
	if ns == nil {
		return r.number(kindNs, 0, false)
	}
	return r.number(kindNs, float64(*ns), true)
}

func (r *reportedFigures) rank(q float64) (answer, error) {
	ns, ok := r.result.Quantile(q)
	return r.number(kindNs, float64(ns), ok)
}

// Rate is complete responses per second, Answered their number, Failed those without a response.
func (r *reportedFigures) Rate() (answer, error) {
	return r.number(kindPerS, r.result.CompletedPerS, r.result.CompletedPerS > 0)
}
func (r *reportedFigures) Answered() (answer, error) {
	return r.number(kindCount, float64(r.result.Requests), true)
}
func (r *reportedFigures) Failed() (answer, error) {
	return r.number(kindCount, float64(r.result.Failed()), true)
}

// Connections is the configured number.
func (r *reportedFigures) Connections() (answer, error) {
	return r.number(kindCount, float64(r.result.Connections), r.result.Connections > 0)
}

// Mean, Min, Max and the quantiles are of the latency that the tool prints.
func (r *reportedFigures) Mean() (answer, error) { return r.duration(r.result.MeanNs) }
func (r *reportedFigures) Min() (answer, error)  { return r.duration(r.result.MinNs) }
func (r *reportedFigures) Max() (answer, error)  { return r.duration(r.result.MaxNs) }
func (r *reportedFigures) P50() (answer, error)  { return r.rank(.5) }
func (r *reportedFigures) P75() (answer, error)  { return r.rank(.75) }
func (r *reportedFigures) P90() (answer, error)  { return r.rank(.9) }
func (r *reportedFigures) P95() (answer, error)  { return r.rank(.95) }
func (r *reportedFigures) P99() (answer, error)  { return r.rank(.99) }
func (r *reportedFigures) P999() (answer, error) { return r.rank(.999) }

// Reporter is the name of the tool.
func (r *reportedFigures) Reporter() (answer, error) { return r.text(r.result.Tool) }

// Proves is what the figures prove, as ceiling judge FILE says it.
func (r *reportedFigures) Proves() (answer, error) {
	v := audit.Judge([]record.Point{r.result.Point(r.name)}).Points[0].Verdict
	return r.text(fmt.Sprintf("%s, %s: %s", v.Outcome, v.Bottleneck, prose.Sentence(v.Because)))
}

func (r *reportedFigures) text(text string) (answer, error) {
	if text == "" {
		return answer{}, errors.New("is empty in the output")
	}
	text = page.Shown(text)
	return answer{text: text, short: text, kind: kindText}, nil
}
