package browser

import (
	_ "embed" // axe-core
	"fmt"
	"strings"
)

// axe-core 4.14.1 (MPL-2.0, licence included) is only ever part of a test binary.
//
//go:embed testdata/axe-core/axe.min.js
var axe string

// Violations returns axe-core's findings against WCAG 2.2, levels A and AA, in the current state
// of the page: one line each, with the element. Tests expect none.
func (p *Page) Violations() []string {
	p.t.Helper()
	var loaded bool
	p.Eval(`typeof axe === "object"`, &loaded)
	if !loaded {
		p.Eval(axe, nil)
	}
	var found []struct {
		ID, Help string
		Nodes    []struct {
			HTML           string
			FailureSummary string
		}
	}
	p.Eval(`axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] })
		.then(r => r.violations.map(v => ({ id: v.id, help: v.help, nodes: v.nodes.map(n => ({ html: n.html, failureSummary: n.failureSummary })) })))`, &found)
	var list []string
	for _, v := range found {
		for _, n := range v.Nodes {
			list = append(list, fmt.Sprintf("%s: %s: %.200s: %s", v.ID, v.Help, n.HTML, strings.ReplaceAll(n.FailureSummary, "\n", " ")))
		}
	}
	return list
}
