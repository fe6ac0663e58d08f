package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ceiling/check/selftest"
)

// trialSchema is the version of Trial.
const trialSchema = "ceiling.trial/1"

// Trial is one planted bottleneck and the verdict's bottleneck, or one pair and the decision of
// `ceiling compare`: one line of the ledger of trials. Each trial is written when it ends, so a
// series can be interrupted; docs/accuracy.md is rendered from all lines. Units as in Entry.
type Trial struct {
	Schema string    `json:"schema"`
	Time   time.Time `json:"time"`
	Commit string    `json:"commit"`
	Dirty  bool      `json:"dirty"`
	Host   Host      `json:"host"`
	TookS  float64   `json:"took_s"`

	Plant *PlantTrial `json:"plant,omitempty"`
	Pair  *PairTrial  `json:"pair,omitempty"`
}

// PlantTrial is one run against a planted bottleneck.
type PlantTrial struct {
	Scenario   string   `json:"scenario"`
	Real       bool     `json:"real"` // in third-party software
	Seed       uint64   `json:"seed"`
	Round      int      `json:"round"` // seed and round determine the parameters
	Planted    string   `json:"planted"`
	Parameters string   `json:"parameters,omitempty"`
	Accepted   []string `json:"accepted,omitempty"` // bottlenecks, the planted one first
	Named      string   `json:"named,omitempty"`
	Judged     string   `json:"judged"`
	Why        string   `json:"why,omitempty"`
	Because    string   `json:"because,omitempty"` // the verdict's reason
	Blamed     bool     `json:"blamed,omitempty"`
	// Others is the CPU use of other programs during the run, in cores.
	Others    float64                `json:"others_cores"`
	Confirmed *selftest.Confirmation `json:"confirmed_per_s,omitempty"`
}

// PairTrial is one comparison of two servers.
type PairTrial struct {
	Pair    string `json:"pair"`
	Planted string `json:"planted,omitempty"` // B's difference; "" for none
	Seed    uint64 `json:"seed"`
	// Apart is set if generator and servers had separate CPUs.
	Apart bool    `json:"apart"`
	RunMs float64 `json:"run_ms"` // of each run of the comparison
	Runs  int     `json:"runs"`
	// Blocks of A against B that counted.
	Blocks    int               `json:"blocks"`
	Decisions map[string]string `json:"decisions"` // by metric
	Intervals map[string]string `json:"intervals"` // of the change, by metric
	// Ratios are ln(B/A) of each counted block, by metric: the basis of the decision. The
	// ledger's first lines lack them.
	Ratios map[string][]float64 `json:"ratios,omitempty"`
	Found  bool                 `json:"found,omitempty"`
	Alarm  bool                 `json:"alarm"`
	// Others is the CPU use of other programs on the server's host in cores, mean over the runs;
	// the ledger's first lines lack it.
	Others *float64 `json:"others_cores,omitempty"`
}

// readTrials reads the ledger; a missing one has no lines.
func readTrials(path string) ([]Trial, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []Trial
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		t, err := parseTrial(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, len(list)+1, err)
		}
		list = append(list, t)
	}
	return list, lines.Err()
}

// parseTrial parses a line and rejects unknown fields.
func parseTrial(line []byte) (Trial, error) {
	var t Trial
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return t, err
	}
	if t.Schema != trialSchema || (t.Plant == nil) == (t.Pair == nil) {
		return t, fmt.Errorf("schema %q, want %q, and a plant or a pair", t.Schema, trialSchema)
	}
	return t, nil
}

// appendLine appends a line of JSON to a ledger in a single write, so that a line is complete or
// absent.
func appendLine(path string, what any) error {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
