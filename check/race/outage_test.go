package race

import (
	"slices"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// TestOutages: no request fails once a backend accepts again, nobody else's because of a page that
// crashes, and a site that was replaced is served as it is.
func TestOutages(t *testing.T) {
	needs.Time(t)
	cases := []string{outageKilled, outageRestarted, outageCrash, outageRedeployed}
	result, err := Run(t.Context(), Config{Rounds: 1, Duration: 100 * time.Millisecond, Workers: 1, Connections: 4, PerS: 100, Seed: 1,
		Program: program(t), Version: "test", Only: []string{Ours, Prefork}, Cases: cases})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range result.Cases {
		if !slices.Contains(cases, k.Name) || len(k.Rows) != 2 {
			t.Fatalf("%s: %d rows", k.Name, len(k.Rows))
		}
		for _, row := range k.Rows {
			o := row.Outage
			if row.NotRaced != "" || o == nil || o.Rounds != outageRounds || o.Requests < outageRounds*probers {
				t.Fatalf("%s, %s: %+v %s", k.Name, row.Name, o, row.NotRaced)
			}
			if o.Failed > 0 || o.Wrong > 0 {
				t.Errorf("%s, %s: of %d requests %d failed and %d were answered wrongly, the last %d ms after it", k.Name, row.Name, o.Requests,
					o.Failed, o.Wrong, o.LongestNs/1e6)
			}
		}
	}
}
