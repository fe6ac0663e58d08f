package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/check/selftest"
	"ceiling/record"
)

func TestTrialsAreKept(t *testing.T) {
	b := &bench{options: options{seed: 1, trials: filepath.Join(t.TempDir(), "journal", "accuracy.ndjson")}}
	if made, err := b.lastRounds(); err != nil || len(made) > 0 {
		t.Errorf("a ledger that is not there: %v, %v", made, err)
	}
	want := Trial{
		Schema: trialSchema, Commit: strings.Repeat("ab", 20), Host: Host{"6.18.0", "A CPU", 2, "go1.26"}, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Plant: &PlantTrial{Outcome: selftest.Outcome{Scenario: "node-pool", Round: 2, Planted: "x", Accepted: []string{string(record.ServerBlocked)},
			Judged: selftest.Wrong}, Real: true, Seed: 1, Confirmed: &selftest.Confirmation{What: "twice the pool", Planted: 100, More: 250}},
	}
	if err := errors.Join(appendLine(b.trials, &want), appendLine(b.trials, &Trial{})); err != nil {
		t.Fatal(err)
	}
	if made, err := b.lastRounds(); err != nil || made["node-pool"] != 2 {
		t.Errorf("%v, %v", made, err)
	}
	b.seed = 2
	if made, err := b.lastRounds(); err != nil || made["node-pool"] != 0 {
		t.Errorf("%v, %v", made, err)
	}
}

// Every line of the ledger has the fields of a trial, and no others: those of comparisons have a pair.
func TestTrialsOfTheLedger(t *testing.T) {
	text, err := os.ReadFile("../../docs/journal/accuracy.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range bytes.Lines(text) {
		var got struct {
			Trial
			Pair json.RawMessage `json:"pair"`
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&got); err != nil || got.Schema != trialSchema || (got.Plant == nil) == (got.Pair == nil) {
			t.Errorf("%.80s: %v", line, err)
		}
		lines++
	}
	if lines < 233 {
		t.Errorf("%d lines", lines)
	}
}
