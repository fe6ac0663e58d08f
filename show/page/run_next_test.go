//go:build linux

package page

import (
	"testing"

	"ceiling/record"
)

// TestNextRun: a run's card goes on where its verdict names no command.
func TestNextRun(t *testing.T) {
	run := sampleRun(2, 2)
	run.Spec.SLO, run.Spec.Targets[0].Header, run.Command = nil, nil, []string{"ceiling", "run", "http://10.0.0.2:8080/read"}
	run.Verdict.Outcome, run.Verdict.Bottleneck = record.Valid, record.ServerCPU
	if got := nextRun(&run); got != "ceiling profile -c 64 http://10.0.0.2:8080/read" {
		t.Errorf("after server CPU: %q", got)
	}
	run.Unfinished = true
	if got := nextRun(&run); got != "ceiling run http://10.0.0.2:8080/read" {
		t.Errorf("of a lost run: %q", got)
	}
	run.Unfinished, run.Spec.Targets[0].Method = false, "POST"
	if got := nextRun(&run); got != "" {
		t.Errorf("of a POST: %q", got)
	}
}
