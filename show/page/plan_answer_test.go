//go:build linux

package page

import (
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/record/recordtest"
)

// Every kind of answer is a card: outcome, figure, bottleneck.
func TestPlanCards(t *testing.T) {
	still := sampleSweep()
	still.Sweep.Curves[0].Knee = &record.Knee{Low: 64}
	void := sampleSweep()
	for i := range void.Sweep.Curves[0].Points {
		void.Sweep.Curves[0].Points[i].Outcome = record.Invalid
	}
	above := sampleSweep()
	above.Sweep.Curves[0].Knee, above.Sweep.Curves[0].Says = &record.Knee{Low: 64}, record.State("curve.grows", record.Values{"extend": record.Statement{}})
	reached := sampleSweep()
	reached.Sweep.Curves[0].Says = record.State("curve.reached", record.Values{"per_s": 100.0})
	failed := sampleSweep()
	failed.Sweep.Curves[0].Says, failed.Sweep.Curves[0].Bottleneck = record.State("curve.errors", nil), record.Failures
	none := sampleSearch()
	none.Search.Limit, none.Search.Capacity, none.Search.Bottleneck = record.LimitNone, record.Estimate{}, record.TargetRate
	proved := samplePlan(spec.KindProve)
	proved.Proof = &record.Proof{PerS: around10(5000), Proved: "server CPU", Agrees: "agrees", Says: recordtest.Say("it is")}
	better, apart := samplePlan(spec.KindCompare), samplePlan(spec.KindCompare)
	better.Comparison = &record.Comparison{Says: recordtest.Say("faster"), Changes: []record.Change{{Metric: "rps", A: 100, B: 120, Decision: record.Better,
		Relative: record.Estimate{Mid: .2, Low: .15, High: .25}}}}
	apart.Comparison = &record.Comparison{Incomparable: recordtest.Says("other machines"),
		Says: recordtest.Say("they cannot be compared: other machines")}
	for _, c := range []struct {
		plan *record.Plan
		want []string
		mood record.Outcome
	}{
		{sampleSweep(), []string{"saturated", "80,000", "requests/s at 64 connections", "server CPU"}, record.Valid},
		{still, []string{"still rising"}, record.Valid},
		{above, []string{"still rising", "no higher load gave a valid result"}, record.Valid},
		{reached, []string{"reached", "the target rate, at every load"}, record.Valid},
		{failed, []string{"errors", "most requests failed"}, record.Fail},
		{void, []string{"no result"}, record.Invalid},
		{sampleSearch(), []string{"capacity", "70,000", "p99<5ms", "1 caveat"}, record.Pass},
		{none, []string{"no rate passes", "none (SLO missed)"}, record.Fail},
		{proved, []string{"proved", "the runs' own verdict agrees", "5,000", "server CPU"}, record.Valid},
		{better, []string{"better", "+20.0%", "+15.0% to +25.0%"}, record.Valid},
		{apart, []string{"not comparable", "other machines"}, record.Invalid},
	} {
		html, _ := planPages(t, c.plan)
		_, card, found := strings.Cut(html, `<div class="verdict `+string(c.mood)+" lead")
		card, _, _ = strings.Cut(strings.ReplaceAll(card, "&lt;", "<"), "</div>")
		for _, want := range c.want {
			if !found || !strings.Contains(strings.ReplaceAll(strings.ReplaceAll(card, "&#43;", "+"), "&#39;", "'"), want) {
				t.Errorf("no %q in a card of %s: %s", want, c.mood, card)
			}
		}
	}
}

// Every attempt of a search is drawn: those that failed and were ended early too.
func TestEveryAttemptIsDrawn(t *testing.T) {
	d, ok := RatesGraph(sampleSearch())
	if text := must(t, d); !ok || strings.Count(text, `class="early tone-1"`) != 2 || !strings.Contains(text, `data-points="2"`) {
		t.Error(text)
	}
	html, _ := planPages(t, sampleSearch())
	for _, want := range []string{"≥ 74.0 ms, ended early</td>", "≥ 74.0 ms</s>", "Search steps", "70.0k to 75.0k"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q on the page", want)
		}
	}
}

// A box of the path is the bottleneck's where it holds requests up, and nowhere else.
func TestPathNamesTheBottleneck(t *testing.T) {
	run := sampleRun(12, 2)
	for b, want := range map[record.Bottleneck]string{record.ServerCPU: "server", record.LoadGenerator: "generator", record.Concurrency: "",
		record.Bandwidth: "network to server network to client", record.AcceptQueue: "server receive queue"} {
		run.Verdict.Bottleneck = b
		var got []string
		p, ok := PathOf([]*record.Run{run.Run})
		if !ok {
			t.Fatal("there is no path")
		}
		for _, box := range p.Boxes {
			if box.Limits {
				got = append(got, box.Station)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s is at %q, want %q", b, got, want)
		}
	}
}

// Evidence links to what shows it, where the page has that.
func TestEvidenceLinks(t *testing.T) {
	run := sampleRun(12, 2)
	html := htmlOf(t, run)
	for _, want := range []string{`<a href="#processes"><code>series.process.cpu_ns</code></a>`, `<a href="#queues"><code>series.sockets.server.unread</code></a>`,
		`<a href="#figures"><code>generator.run_delay</code></a>`} {
		if !strings.Contains(html, want) {
			t.Errorf("no %s", want)
		}
	}
	run.Series.Observed.Sockets = nil
	if strings.Contains(htmlOf(t, run), `"#queues"><code>`) {
		t.Error("a link leads to a chart that is not there")
	}
}

// A card has the first command that the verdict's next step prints, to be copied, and none where it
// prints none; caveats are counted.
func TestCardsHaveTheNextCommand(t *testing.T) {
	typed := func(command string) record.Statement {
		return record.State("separate", record.Values{"command": command})
	}
	tool := record.State("stack-tool.profile", record.Values{"command": "ceiling profile h", "pprof": true})
	for name, c := range map[string]struct {
		next []record.Statement
		want string
	}{
		"at the end":   {[]record.Statement{typed("ceiling run --separate-cpus http://a/")}, "ceiling run --separate-cpus http://a/"},
		"another name": {[]record.Statement{typed("/opt/my-ceiling run -H 'A: b'")}, "/opt/my-ceiling run -H 'A: b'"},
		"words follow": {[]record.Statement{record.State("blocked.next", record.Values{"alone": true, "tool": tool})}, "ceiling profile h"},
		"several": {[]record.Statement{record.State("killed.next", nil), record.State("as-it-looks", record.Values{
			"next": []record.Statement{typed("ceiling run a"), typed("ceiling run b")}})}, "ceiling run a"},
		"of a database": {[]record.Statement{record.State("database.lock.next", record.Values{"command": "UPDATE"})}, ""},
		"none":          {nil, ""},
	} {
		run := sampleRun(2, 2)
		run.Verdict.Next, run.Verdict.Caveats = c.next, make([]record.Statement, 2)
		if v := Card(&run); v.Next != c.want || v.Caveats != "2 caveats" {
			t.Errorf("%s: %q, %q", name, v.Next, v.Caveats)
		}
	}
	lost := sampleRun(2, 2)
	lost.Unfinished, lost.Command = true, []string{"ceiling", "run", "-o", "file", "http://10.0.0.2:8080/read"}
	if v := Card(&lost); v.Next != "ceiling run http://10.0.0.2:8080/read" {
		t.Errorf("lost, to be rerun: %q", v.Next)
	}
}
