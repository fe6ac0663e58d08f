package selftest

import (
	"os"
	"strings"
	"testing"

	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// TestPlantedCeilingsAreProved takes minutes: it runs where it is asked for.
//
//	CEILING_PROOFS=all go test ./selftest -run CeilingsAreProved -v -timeout 20m
//	CEILING_PROOFS=generator,slots go test …
//
// On a machine that others use, chrt -r 1 before it makes both sides real-time
// threads, below the hog's priority. CEILING_PROOFS_KEEP is a directory for
// the records.
func TestPlantedCeilingsAreProved(t *testing.T) {
	only := needs.Asking(t, "CEILING_PROOFS")
	standing(t)
	o := ProofOptions{Program: programName, Keep: os.Getenv("CEILING_PROOFS_KEEP"), Told: func(r ProofResult) { logProof(t, &r) }}
	if only != "all" {
		o.Only = strings.Split(only, ",")
	}
	if _, err := Proofs(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func logProof(t *testing.T, r *ProofResult) {
	t.Logf("%s (%s): %s %s; others used %.2f cores, %s", r.Name, r.Planted, r.Judged, r.Why, r.Others, r.Took)
	if p := r.Proof; p != nil {
		for _, e := range p.Resources {
			t.Logf("  %-10s left %.3f, %8.0f of %8.0f/s, elasticity %.3f (%.3f to %.3f)", e.Resource, e.Left, e.PerS.Mid, p.PerS.Mid,
				e.Elasticity.Mid, e.Elasticity.Low, e.Elasticity.High)
		}
		t.Logf("  sum %.3f (%.3f to %.3f); untouched runs: %s, %s", p.Sum.Mid, p.Sum.Low, p.Sum.High, p.Passive, p.Agrees)
		t.Logf("  %s\n  doubts %q, not tested %v", prose.Text(p.Says), prose.Texts(p.Caveats), p.NotTested)
	}
	if r.Judged == Wrong || r.Judged == Failed {
		t.Errorf("%s is %s: %s", r.Name, r.Judged, r.Why)
	}
}

func TestProofsAreJudged(t *testing.T) {
	rate, wait := plantedProof{proved: record.PerturbServer}, plantedProof{}
	for _, c := range []struct {
		p     *plantedProof
		proof record.Proof
		want  string
	}{
		{&rate, record.Proof{Proved: record.PerturbServer, Sum: record.Estimate{Mid: 1.1}, Agrees: "inconclusive"}, Right},
		{&rate, record.Proof{Proved: record.PerturbServer, Sum: record.Estimate{Mid: 1.3}, Agrees: agreed}, Wrong},
		{&rate, record.Proof{Proved: record.PerturbServer, Sum: record.Estimate{Mid: 1}, Agrees: contradicted}, Wrong},
		{&rate, record.Proof{Proved: "", Sum: record.Estimate{Mid: 1}, Agrees: agreed}, Wrong},
		{&wait, record.Proof{Sum: record.Estimate{Mid: 0.1}, Agrees: agreed}, Right},
		{&wait, record.Proof{Sum: record.Estimate{Mid: 0.1}, Agrees: "inconclusive"}, Wrong},
		{&wait, record.Proof{Sum: record.Estimate{Mid: 0.5}, Agrees: agreed}, Wrong},
	} {
		if got, why := c.p.judge(&c.proof); got != c.want {
			t.Errorf("%+v is %s: %s", c.proof, got, why)
		}
	}
}
