package pipeline

import (
	"strings"
	"testing"

	"ceiling/experiment/plan"
	"ceiling/record"
)

// hostile is an outcome whose names are those of a change that nobody has looked at.
func hostile() *Outcome {
	says := record.State("ci.unchecked", record.Values{"why": "<script>alert(1)</script> | @team [x](y) `a` *b*"})
	return &Outcome{Base: "1 (HEAD^)", Change: "2 (HEAD)", Machine: "2 CPUs", Loads: []plan.Checked{
		{Name: "/a|b_c", Result: plan.GateFailed, Checks: []plan.Check{{Condition: "rps<-5%", Result: plan.GateFailed, Says: says},
			{Condition: "p99<5ms", Result: plan.GateInconclusive}}},
		{Name: "/ok", Result: plan.GatePassed, Checks: []plan.Check{{Condition: "cpu>+5%", Result: plan.GatePassed}}},
	}}
}

// TestMarkdownIsPlain: what a change brings along is text, and mentions nobody.
func TestMarkdownIsPlain(t *testing.T) {
	var b strings.Builder
	if err := Markdown(&b, hostile()); err != nil {
		t.Fatal(err)
	}
	for _, not := range []string{"<script", "@team", " [x](", " `a`", " *b*", "/a|b"} {
		if strings.Contains(b.String(), not) {
			t.Errorf("it has %q:\n%s", not, b.String())
		}
	}
	if want := "### ceiling: failed: /a\\|b\\_c: rps&lt;-5%\n"; !strings.HasPrefix(b.String(), want) {
		t.Errorf("%s\nwant %s", b.String(), want)
	}
}
