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
