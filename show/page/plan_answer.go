package page

import (
	"cmp"
	"fmt"
	"strings"

	"ceiling/internal/secret"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/report"
	"ceiling/verdict/prose"
)

// Answer shows the plan's result and how it ended: a card if there is a single answer, then the
// remaining statements.
func Answer(p *record.Plan) Section {
	s := Section{ID: "answer", Title: "Answer"}
	switch p.Ended {
	case record.EndedComplete, record.EndedConverged:
	case "":
		s.Blocks = append(s.Blocks, Notice{fmt.Sprintf("Interrupted after %s: the results are partial.",
			unit.Plural(len(p.Runs), "run", "runs"))})
	default:
		s.Blocks = append(s.Blocks, Notice{strings.ToUpper(p.Ended[:1]) + p.Ended[1:] + ": " + prose.Text(p.Because)})
	}
	card, says, caveats := answerOf(p).card()
	if card != nil {
		card.Lead = true
		s.Blocks = append(s.Blocks, chips(*card, len(caveats), report.NextCommand(p)))
	}
	if h := secret.Plain().Text(p.Experiment.Hypothesis); h != "" {
		s.Blocks = append(s.Blocks, Paragraph{Text: "Hypothesis: " + h})
	}
	if card == nil && len(says) == 0 {
		s.Blocks = append(s.Blocks, Paragraph{Text: "No answer yet."})
	}
	if len(says) > 0 {
		s.Blocks = append(s.Blocks, List{Items: plain(says), Mark: "next"})
	}
	s.Blocks = append(s.Blocks, Paragraph{Text: planEffort(p), Quiet: true})
	if len(caveats) > 0 {
		s.Blocks = append(s.Blocks, caveatList(caveats)...)
	}
	return s
}

// caveatsMost is how many caveats fit while the first figure stays on the first screen.
const caveatsMost = 4

// caveatList shows the first caveats, and folds the others under their count.
func caveatList(caveats []string) []Block {
	shown := List{Title: "Caveats", Items: plain(caveats), Mark: "doubt", ID: "caveats"}
	if len(caveats) <= caveatsMost+1 {
		return []Block{shown}
	}
	shown.Items = plain(caveats[:caveatsMost])
	return []Block{shown, Fold{fmt.Sprintf("%d more caveats", len(caveats)-caveatsMost), []Block{List{Items: plain(caveats[caveatsMost:]), Mark: "doubt"}}}}
}

// mood returns the colours of a card: those of a sound answer, or of none.
func mood(sound bool) record.Outcome {
	if sound {
		return record.Valid
	}
	return record.Invalid
}

// curveCard shows the highest rate of a sweep, and whether more load raises it.
func curveCard(c *record.Curve) *Verdict {
	top := c.Top()
	v := &Verdict{Outcome: "no result", Mood: record.Invalid, Gloss: "every load is invalid", Because: sentence(prose.Text(c.Says))}
	if top == nil {
		return v
	}
	v.Mood, v.Outcome, v.Gloss = record.Valid, "still rising", "a higher load may bring more"
	switch {
	case c.Says.Code == "curve.errors":
		v.Mood, v.Outcome, v.Gloss, v.Bottleneck = record.Fail, "errors", "most requests failed", string(c.Bottleneck)
		return v
	case c.Says.Code == "curve.reached":
		v.Outcome, v.Gloss = "reached", "the target rate, at every load"
	case c.Over == "" || c.Knee == nil:
		v.Outcome, v.Gloss = "measured", "no knee found"
	case c.Says.Code == "curve.undecided":
		v.Outcome, v.Gloss = "undecided", "more repeats show where throughput stops growing"
	case c.Says.Code == "curve.grows" && len(c.Knee.Add) == 0:
		v.Gloss = "no higher load gave a valid result"
	case c.Knee.High > 0:
		v.Outcome, v.Gloss = "saturated", "throughput no longer grows"
	}
	v.Figure, v.Unit, v.Spread = count(top.PerS.Mid), "requests/s", reach(&top.PerS, unit.FormatSI)
	v.Bottleneck = string(c.Bottleneck)
	if c.Over != "" {
		v.Unit += " at " + c.Over.Count(top.X)
	}
	return v
}

func searchCard(q *record.Search) *Verdict {
	v := &Verdict{Outcome: "no rate passes", Mood: record.Fail, Gloss: q.SLO, Because: sentence(prose.Text(q.Says)),
		Bottleneck: report.Limit(record.Fail, q.Bottleneck)} // at the rate that fails
	if q.Capacity.Mid > 0 && q.Limit != record.LimitNone {
		v.Outcome, v.Mood = "capacity", record.Pass
		v.Figure, v.Unit, v.Spread = count(q.Capacity.Mid), "requests/s", reach(&q.Capacity, unit.FormatSI)
	}
	return v
}

func proofCard(q *record.Proof) *Verdict {
	v := &Verdict{Outcome: "not proved", Mood: mood(q.Proved != ""), Gloss: notProved(q), Figure: count(q.PerS.Mid), Unit: "requests/s",
		Spread: reach(&q.PerS, unit.FormatSI), Bottleneck: q.Proved, Because: sentence(prose.Text(q.Says))}
	if q.Proved != "" {
		v.Outcome = "proved"
		v.Gloss = map[string]string{"agrees": "the runs' own verdict agrees", "contradicts": "the runs' own verdict contradicts it"}[q.Agrees]
		v.Gloss = cmp.Or(v.Gloss, "the runs' own verdict cannot tell")
	}
	return v
}

// notProved says in a few words what a proof found where no resource is the bottleneck.
func notProved(q *record.Proof) string {
	switch q.Says.Code {
	case "proof.waits":
		return "the server waits, whatever its speed"
	case "proof.none":
		return "no single resource limits"
	}
	return "more blocks may show it"
}

// comparisonCard shows the change of the rate, or that none could be determined.
func comparisonCard(c *record.Comparison) *Verdict {
	v := &Verdict{Outcome: "not comparable", Mood: record.Invalid, Gloss: "A and B are not comparable", Because: sentence(comparisonSays(c)[0])}
	if c.Incomparable != nil || len(c.Changes) == 0 {
		return v
	}
	rate := &c.Changes[0]
	a, b := sideNames(c)
	v.Outcome, v.Mood, v.Gloss = rate.Decision, mood(rate.Decision != record.CannotTell), b+" against "+a
	if rate.Decision == record.Worse {
		v.Mood = record.Fail
	}
	if rate.Measured() {
		v.Figure, v.Unit = unit.Change(rate.Relative.Mid), report.MetricName(rate.Metric)
		if rate.Relative.Low < rate.Relative.High {
			v.Spread = fmt.Sprintf("%s to %s", unit.Change(rate.Relative.Low), unit.Change(rate.Relative.High))
		}
	}
	return v
}

// sentence capitalises a text and adds a full stop.
func sentence(text string) string {
	if text == "" || strings.HasSuffix(text, ".") {
		return upperFirst(text)
	}
	return upperFirst(text) + "."
}

// planEffort describes the plan's runs and duration.
func planEffort(p *record.Plan) string {
	invalid := 0
	for i := range p.Runs {
		if p.Runs[i].Outcome == record.Invalid {
			invalid++
		}
	}
	text := unit.Plural(len(p.Runs), "run", "runs")
	if invalid > 0 {
		text += fmt.Sprintf(", %d of them invalid", invalid)
	}
	if p.TookS > 0 {
		text += ", " + seconds(p.TookS) + " with warm-ups and pauses"
	}
	return text + "."
}
