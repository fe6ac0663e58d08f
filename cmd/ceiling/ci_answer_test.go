package main

import (
	"strings"
	"testing"

	"ceiling/experiment/plan"
	"ceiling/record"
)

// hostileChange is an answer whose names are those of a change that nobody has looked at.
func hostileChange() *ciAnswer {
	says := record.State("ci.unchecked", record.Values{"why": "<script>alert(1)</script> | @team [x](y) `a` *b*"})
	return &ciAnswer{base: "1 (HEAD^)", change: "2 (HEAD)", machine: "2 CPUs", loads: []plan.Checked{
		{Name: "/a|b_c", Result: plan.GateFailed, Checks: []plan.Check{{Condition: "rps<-5%", Result: plan.GateFailed, Says: says},
			{Condition: "p99<5ms", Result: plan.GateInconclusive}}},
		{Name: "/ok", Result: plan.GatePassed, Checks: []plan.Check{{Condition: "cpu>+5%", Result: plan.GatePassed}}},
	}}
}

// TestCIAnswerIsPlain: what a change brings along is text, and mentions nobody.
func TestCIAnswerIsPlain(t *testing.T) {
	var b strings.Builder
	if err := hostileChange().write(&b); err != nil {
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
