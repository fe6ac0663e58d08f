package race

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/internal/golden"
	"ceiling/internal/needs"
	"ceiling/show/layout"
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

// TestReadmeShowsTheKeptRace: the tables of proxy/README.md are those of the race in docs/journal,
// which ceiling race --json printed.
func TestReadmeShowsTheKeptRace(t *testing.T) {
	kept, err := os.ReadFile("../../docs/journal/race.json")
	if err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := json.Unmarshal(kept, &r); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	const page, begin, end = "../../proxy/README.md", "<!-- race: from docs/journal/race.json -->\n", "<!-- end of race -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s: the marks of the race are missing", page)
	}
	golden.Text(t, page, before+begin+"```\n"+layout.Output{Screen: true, Columns: columns}.Fold(b.String())+"```\n"+end+after)
}
