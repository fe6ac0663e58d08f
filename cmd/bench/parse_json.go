package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// ownFigures is what our document has beyond the other tools'.
type ownFigures struct {
	// UserNs is the user time of the process in the window, nanoseconds, according to
	// getrusage(2), which counts by the tick.
	UserNs int64
	// WindowNs is the CPU time of the process in the window, nanoseconds.
	WindowNs int64
	// WorkerNs is the CPU time of the engine's threads in the window,
	// nanoseconds, and WorkerThreads their kernel ids.
	WorkerNs      float64
	WorkerThreads []int
	Outcome       string
	Because       string
}

// oneValue decodes data that must be a single JSON value.
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

// parseOurs parses the output of ceiling run --json.
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
		UserNs: r.Generator.UserNs, WindowNs: r.Generator.UserNs + r.Generator.SystemNs,
		Outcome: string(r.Verdict.Outcome), Because: prose.Sentence(r.Verdict.Because),
	}
	for _, w := range r.Generator.Workers {
		own.WorkerNs += w.Busy * r.ElapsedS * 1e9
		own.WorkerThreads = append(own.WorkerThreads, w.Thread)
	}
	a := answer{Bad: q.Failed, ElapsedS: r.ElapsedS, Ours: own}
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

// parseFloor parses the line that the floor prints. The floor reads no status; the server's count
// confirms its own.
func parseFloor(out []byte) (answer, error) {
	var said struct {
		Requests uint64  `json:"requests"`
		ElapsedS float64 `json:"elapsed_s"`
	}
	if err := oneValue(out, &said); err != nil {
		return answer{}, err
	}
	a := answer{Completed: said.Requests, ElapsedS: said.ElapsedS}
	return a, a.happened(said.Requests)
}

// parseGcannon parses gcannon --json.
func parseGcannon(out []byte) (answer, error) {
	var said struct {
		ElapsedS  float64           `json:"elapsed_sec"`
		Responses uint64            `json:"responses"`
		PerS      float64           `json:"rps"`
		Status    map[string]uint64 `json:"status"`
		Errors    map[string]uint64 `json:"errors"`
	}
	if err := oneValue(out, &said); err != nil {
		return answer{}, err
	}
	return ofClasses(said.ElapsedS, said.Responses, said.PerS, said.Status, said.Errors)
}

// parseZrk parses zrk --format json.
func parseZrk(out []byte) (answer, error) {
	var said struct {
		ElapsedS float64           `json:"duration_s"`
		Requests uint64            `json:"requests"`
		PerS     float64           `json:"achieved_rate"`
		Status   map[string]uint64 `json:"status_codes"`
		Errors   map[string]uint64 `json:"errors"`
	}
	if err := oneValue(out, &said); err != nil {
		return answer{}, err
	}
	delete(said.Errors, "non_2xx_3xx") // among the statuses
	return ofClasses(said.ElapsedS, said.Requests, said.PerS, said.Status, said.Errors)
}

// ofClasses is the answer of a tool that counts statuses by class.
func ofClasses(elapsedS float64, responses uint64, perS float64, status, failed map[string]uint64) (answer, error) {
	var all uint64
	for _, n := range status {
		all += n
	}
	if all != responses {
		return answer{}, fmt.Errorf("%d responses, but %d statuses", responses, all)
	}
	a := answer{Completed: status["2xx"], Bad: responses - status["2xx"], ElapsedS: elapsedS}
	for _, n := range failed {
		a.Bad += n
	}
	return a, a.check(responses, perS)
}

// parseAutocannon parses autocannon --json. Its rate is the mean of one-second samples, which is not count / time.
func parseAutocannon(out []byte) (answer, error) {
	var said struct {
		ElapsedS float64 `json:"duration"`
		Errors   uint64  `json:"errors"`
		Resets   uint64  `json:"resets"`
		Good     *uint64 `json:"2xx"`
		Others   uint64  `json:"non2xx"`
	}
	if err := oneValue(out, &said); err != nil {
		return answer{}, err
	}
	if said.Good == nil {
		return answer{}, errors.New("2xx is missing")
	}
	a := answer{Completed: *said.Good, Bad: said.Others + said.Errors + said.Resets, ElapsedS: said.ElapsedS}
	return a, a.happened(a.Completed + a.Bad)
}
