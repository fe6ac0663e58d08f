package selftest

import (
	"strings"
	"testing"
	"time"
)

// TestServersBehindAreToldApart: the CPU of a server that the subject asks, its disk,
// and a pool of connections to one that has both to spare are three answers.
func TestServersBehindAreToldApart(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures: not with the race detector")
	}
	g := standing(t)
	only := []string{"downstream-busy", "downstream-sync", "downstream-pool"}
	results, err := Run(t.Context(), Options{Seed: 3, Only: only, Program: programName, Patience: 5 * time.Second, Note: func(text string) { t.Log(text) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(only) {
		t.Fatalf("%d results of %d", len(results), len(only))
	}
	for i := range results {
		r := &results[i]
		var text strings.Builder
		if err := WriteRow(&text, *r); err != nil {
			t.Fatal(err)
		}
		switch {
		case r.Judged == Right, r.Judged == NotRun && (g.noCPUs != "" || inMemory(t.TempDir())), r.Judged == Disturbed:
			t.Log(text.String())
		default:
			t.Error(text.String())
		}
	}
}
