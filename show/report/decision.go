package report

import (
	"io"

	"ceiling/record"
	judge "ceiling/verdict"
	"ceiling/verdict/prose"
)

// Decision writes every question that leads to a verdict with its answer, and the resulting
// verdict. An arrow marks the decisive answer.
func Decision(w io.Writer, d *judge.Decision, v *record.Verdict, l Layout) error {
	p := &printer{w: w, Layout: l}
	p.line("Is the run valid? The first yes makes it invalid.")
	steps(p, d.Validity)
	p.line("")
	p.line("What limits it? The first yes is the bottleneck.")
	steps(p, d.Bottleneck)
	p.line("")
	p.fact("verdict", string(v.Outcome)+", "+string(v.Bottleneck))
	p.fact("", prose.Sentence(v.Because))
	return p.err
}

func steps(p *printer, list []judge.Step) {
	widest := 0
	for _, s := range list {
		widest = max(widest, len(s.Asks))
	}
	for _, s := range list {
		mark := " "
		if s.Decides {
			mark = "→"
		}
		p.line("%s %-*s  %s", mark, widest, s.Asks, s.Answer)
		if s.Why != nil {
			p.text(6, prose.Sentence(s.Why))
		}
	}
}
