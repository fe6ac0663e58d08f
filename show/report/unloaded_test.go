package report

import (
	"strings"
	"testing"

	"ceiling/record"
	"ceiling/show/layout"
)

// TestLoneLine: what unloaded requests took, and how many are served at a time
// where they tell.
func TestLoneLine(t *testing.T) {
	run := &record.Run{Unloaded: record.LoneOf([]int64{30e6, 10e6, 10e6, 11e6, 10e6, 12e6, 10e6, 10e6, 10e6}, 4)}
	run.Unloaded.Sent = 9
	const took = "9 requests one at a time before the load, over 4 connections: p50 10.0 ms, 10.0 ms–12.0 ms without the first 4"
	check := func(want string) {
		t.Helper()
		var text strings.Builder
		if err := Text(&text, run, Layout{Output: layout.Output{Columns: 1000}, Verbose: true}); err != nil {
			t.Fatal(err)
		}
		if got := unloadedLine(run); got != want || !strings.Contains(text.String(), "unloaded        "+want+"\n") {
			t.Errorf("%q, want %q, in\n%s", got, want, text.String())
		}
	}
	check(took)
	run.Verdict.Concurrency = &record.ServedAtOnce{Requests: 4.836, Low: 4.743, High: 4.927, Of: 64, LoneNs: 10.3e6, Means: record.InTurn}
	check(took + " · effective concurrency 4.84 of 64 (95% CI 4.74–4.93)")
	run.Unloaded = nil
	if got := unloadedLine(run); got != "" {
		t.Errorf("without unloaded requests: %q", got)
	}
}

// TestCaution: what voids the figures is above the bottleneck; the first byte has a row where it is
// another time than the response.
func TestCaution(t *testing.T) {
	run := wordyRun()
	redirects := record.State("caveat.redirects", record.Values{"all": true, "status": 302, "to": "/x"})
	run.Verdict.Caveats = append(run.Verdict.Caveats, redirects)
	text := func() string {
		return written(t, func(b *strings.Builder) error {
			return Text(b, run, Layout{Output: layout.Output{Columns: 80, Screen: true}})
		})
	}
	got := text()
	caution, bottleneck := strings.Index(got, "caution "), strings.Index(got, "bottleneck ")
	if caution < 0 || caution > bottleneck || !strings.Contains(got, "this measures the") {
		t.Errorf("%d, %d\n%s", caution, bottleneck, got)
	}
	same := run.Latency.Response
	run.Latency.FirstByte = &same
	if strings.Contains(text(), "first byte") {
		t.Error("the first byte as late as the response")
	}
	run.Latency.FirstByte = &record.Quantiles{Count: 9, P50Ns: same.P50Ns / 2, P90Ns: same.P90Ns, P99Ns: same.P99Ns, MeanNs: 1e6}
	run.Latency.Waiting = &record.Waiting{FirstByte: &record.Waited{Count: 1, MeanNs: 2e9, OldestNs: 2e9, TimedOut: 1}}
	if _, after, found := strings.Cut(text(), "first byte "); !found || strings.Count(strings.SplitN(after, "\n", 2)[0], "≥ ") != 1 {
		t.Errorf("the first byte, of whose mean those that timed out are a part: %s", text())
	}
}
