package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ceiling/check/selftest"
	"ceiling/verdict/prose"
)

// trialSchema is the version of Trial.
const trialSchema = "ceiling.trial/1"

// Trial is one scenario of the selftest and its answer: one line of the ledger of trials, written when it
// ends, so a series can be interrupted. Units as in Entry.
type Trial struct {
	Schema string    `json:"schema"`
	Time   time.Time `json:"time"`
	Commit string    `json:"commit"`
	Dirty  bool      `json:"dirty"`
	Host   Host      `json:"host"`
	TookS  float64   `json:"took_s"`

	// Plant is not in lines of comparisons until November 2026; their scenarios are plants now.
	Plant *PlantTrial `json:"plant,omitempty"`
}

// PlantTrial is one scenario in one round: seed and round determine the parameters.
type PlantTrial struct {
	selftest.Outcome
	Real      bool                   `json:"real"` // in third-party software
	Seed      uint64                 `json:"seed"`
	Because   string                 `json:"because,omitempty"` // the verdict's reason
	Confirmed *selftest.Confirmation `json:"confirmed_per_s,omitempty"`
}

// accuracy plays scenarios of the selftest until the ledger of trials has the requested rounds of each,
// those with the fewest first.
func (b *bench) accuracy(ctx context.Context, e *Entry) {
	made, err := b.lastRounds()
	if err != nil {
		b.failed(ctx, onlyAccuracy, err)
		return
	}
	for round := 1; round <= b.rounds; round++ {
		for _, s := range selftest.All() {
			asked := len(b.scenarios) == 0 || slices.Contains(b.scenarios, s.Name)
			if asked && made[s.Name] < round && ctx.Err() == nil {
				b.failed(ctx, s.Name, b.plantOnce(ctx, e, s.Name, round))
			}
		}
	}
}

// lastRounds reads the number of each scenario's last trial with this seed; a missing ledger has none.
func (b *bench) lastRounds() (map[string]int, error) {
	text, err := os.ReadFile(b.trials)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	last := map[string]int{}
	for line := range bytes.Lines(text) {
		var t Trial
		if err := json.Unmarshal(line, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", b.trials, err)
		}
		if p := t.Plant; p != nil && p.Seed == b.seed {
			last[p.Scenario] = max(last[p.Scenario], p.Round)
		}
	}
	return last, nil
}

// plantOnce plays one scenario and records its result.
func (b *bench) plantOnce(ctx context.Context, e *Entry, name string, round int) error {
	dir, err := os.MkdirTemp("", "ceiling-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	results, err := selftest.Run(ctx, selftest.Options{
		Seed: b.seed, First: round, Only: []string{name}, Program: b.binary, Version: e.Commit, Keep: filepath.Join(dir, "records"),
		Note: func(text string) { b.progress("%s", text) },
	})
	if err != nil || ctx.Err() != nil {
		return err
	}
	r := &results[0]
	p := PlantTrial{
		Outcome: r.Outcome, Real: slices.ContainsFunc(selftest.RealScenarios(), func(s selftest.Scenario) bool { return s.Name == name }),
		Seed: b.seed, Confirmed: r.Confirmed,
	}
	if r.Verdict != nil {
		p.Because = prose.Sentence(r.Verdict.Because)
	}
	b.progress("%s, round %d: %s, named %s", p.Scenario, p.Round, p.Judged, p.Named)
	return appendLine(b.trials, &Trial{
		Schema: trialSchema, Time: time.Now().UTC().Truncate(time.Second), Commit: e.Commit, Dirty: e.Dirty, Host: b.host,
		TookS: r.Took.Seconds(), Plant: &p,
	})
}
