package report

import (
	"ceiling/record"
	"ceiling/verdict/prose"
)

// factorial writes the cells, every effect, and the conclusion.
func factorial(out *printer, f *record.Factorial) {
	out.table(CellTable(f))
	out.line("")
	for _, metric := range EffectMetrics(f) {
		out.table(EffectTable(f, metric))
		out.line("")
	}
	for i, s := range f.Answer {
		out.fact([]string{"answer", ""}[min(i, 1)], prose.Text(s))
	}
	out.facts("caveats", prose.Texts(f.Caveats))
}
