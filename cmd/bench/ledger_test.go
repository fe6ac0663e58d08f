package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// fullEntry has something in every field.
func fullEntry() Entry {
	s := Spread{2, 1, 3, 7}
	ns := 42.0
	return Entry{
		Schema: ledgerSchema, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Commit: strings.Repeat("ab", 20), Dirty: true,
		Host: Host{"6.18.0", "A CPU", 2, "go1.26"}, Tools: map[string]string{wrk: "4.1"}, Settings: Settings{7, 2, 64, 1, "fasthttp"}, TookS: 300,
		Speed:   []Row{{"/simple", ours, s, s, &s, &s, s, s, &s, nil, nil, nil, nil}, {"/simple", wrk, s, s, nil, nil, s, s, &s, &s, &s, &s, &s}},
		User:    []UserShare{{"/simple", s, &ns, 1000, 20}},
		Startup: &s,
		Targets: []Target{{"a", 0.5, 0.65, "ratio", true}, {"b", 100, 83, "µs", false}},
		Caveats: []string{"it was noisy"}, Failures: []string{"oha: it printed nothing"},
	}
}

func TestLedgerIsAppendedTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal", "bench.ndjson")
	want := fullEntry()
	for range 2 {
		if err := appendLine(path, &want); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2", len(lines))
	}
	for _, line := range lines {
		got, err := parseEntry(line)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
}

func TestParseEntryRefuses(t *testing.T) {
	for _, line := range []string{``, `{}`, `{"schema":"ceiling.bench/2"}`, `{"schema":"ceiling.bench/1","colour":"red"}`} {
		if _, err := parseEntry([]byte(line)); err == nil {
			t.Errorf("%s was taken", line)
		}
	}
}

// TestEveryFigureHasAUnit walks a line as any reader of the ledger would: a
// number says its unit in its name, or in that of the spread that it is in, or
// counts things that the name says.
func TestEveryFigureHasAUnit(t *testing.T) {
	e := fullEntry()
	line, err := json.Marshal(&e)
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := json.Unmarshal(line, &document); err != nil {
		t.Fatal(err)
	}
	unit := regexp.MustCompile(`_(ns|us|ms|s|per_s|ns_per_request|bytes|ratio|share|connections|per_connection|over_mean|samples)$`)
	counts := []string{"cores", "rounds", "connections", "seed", "samples", "n"}
	inSpread := []string{"median", "min", "max"}
	figures := 0
	var walk func(name, parent string, value any)
	walk = func(name, parent string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, inner := range v {
				walk(key, name, inner)
			}
			if _, isTarget := v["limit"]; isTarget && v["unit"] == "" {
				t.Errorf("a target without a unit: %v", v)
			}
		case []any:
			for _, inner := range v {
				walk(name, parent, inner)
			}
		case float64:
			figures++
			if slices.Contains(inSpread, name) {
				name = parent
			}
			if !unit.MatchString(name) && !slices.Contains(counts, name) && parent != "targets" {
				t.Errorf("%s: no unit", name)
			}
		}
	}
	walk("", "", document)
	if figures < 60 {
		t.Errorf("%d figures were seen: the walk is broken", figures)
	}
}

// TestTheLedger holds the lines that are in the repository.
func TestTheLedger(t *testing.T) {
	data, err := os.ReadFile("../../docs/journal/bench.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	var last time.Time
	for line := range bytes.Lines(data) {
		e, err := parseEntry(line)
		if err != nil {
			t.Errorf("%.60s: %v", line, err)
			continue
		}
		if e.Time.Before(last) {
			t.Errorf("the line of %s comes after that of %s: lines are added at the end", e.Time, last)
		}
		last = e.Time
	}
}

func TestPrintEntry(t *testing.T) {
	e := fullEntry()
	var b strings.Builder
	printEntry(&b, &e)
	for _, want := range []string{
		`commit abababababab with changes · Linux 6.18.0 · A CPU, 2 CPUs`,
		`(?m)^/simple +ceiling +0.002 \[0.001–0.003\]`, `(?m)^ +wrk .*2.000 \[1.000–3.000\]`,
		`(?m)^a +0.5 +0.65 ratio +met`, `(?m)^b +100 +83 µs +missed`,
		`doubt: it was noisy`, `20 of 1000`,
	} {
		if !regexp.MustCompile(want).MatchString(b.String()) {
			t.Errorf("nothing like %s in:\n%s", want, b.String())
		}
	}
}

// parseEntry reads a line of the ledger and refuses what Entry neither has nor had.
func parseEntry(line []byte) (Entry, error) {
	var known struct {
		Entry
		Frozen, Pacing, Floor, Hold json.RawMessage // until November 2026
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	err, e := d.Decode(&known), known.Entry
	if err != nil {
		return e, err
	}
	if e.Schema != ledgerSchema {
		return e, fmt.Errorf("schema %q, want %q", e.Schema, ledgerSchema)
	}
	return e, nil
}
