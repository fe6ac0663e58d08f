package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ceiling/check/selftest"
	"ceiling/record"
)

// someTrials are of each kind that the page tells apart.
func someTrials() []Trial {
	plant := func(name string, real bool, judged, named string, accepted ...string) Trial {
		return Trial{Plant: &PlantTrial{Scenario: name, Real: real, Seed: 1, Round: 1, Planted: "x", Accepted: accepted, Named: named,
			Judged: judged}}
	}
	pool := plant("node-pool", true, selftest.Wrong, string(record.ServerBlocked), string(record.ServerBlocked))
	pool.Plant.Confirmed = &selftest.Confirmation{What: "twice the pool", Planted: 100, More: 250}
	blamed := plant("generator-dear-answers", false, selftest.Wrong, string(record.ServerCPU), string(record.LoadGenerator))
	blamed.Plant.Blamed = true
	java := plant("java-pool", true, selftest.NotRun, "")
	java.Plant.Why = "not installed: apt-get install openjdk-17-jdk-headless"
	busy := 0.5
	list := []Trial{
		plant("pool", false, selftest.Right, string(record.ServerBlocked), string(record.ServerBlocked)), blamed,
		plant("one-thread", false, selftest.Disturbed, string(record.ServerCPU), string(record.ServerThread)),
		pool, java,
		{Pair: &PairTrial{Pair: "fasthttp", Seed: 1, Apart: true, RunMs: 250, Runs: 111, Blocks: 18,
			Decisions: map[string]string{"rps": record.NoChange, "p99": record.CannotTell}, Intervals: map[string]string{"rps": "-1% to +1%"}}},
		{Pair: &PairTrial{Pair: "fasthttp", Seed: 2, Apart: true, RunMs: 250, Blocks: 18, Decisions: map[string]string{"rps": record.Worse},
			Intervals: map[string]string{"rps": "-9% to -3%"}, Alarm: true, Others: &busy}},
		{Pair: &PairTrial{Pair: "5% CPU", Planted: "5% CPU", Seed: 1, Apart: true, RunMs: 250,
			Decisions: map[string]string{"server_cpu": record.Worse}, Intervals: map[string]string{}, Found: true}},
	}
	for i := range list {
		list[i].Schema, list[i].Commit, list[i].Host = trialSchema, strings.Repeat("ab", 20), Host{"6.18.0", "A CPU", 2, "go1.26"}
		list[i].Time = time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC)
	}
	return list
}

func TestTrialsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal", "accuracy.ndjson")
	if list, err := readTrials(path); err != nil || list != nil {
		t.Errorf("a ledger that is not there: %v, %v", list, err)
	}
	want := someTrials()
	for i := range want {
		if err := appendLine(path, &want[i]); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readTrials(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v; read %+v, want %+v", err, got, want)
	}
	for _, line := range []string{``, `{}`, `{"schema":"ceiling.trial/1"}`, `{"schema":"ceiling.trial/2","pair":{}}`,
		`{"schema":"ceiling.trial/1","pair":{},"plant":{}}`, `{"schema":"ceiling.trial/1","pair":{"colour":"red"}}`} {
		if _, err := parseTrial([]byte(line)); err == nil {
			t.Errorf("%s was taken", line)
		}
	}
}

func TestAccuracyIsRendered(t *testing.T) {
	dir := t.TempDir()
	ledger, page := filepath.Join(dir, "accuracy.ndjson"), filepath.Join(dir, "accuracy.md")
	for _, trial := range someTrials() {
		if err := appendLine(ledger, &trial); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, notesName),
		[]byte(`[{"plant": "node-pool", "named": "server blocked", "why": "No number is said."}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := renderAccuracy(ledger, page); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{
		"**1 of 2 runs against planted servers (`ceiling selftest`) correct (50%)**; in 0 more", "limit in 1.", "Not counted: 1 run in which",
		"1 of 3 (33%)",
		"**0 of 1 runs against real software (`ceiling selftest --real`) correct (0%)**; in 1 more",
		"| planted ╲ named | server CPU | server blocked |", "| generator | **1** |  |", "| server blocked |  | 1 |",
		"| server blocked | **1** |", "server blocked, without the word (1)", "×2.50", "disturbed (1)",
		"not installed: apt-get install openjdk-17-jdk-headless (1)", "| node-pool | server blocked | server blocked | 1 | No number is said. |",
		"| generator-dear-answers | generator | server CPU | 1 | not explained yet |",
		"**1 false alarm in 2 comparisons of a server with itself**", "98 are missing",
		"- alarm at 03:04:06: fasthttp, rps worse (-9% to -3%); other processes used 0.5 cores",
		"| 5% CPU | 5% CPU | 1 | 1 |  | 0 | 0 | 1 |", "abababababab", "A CPU, 2 CPUs, Linux 6.18.0",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}

func TestTrialsGoOn(t *testing.T) {
	s := trials{list: someTrials()}
	k := plantKind{selftest.RealScenarios()[0], true}
	k.Name = "node-pool"
	if s.round(&k, 1) != 1 || s.round(&k, 2) != 0 {
		t.Errorf("rounds %d, %d", s.round(&k, 1), s.round(&k, 2))
	}
	if !s.room(time.Hour) {
		t.Error("without an end there is room")
	}
	if s.end = time.Now().Add(time.Minute); s.room(time.Hour) || !s.room(time.Second) {
		t.Error("an hour has no room in a minute, a second has")
	}
}
