package selftest

import (
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// TestPlantedCeilingsAreNamed is the short form: one scenario of each family.
// All of them: ceiling selftest.
func TestPlantedCeilingsAreNamed(t *testing.T) {
	areNamed(t, Options{Seed: 1, Only: []string{"one-thread", "pool", "slow-for-all", "asked-rate-slow", "errors-503",
		"generator-dear-answers", "quorum-link"}})
}

// areNamed plays the scenarios of o, each of which has to be named right. What
// this host cannot show, or was disturbed in, is told, and no proof of anything.
func areNamed(t *testing.T, o Options) {
	t.Helper()
	needs.Quiet(t)
	g := standing(t)
	o.Program, o.Patience, o.Note = programName, 5*time.Second, func(text string) { t.Log(text) }
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(o.Only) {
		t.Fatalf("%d results of %d", len(results), len(o.Only))
	}
	for i := range results {
		r := &results[i]
		var text strings.Builder
		if err := WriteRow(&text, *r); err != nil {
			t.Fatal(err)
		}
		lacking := len(g.lack) > 0 || strings.HasPrefix(r.Why, "not installed")
		if r.Judged == Right || r.Judged == NotRun && lacking || r.Judged == Disturbed || r.Judged == Unconfirmed && r.Others > othersMax {
			t.Log(text.String())
		} else {
			t.Error(text.String())
		}
	}
}

// TestServersBehindAreToldApart: the CPU of a server that the subject asks, its disk,
// and a pool of connections to one that has both to spare are three answers.
func TestServersBehindAreToldApart(t *testing.T) {
	areNamed(t, Options{Seed: 3, Only: []string{"downstream-busy", "downstream-sync", "downstream-pool"}})
}

// TestDisksAreNamed: with stacks and without, of the subject and of a server that it asks.
func TestDisksAreNamed(t *testing.T) {
	areNamed(t, Options{Seed: 2, Only: []string{"flush", "downstream-flush"}})
}

// TestDatabasesAreNamed: a pool before a database, whose size another client doubles, and a service that its callers keep
// down. All of them: ceiling selftest.
func TestDatabasesAreNamed(t *testing.T) {
	areNamed(t, Options{Seed: 1, Only: []string{"database-pool", "metastable"}})
}
