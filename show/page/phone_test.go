//go:build linux

package page

import (
	"fmt"
	"os"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/internal/browser"
	"ceiling/record"
	"ceiling/record/recordtest"
)

func sampleProof() *record.Plan {
	p := samplePlan(spec.KindProve)
	p.Proof = &record.Proof{PerS: around10(24e3), Sum: record.Estimate{Mid: 1.9, Low: .6, High: 4.7, Confidence: .95}, Passive: "server CPU",
		Agrees: "inconclusive", Says: recordtest.Say("no single resource is the bottleneck"),
		NotTested: []record.NotTested{{Resource: "link", Why: recordtest.Say("pass --interface IFACE to throttle it")}}}
	for i, resource := range []string{"generator", "server CPU", "concurrency"} {
		p.Runs = append(p.Runs, measuredRun(i, 24e3, 5e6, .4))
		p.Proof.Resources = append(p.Proof.Resources, record.Elasticity{Resource: resource, How: "a CPU hog with real-time priority took 25.3% of CPU 0",
			Left: .74, PerS: around10(20e3), Elasticity: record.Estimate{Mid: 2.44, Low: -1, High: 5.03, Confidence: .95}, Blocks: 8})
	}
	return p
}

func sampleComparison() *record.Plan {
	p := samplePlan(spec.KindCompare)
	p.Comparison = &record.Comparison{A: "http://10.0.0.2:8080", B: "http://10.0.0.3:8080", Blocks: 12, NoiseBlocks: 4,
		Says: recordtest.Say("B is better than A: requests per second 44% higher (30% to 60%)"),
		Differences: []record.Difference{{What: "server url", A: "http://10.0.0.2:8080", B: "http://10.0.0.3:8080", Weight: "explains",
			Why: recordtest.Say("another server may answer at another rate")}}}
	for i, metric := range []string{"rps", "p50", "p99", "server_cpu"} {
		p.Runs = append(p.Runs, measuredRun(i, 29e3, 9e6, .4))
		p.Comparison.Changes = append(p.Comparison.Changes, record.Change{Metric: metric, Unit: "ns", A: 1.7e6, B: 1.2e6,
			Relative: record.Estimate{Mid: -.3, Low: -.96, High: .98, Confidence: .95}, Floor: .034, Decision: record.Better,
			PerBlock: []float64{-.3, -.2}, Says: recordtest.Say("better")})
	}
	return p
}

// Every kind of page can be read on a phone, down to the last figure, without scrolling
// sideways: a table that is too wide is a card for each row, with the heads as labels.
func testPhone(t *testing.T, p *browser.Page) {
	urls := map[string]string{"run": fileOf(t, sampleRun(12, 2)), "overlaid": fileOf(t, sampleRun(12, 2), sampleRun(8, 1), sampleRun(8, 2)),
		"fleet": fileOf(t, sampleFleet()), "sweep": planFile(t, sampleSweep()), "search": planFile(t, sampleSearch()),
		"proof": planFile(t, sampleProof()), "comparison": planFile(t, sampleComparison()),
		"factorial": planFile(t, filledPlan("a text of some words", spec.KindFactorial))}
	clipped, err := os.ReadFile("../../internal/browser/testdata/clipped.js")
	if err != nil {
		t.Fatal(err)
	}
	cards := 0
	for name, url := range urls {
		for _, width := range []int{390, 360} {
			p.SetMedia("", width == 360)
			p.SetViewport(width, 844, 2, true)
			p.Open(url)
			p.Eval(`document.querySelectorAll("details").forEach(d => d.open = true)`, nil)
			var wide int
			if p.Eval(`document.documentElement.scrollWidth`, &wide); wide > width {
				t.Errorf("%s: at %d pixels the page is %d wide", name, width, wide)
			}
			var texts []string
			p.Eval(string(clipped), &texts)
			for i, text := range texts {
				if i < 5 {
					t.Errorf("%s: at %d pixels this is cut off: %s", name, width, text)
				}
			}
		}
		for _, v := range p.Violations() {
			t.Errorf("%s: %s", name, v)
		}
		var bare []string
		p.Eval(`[...document.querySelectorAll(".cards td")].filter(e => e.offsetHeight && getComputedStyle(e, "::before").content === "none").map(e => e.textContent)`,
			&bare)
		if len(bare) > 0 {
			t.Errorf("%s: cells without a label in their card: %q", name, bare)
		}
		var n int
		p.Eval(`document.querySelectorAll(".cards").length`, &n)
		cards += n
	}
	if cards == 0 {
		t.Error("no table is cards")
	}
	quiet(t, p)
}

// A table that fits stays one; one that does not is cards, with short values side by
// side.
func TestCards(t *testing.T) {
	columns := []Column{{Name: "connections", Figure: true}, {Name: "req/s", Figure: true}, {Name: "bottleneck"}}
	row := func(more ...string) []Cell {
		list := []Cell{{Text: "64"}, {Text: "30,659"}, {Text: "server CPU"}}
		for _, text := range more {
			list = append(list, Cell{Text: text})
		}
		return list
	}
	slim := Table{Columns: columns, Rows: [][]Cell{row()}}
	if slim.Cards() || slim.Labelled()[1].Classes(Cell{Text: "30,659"}) != "figure" || slim.Labelled()[1].Label != "" {
		t.Errorf("a table of %d columns that fits is cards: %+v", len(columns), slim.Labelled())
	}
	wide := Table{Columns: append(columns, Column{Name: "change, with its interval", Figure: true}, Column{Name: "why"}),
		Rows: [][]Cell{row("+44.4% (+30.5 … +59.6%)", "another server may answer at another rate")}}
	var classes []string
	for i, c := range wide.Labelled() {
		classes = append(classes, c.Label+": "+c.Classes(wide.Rows[0][i]))
	}
	want := "[connections: figure req/s: figure bottleneck:  change, with its interval: figure line why: line]"
	if got := fmt.Sprint(classes); !wide.Cards() || got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
