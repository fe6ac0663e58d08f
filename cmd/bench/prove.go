package main

import (
	"context"
	"fmt"
	"io"

	"ceiling/check/selftest"
)

// proofs runs proofs of the bottlenecks that selftest plants.
func (b *bench) proofs(ctx context.Context, e *Entry) {
	results, err := selftest.Proofs(ctx, selftest.ProofOptions{
		Seed: b.seed, Program: b.binary, Version: e.Commit,
		Told: func(r selftest.ProofResult) { b.progress("proof of %s: %s", r.Name, r.Judged) },
	})
	b.failed(ctx, "proofs", err)
	e.Proofs = results
	wrong := 0
	for _, r := range results {
		if r.Judged != selftest.Right {
			wrong++
		}
	}
	if len(results) > 0 {
		e.Targets = append(e.Targets, target(fmt.Sprintf("planted ceilings of %d that were not proved", len(results)), float64(wrong), 0, ""))
	}
}

func printProofs(w io.Writer, e *Entry) {
	if len(e.Proofs) == 0 {
		return
	}
	head(w, "Proofs: planted ceilings", "planted", "judged", "proved", "its elasticity", "sum over rates", "others' cores", "why")
	for _, r := range e.Proofs {
		proved, elasticity, sum := "-", "-", "-"
		if p := r.Proof; p != nil {
			sum = fmt.Sprintf("%.2f (%.2f–%.2f)", p.Sum.Mid, p.Sum.Low, p.Sum.High)
			for _, x := range p.Resources {
				if x.Resource == r.Proved {
					elasticity = fmt.Sprintf("%.2f (%.2f–%.2f)", x.Elasticity.Mid, x.Elasticity.Low, x.Elasticity.High)
				}
			}
			proved = p.Proved
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.1f\t%s\t\n", r.Name, r.Judged, proved, elasticity, sum, r.Others, r.Why)
	}
}
