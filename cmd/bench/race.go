package main

import (
	"context"
	"time"

	"ceiling/check/race"
)

// raced runs the proxy race against nginx and others, as `ceiling race` does, with this run's
// rounds and seed. The ledger stores the hashes of the configurations; proxy/README.md has their
// texts.
func (b *bench) raced(ctx context.Context, e *Entry) {
	result, err := race.Run(ctx, race.Config{
		Rounds: b.rounds, Duration: 500 * time.Millisecond, Workers: 1, Connections: 60, PerS: 10_000, Seed: b.seed,
		Program: b.binary, Version: b.tools[0].Version, Progress: func(text string) { b.progress("race: %s", text) },
	})
	if err != nil {
		b.failed(ctx, "race", err)
		return
	}
	for i := range result.Cases {
		for k := range result.Cases[i].Rows {
			row := &result.Cases[i].Rows[k]
			row.Configuration, row.Forwards = race.Configuration{}, ""
		}
	}
	e.Race = result
	for _, v := range result.Verdicts {
		e.Targets = append(e.Targets, target("race: "+v.Figure, v.Value, v.Limit, v.Unit))
	}
}
