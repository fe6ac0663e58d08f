package page

import (
	"errors"
	"fmt"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
)

// Runs is the page of one run, or of a comparison of several.
func Runs(runs []chart.Run) (Document, error) {
	switch {
	case len(runs) == 0:
		return Document{}, errors.New("make page: no run")
	case len(runs) > RunsMost:
		return Document{}, fmt.Errorf("make page: %d runs; one page shows at most %d", len(runs), RunsMost)
	}
	runs = labelled(runs)
	d := Document{Title: title(runs), Subtitle: subtitle(runs), Lead: lead(runs), Footer: footer(runs)}
	var rest []Section
	if len(runs) > 1 {
		rest = append(rest, differences(runs))
	}
	rest = append(rest, stations(runs), Headline(runs), latency(runs), overTime(runs))
	for i := range runs {
		rest = append(rest, details(&runs[i], chart.MostEach(len(runs)))...)
	}
	for _, s := range rest {
		for i, b := range s.Blocks {
			if p, is := b.(Path); is {
				s.Blocks[i] = p.On("", rest)
			}
		}
	}
	anchors := anchorsOf(rest)
	d.add(verdicts(runs, anchors), rest[0])
	if len(runs) == 1 {
		d.add(Reasons(&runs[0], anchors))
	}
	d.add(append(rest[1:], Missing(runs))...)
	return d, nil
}

// details shows what cannot be overlaid: several sections for a single run, or one per run.
func details(run *chart.Run, most int) []Section {
	list := []Section{agentsSection(run), profilesSection(run), coresSection(run), processesSection(run), linkSection(run, most),
		errorsSection(run, most),
		environmentSection(run)}
	if run.Label == "" {
		return list
	}
	one := of(run, "run", "Run "+run.Label)
	one.Blocks = []Block{Paragraph{Text: redact(run.Target)}}
	for _, s := range list {
		if len(s.Blocks) == 0 {
			continue
		}
		one.Blocks = append(one.Blocks, Fold{s.Title, s.Blocks})
	}
	return []Section{one}
}

// labelled labels each of several runs with a letter and the end of its ID.
func labelled(runs []chart.Run) []chart.Run {
	list := append([]chart.Run(nil), runs...)
	for i := range list {
		list[i].Label = ""
		if len(list) > 1 {
			id := list[i].ID
			list[i].Label = string(rune('A'+i)) + " " + clip(id[strings.LastIndexByte(id, '-')+1:], 16)
		}
	}
	return list
}

// clip shortens a text to n characters.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

func title(runs []chart.Run) string {
	if len(runs) > 1 {
		return fmt.Sprintf("%d runs · ceiling", len(runs))
	}
	outcome := runs[0].Verdict.Outcome
	if runs[0].Unfinished {
		outcome = record.Lost
	}
	return fmt.Sprintf("%s · %s · ceiling", clip(redact(runs[0].Target), 80), outcome)
}

func subtitle(runs []chart.Run) string {
	if len(runs) > 1 {
		return fmt.Sprintf("%d runs compared", len(runs))
	}
	r := &runs[0]
	target := clip(redact(r.Target), 200)
	if n := len(r.Spec.Targets); n > 1 {
		target += fmt.Sprintf(" and %d more", n-1)
	}
	return target
}

// lead describes how and when a single run was made.
func lead(runs []chart.Run) string {
	if len(runs) > 1 {
		return ""
	}
	return report.LoadLine(runs[0].Run) + " · " + runs[0].Started.UTC().Format("2 January 2006, 15:04 UTC")
}

func footer(runs []chart.Run) string {
	r := runs[0].Run
	text := fmt.Sprintf("Run %s, %s.", r.ID, r.Started.UTC().Format("2 January 2006, 15:04:05 UTC"))
	if len(runs) > 1 {
		text = "Runs "
		for i := range runs {
			text += fmt.Sprintf("%s: %s; ", runs[i].Label, runs[i].ID)
		}
		text = strings.TrimSuffix(text, "; ") + "."
	}
	return text + fmt.Sprintf(" Measured by ceiling %s. Everything on this page is from the records (%s); it loads nothing.",
		r.Environment.Version, record.Schema)
}

// of returns a section about one run, with a unique anchor if there are several.
func of(run *chart.Run, id, title string) Section {
	if run.Label != "" {
		id += "-" + strings.ToLower(run.Label[:1])
	}
	return Section{ID: id, Title: title}
}

// why returns the record's reason for missing data.
func why(run *chart.Run, what string) string {
	for _, n := range run.NotMeasured {
		if n.What == what || strings.HasPrefix(n.What, what+":") {
			return n.Why
		}
	}
	return ""
}

// notMeasured returns a paragraph in place of a figure.
func notMeasured(run *chart.Run, subject, what string) Paragraph {
	text := subject + ": not measured"
	if reason := why(run, what); reason != "" {
		text += ", because " + reason
	}
	return Paragraph{Text: text + "."}
}

func seconds(s float64) string { return unit.FormatNs(int64(min(s, 1e9) * 1e9)) }
