// Package ladder holds the results of the regime measurements: one row per kind of work, as a
// document, a text and a page.
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

// Schema is the version of the document.
const Schema = "ceiling.ladder/1"

// A Ladder is the result of a measurement.
type Ladder struct {
	Schema string `json:"schema"` // Schema
	// Environment of the machine; nil if no run was made.
	Environment *record.Environment `json:"environment,omitempty"`

	Created time.Time `json:"created"`
	Version string    `json:"version"`
	Server  string    `json:"server"`
	CPUs    string    `json:"cpus"` // CPU assignment
	Rounds  int       `json:"rounds"`
	// DurationS of each run, seconds.
	DurationS float64 `json:"duration_s"`
	Rows      []Row   `json:"rows"` // fastest first; unmeasured ones last
	// Databases are the databases' own descriptions, by source.
	Databases map[string]string `json:"databases,omitempty"`
}

// A Row is the measurement of a regime.
type Row struct {
	Regime  string `json:"regime"`
	Request string `json:"request"` // "GET /db/row"
	About   string `json:"about"`
	// NotMeasured is the reason for missing figures.
	NotMeasured string `json:"not_measured,omitempty"`

	// PerS is the median rate of the runs, requests/s, with its interval.
	PerS stat.Estimate `json:"per_s"`
	// At70 is the open loop at 70% of PerS.
	At70 *Latency `json:"at_70_percent,omitempty"`

	Bottleneck string `json:"bottleneck"` // of the run with the median rate
	Reason     string `json:"reason"`
	Next       string `json:"next_bottleneck,omitempty"`
	Outcome    string `json:"outcome"`
	Failed     int    `json:"failed_runs,omitempty"` // of Rounds: invalid, or with errors

	Cost Cost `json:"cost"`
	// Headroom is the generator's capacity divided by the rate; 0: unknown. Below 2 the row says
	// so.
	Headroom float64 `json:"headroom,omitempty"`
	// Predicted is the rate that Little's law predicts from another row; nil if none.
	Predicted *Prediction `json:"predicted,omitempty"`
	Caveat    string      `json:"caveat,omitempty"`
}

// A Prediction is a range of rates, requests/s, and its basis.
type Prediction struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	Why  string  `json:"why"`
}

// Latency is that at a given rate.
type Latency struct {
	TargetPerS float64 `json:"target_per_s"`
	P50Ns      int64   `json:"p50_ns"`
	P99Ns      int64   `json:"p99_ns"` // of the response time, from the due time
	// Caveat is why the figure is not the service's; "" if it is.
	Caveat string `json:"caveat,omitempty"`
}

// Cost is the cost of one request.
type Cost struct {
	ServerCPUNs float64 `json:"server_cpu_ns,omitempty"` // all server processes, including the database's; 0: not measured
	Bytes       float64 `json:"bytes"`                   // of the response with its head
	// Fsyncs of the log: PostgreSQL counts them (pg_stat_wal); for SQLite, one per commit. nil:
	// does not apply.
	Fsyncs    *float64 `json:"fsyncs,omitempty"`
	FsyncsPer *float64 `json:"fsyncs_per_s,omitempty"` // at PerS
	// RoundTrips to the database process or a replica, or calls of the downstream service, which
	// counts them; nil if there is none.
	RoundTrips *float64 `json:"round_trips,omitempty"`
	// Answered is the share of requests that the policy could answer; nil if there is no
	// downstream service.
	Answered *float64 `json:"answered,omitempty"`
	// Commits of a quorum, and CommitNs, the duration of one measured at the server; nil if there
	// are no replicas.
	Commits  *float64 `json:"commits,omitempty"`
	CommitNs *float64 `json:"commit_ns,omitempty"`
}

// Holds reports whether the measured and the predicted range overlap.
func (p *Prediction) Holds(measured *stat.Estimate) bool {
	return measured.High >= p.Low && measured.Low <= p.High
}

// mostBytes limits a document; a full ladder has 40 kB.
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
		return nil, fmt.Errorf("not a ladder (ceiling regimes -o DIR writes one): %w", err)
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

// Row returns the row of a regime, nil if there is none.
func (l *Ladder) Row(regime string) *Row {
	for i := range l.Rows {
		if l.Rows[i].Regime == regime {
			return &l.Rows[i]
		}
	}
	return nil
}
