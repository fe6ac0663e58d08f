package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"ceiling/check/selftest"
	"ceiling/verdict/prose"
)

// trials is a series that continues where the ledger of trials ends.
type trials struct {
	path string
	list []Trial
	// end is the time after which no trial starts; zero: never.
	end    time.Time
	commit string
	dirty  bool
}

// openTrials reads the ledger.
func (b *bench) openTrials(e *Entry) (*trials, error) {
	list, err := readTrials(b.trials)
	t := &trials{path: b.trials, list: list, commit: e.Commit, dirty: e.Dirty}
	if b.budget > 0 {
		t.end = time.Now().Add(b.budget)
	}
	return t, err
}

// room reports whether there is time for a trial of this duration.
func (t *trials) room(takes time.Duration) bool {
	return t.end.IsZero() || time.Until(t.end) > takes
}

// add writes one trial.
func (t *trials) add(b *bench, trial Trial, took time.Duration) error {
	trial.Schema, trial.Time = trialSchema, time.Now().UTC().Truncate(time.Second)
	trial.Commit, trial.Dirty, trial.Host, trial.TookS = t.commit, t.dirty, b.host, took.Seconds()
	t.list = append(t.list, trial)
	return appendLine(t.path, &trial)
}

// longest returns the longest duration of a kind of trial; 0 if there is none.
func (t *trials) longest(is func(*Trial) bool) time.Duration {
	var most float64
	for i := range t.list {
		if is(&t.list[i]) {
			most = max(most, t.list[i].TookS)
		}
	}
	return time.Duration(most * float64(time.Second))
}

// plantKind is a scenario, of one of the two kinds.
type plantKind struct {
	selftest.Scenario
	real bool
}

func plantKinds() []plantKind {
	var all []plantKind
	for _, s := range selftest.Scenarios() {
		all = append(all, plantKind{s, false})
	}
	for _, s := range selftest.RealScenarios() {
		all = append(all, plantKind{s, true})
	}
	return all
}

// round returns the number of a scenario's last trial; 0 if there is none.
func (t *trials) round(k *plantKind, seed uint64) int {
	last := 0
	for i := range t.list {
		if p := t.list[i].Plant; p != nil && p.Scenario == k.Name && p.Seed == seed {
			last = max(last, p.Round)
		}
	}
	return last
}

// plantTime is the assumed duration of a plant never tried: a JVM starts, warms up, and is
// confirmed.
const plantTime = 30 * time.Second

// accuracy runs every planted bottleneck until each has the requested rounds, those with the
// fewest first.
func (b *bench) accuracy(ctx context.Context, e *Entry) {
	t, err := b.openTrials(e)
	if err != nil {
		b.failed(ctx, onlyAccuracy, err)
		return
	}
	kinds := plantKinds()
	for round := 1; round <= b.rounds && ctx.Err() == nil; round++ {
		for i := range kinds {
			k := &kinds[i]
			if t.round(k, b.seed) >= round || ctx.Err() != nil {
				continue
			}
			takes := t.longest(func(t *Trial) bool { return t.Plant != nil && t.Plant.Scenario == k.Name })
			if takes == 0 {
				takes = plantTime
			}
			if !t.room(takes) {
				continue // a shorter one may fit
			}
			b.failed(ctx, k.Name, b.plantOnce(ctx, t, k, round))
		}
	}
}

// plantOnce runs one scenario and records its result.
func (b *bench) plantOnce(ctx context.Context, t *trials, k *plantKind, round int) error {
	dir, err := os.MkdirTemp("", "ceiling-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	begin := time.Now()
	results, err := selftest.Run(ctx, selftest.Options{
		Seed: b.seed, First: round, Only: []string{k.Name}, Real: k.real, Program: b.binary, Version: t.commit,
		Keep: filepath.Join(dir, "records"),
		Note: func(text string) { b.progress("%s", text) },
	})
	if err != nil || ctx.Err() != nil {
		return err
	}
	for i := range results {
		r := &results[i]
		p := PlantTrial{
			Scenario: r.Scenario, Real: k.real, Seed: b.seed, Round: r.Round, Planted: r.Planted, Parameters: r.Parameters, Accepted: r.Accepted,
			Named: r.Named, Judged: r.Judged, Why: r.Why, Blamed: r.Blamed, Others: r.Others, Confirmed: r.Confirmed,
		}
		if r.Verdict != nil {
			p.Because = prose.Sentence(r.Verdict.Because)
		}
		b.progress("%s, round %d: %s, named %s", p.Scenario, p.Round, p.Judged, p.Named)
		if err := t.add(b, Trial{Plant: &p}, time.Since(begin)); err != nil {
			return err
		}
	}
	return nil
}
