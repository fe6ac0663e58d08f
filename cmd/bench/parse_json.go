package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"ceiling/record"
)

// ownFigures is what our document says and the peers' do not.
type ownFigures struct {
	// UserNs is the user time of the process in the window, nanoseconds, as
	// getrusage(2) splits it: by the tick.
	UserNs int64
	// WorkerNs is the CPU time of the engine's threads in the window,
	// nanoseconds, and WorkerThreads their kernel ids.
	WorkerNs      float64
	WorkerThreads []int
	LagP99        time.Duration
	Established   int
	Engine        string
	Outcome       string
	Because       string
}

// oneValue decodes the one JSON value that data has to be.
func oneValue(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// parseOurs reads the document of ceiling run --json.
func parseOurs(out []byte) (answer, error) {
	var r record.Run
	if err := oneValue(out, &r); err != nil {
		return answer{}, err
	}
	if r.Schema != record.Schema {
		return answer{}, fmt.Errorf("schema %q, want %q", r.Schema, record.Schema)
	}
	q := r.Requests
	if q.Sent != q.Completed+q.Failed+q.InFlight {
		return answer{}, fmt.Errorf("sent %d are not %d completed, %d failed and %d in flight", q.Sent, q.Completed, q.Failed, q.InFlight)
	}
	if r.Interrupted || r.Unfinished {
		return answer{}, errors.New("the run did not finish")
	}
	own := &ownFigures{
		UserNs: r.Generator.UserNs, LagP99: time.Duration(r.Latency.Lag.P99Ns),
		Established: r.Load.Established, Engine: r.Load.Engine,
		Outcome: r.Verdict.Outcome, Because: r.Verdict.Because,
	}
	for _, w := range r.Generator.Workers {
		own.WorkerNs += w.Busy * r.ElapsedS * 1e9
		own.WorkerThreads = append(own.WorkerThreads, w.Thread)
	}
	a := answer{
		Bad: q.Failed, ElapsedS: r.ElapsedS, Resolution: time.Nanosecond, Ours: own,
		P50: time.Duration(r.Latency.Response.P50Ns), P99: time.Duration(r.Latency.Response.P99Ns),
	}
	var all uint64
	for status, n := range r.Statuses {
		all += n
		if strings.HasPrefix(status, "2") {
			a.Completed += n
		} else {
			a.Bad += n
		}
	}
	if all != q.Completed {
		return answer{}, fmt.Errorf("%d completed, but %d statuses", q.Completed, all)
	}
	return a, a.check(q.Completed, r.Rate.CompletedPerS)
}

// ohaDocument is the part of oha's JSON that is read. Times are seconds; a
// quantile of no response is null.
type ohaDocument struct {
	Summary *struct {
		Total          float64 `json:"total"`
		RequestsPerSec float64 `json:"requestsPerSec"`
	} `json:"summary"`
	LatencyPercentiles struct {
		P50 *float64 `json:"p50"`
		P99 *float64 `json:"p99"`
	} `json:"latencyPercentiles"`
	Statuses map[string]uint64 `json:"statusCodeDistribution"`
	Errors   map[string]uint64 `json:"errorDistribution"`
}

// What oha calls the requests that were in flight when its time was over; the
// rate that it prints counts them.
const ohaCutOff = "aborted due to deadline"

// parseOha reads oha's JSON.
func parseOha(out []byte) (answer, error) {
	var d ohaDocument
	if err := oneValue(out, &d); err != nil {
		return answer{}, err
	}
	if d.Summary == nil {
		return answer{}, errors.New("no summary in it")
	}
	a := answer{ElapsedS: d.Summary.Total, Resolution: time.Nanosecond}
	for status, n := range d.Statuses {
		if strings.HasPrefix(status, "2") {
			a.Completed += n
		} else {
			a.Bad += n
		}
	}
	var cutOff uint64
	for what, n := range d.Errors {
		if what == ohaCutOff {
			cutOff = n
		} else {
			a.Bad += n
		}
	}
	if p := d.LatencyPercentiles.P50; p != nil {
		a.P50 = time.Duration(math.Round(*p * 1e9))
	}
	if p := d.LatencyPercentiles.P99; p != nil {
		a.P99 = time.Duration(math.Round(*p * 1e9))
	}
	return a, a.check(a.Completed+a.Bad+cutOff, d.Summary.RequestsPerSec)
}

// autocannonDocument is the part of autocannon's JSON that is read. The
// duration is seconds, latencies are whole milliseconds.
type autocannonDocument struct {
	Duration float64 `json:"duration"`
	Errors   uint64  `json:"errors"` // timeouts are in it
	Resets   uint64  `json:"resets"`
	Good     *uint64 `json:"2xx"`
	Other    uint64  `json:"non2xx"`
	Latency  struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"latency"`
}

// parseAutocannon reads autocannon's JSON. The mean of requests per second
// that it prints is one of its samples, so nothing is held against it.
func parseAutocannon(out []byte) (answer, error) {
	var d autocannonDocument
	if err := oneValue(out, &d); err != nil {
		return answer{}, err
	}
	if d.Good == nil {
		return answer{}, errors.New("no count of 2xx in it")
	}
	a := answer{
		Completed: *d.Good, Bad: d.Errors + d.Resets + d.Other, ElapsedS: d.Duration, Resolution: time.Millisecond,
		P50: time.Duration(d.Latency.P50 * 1e6), P99: time.Duration(d.Latency.P99 * 1e6),
	}
	counted := a.Completed + a.Bad
	return a, a.check(counted, float64(counted)/a.ElapsedS) // that there is something to divide
}
