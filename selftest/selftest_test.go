package selftest

import (
	"strings"
	"testing"
	"time"
)

// TestPlantedCeilingsAreNamed is the short form: one scenario of each family.
// All of them: ceiling selftest.
func TestPlantedCeilingsAreNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures: not with the race detector")
	}
	g := standing(t)
	only := []string{"one-thread", "pool", "slow-for-all", "asked-rate-slow", "errors-503", "generator-dear-answers"}
	results, err := Run(t.Context(), Options{Seed: 1, Only: only, Program: programName, Patience: 5 * time.Second, Note: func(text string) { t.Log(text) }})
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
		case r.Judged == Right:
			t.Log(text.String())
		case r.Judged == NotRun && g.noCPUs != "", r.Judged == Disturbed:
			t.Log(text.String()) // told, and no proof of anything
		default:
			t.Error(text.String())
		}
	}
}
