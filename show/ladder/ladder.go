// Package ladder is what the measurement of regimes came to: one row for each kind of work, as a document, a text and a page.
package ladder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"ceiling/internal/stat"
	"ceiling/record"
)

// Schema names the version of the document.
const Schema = "ceiling.ladder/1"

// A Ladder is what was measured.
type Ladder struct {
	Schema string `json:"schema"` // Schema
	// Environment of the machine; nil where no run was made.
	Environment *record.Environment `json:"environment,omitempty"`

	Created time.Time `json:"created"`
	Version string    `json:"version"`
	Server  string    `json:"server"`
	CPUs    string    `json:"cpus"` // who runs where
	Rounds  int       `json:"rounds"`
	// DurationS of each run, seconds.
	DurationS float64 `json:"duration_s"`
	Rows      []Row   `json:"rows"` // the fastest first; those not measured last
	// Databases as they describe themselves, by source.
	Databases map[string]string `json:"databases,omitempty"`
}

// A Row is a regime, measured.
type Row struct {
	Regime  string `json:"regime"`
	Request string `json:"request"` // "GET /db/row"
	About   string `json:"about"`
	// Unit is what is counted in the place of requests: "events"; "" is requests.
	Unit string `json:"unit,omitempty"`
	// NotMeasured is why there are no figures.
	NotMeasured string `json:"not_measured,omitempty"`

	// PerS is the median of the runs' rates, requests/s, with the interval that they give it.
	PerS stat.Estimate `json:"per_s"`
	// At70 is the open loop at 70% of that.
	At70 *Latency `json:"at_70_percent,omitempty"`

	Bottleneck string `json:"bottleneck"` // of the run with the median rate
	Reason     string `json:"reason"`
	Next       string `json:"next_bottleneck,omitempty"`
	Outcome    string `json:"outcome"`
	Failed     int    `json:"failed_runs,omitempty"` // of Rounds: not valid, or with errors

	Cost Cost `json:"cost"`
	// Headroom is how many times the rate the generator could reach; 0: unknown. Below 2 the row says so.
	Headroom float64 `json:"headroom,omitempty"`
	// Predicted is what Little's law makes of another row; nil: nothing.
	Predicted *Prediction `json:"predicted,omitempty"`
	Caveat    string      `json:"caveat,omitempty"`
}

// A Prediction is a range of rates, requests/s, with its reason.
type Prediction struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	Why  string  `json:"why"`
}

// Latency at a rate.
type Latency struct {
	TargetPerS float64 `json:"target_per_s"`
	P50Ns      int64   `json:"p50_ns"`
	P99Ns      int64   `json:"p99_ns"` // of the response time, from when a request was due
	// Why the figure is not that of the service; "" where it is.
	Caveat string `json:"caveat,omitempty"`
}

// Cost is what one request takes.
type Cost struct {
	ServerCPUNs float64 `json:"server_cpu_ns,omitempty"` // of all processes of the server, the database's among them; 0: not measured
	Bytes       float64 `json:"bytes"`                   // of the response with its head
	// Fsyncs of the log: PostgreSQL counts them (pg_stat_wal), of SQLite they are the commits, one each. nil: does not apply.
	Fsyncs    *float64 `json:"fsyncs,omitempty"`
	FsyncsPer *float64 `json:"fsyncs_per_s,omitempty"` // at PerS
	// RoundTrips to the database's process or to a replica, or calls of the downstream service, which counts them; nil: there is none.
	RoundTrips *float64 `json:"round_trips,omitempty"`
	// Answered is the share of the requests that the policy found an answer for; nil: there is no downstream service.
	Answered *float64 `json:"answered,omitempty"`
	// Commits of a quorum, and CommitNs, what one takes from the server's side; nil: there are no replicas.
	Commits  *float64 `json:"commits,omitempty"`
	CommitNs *float64 `json:"commit_ns,omitempty"`
}

// Holds tells whether the measured range and the predicted one overlap.
func (p *Prediction) Holds(measured *stat.Estimate) bool {
	return measured.High >= p.Low && measured.Low <= p.High
}

// mostBytes bounds a document; a full ladder has 40 kB.
const mostBytes = 4 << 20

// Read reads a document.
func Read(r io.Reader) (*Ladder, error) {
	text, err := io.ReadAll(io.LimitReader(r, mostBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > mostBytes {
		return nil, fmt.Errorf("it has more than %d MB, which no ladder has", mostBytes>>20)
	}
	l := new(Ladder)
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("it is no ladder (ceiling regimes -o DIR writes one): %w", err)
	}
	if l.Schema != Schema {
		return nil, fmt.Errorf("its schema is %q, not %q; ceiling regimes -o DIR writes one", l.Schema, Schema)
	}
	if len(l.Rows) == 0 {
		return nil, errors.New("it has no rows")
	}
	return l, nil
}

// WriteJSON writes the document.
func (l *Ladder) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(l)
}

// Row is the row of a regime, nil where there is none.
func (l *Ladder) Row(regime string) *Row {
	for i := range l.Rows {
		if l.Rows[i].Regime == regime {
			return &l.Rows[i]
		}
	}
	return nil
}
