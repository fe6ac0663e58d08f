package regimes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/internal/unit"
	"ceiling/measure/cores"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/server/downstream"
	"ceiling/server/quorum"
	"ceiling/server/store"
	"ceiling/show/ladder"
	"ceiling/verdict/prose"
)

const (
	confidence = 0.95
	loaded     = 0.7 // share of the median rate: a load at which services are run

	warmup  = 300 * time.Millisecond
	timeout = 10 * time.Second // queued scans take seconds
	rest    = 100 * time.Millisecond

	// callsLast is the least duration of a run that calls a service: its queues are sampled ten times a
	// second, and the verdict wants five samples of them.
	callsLast = 800 * time.Millisecond
)

// A measurement is a measurement in progress.
type measurement struct {
	Config
	records string
	split   cores.Split
	result  *Result

	// The running server and its command line; it serves all regimes with the same one.
	child   *run.Child
	command string
}

// regime measures one regime and adds its row. It returns an error only if ctx ends: for a regime
// that cannot be measured, the row has the reason, and the others continue.
func (m *measurement) regime(ctx context.Context, r *Regime, n, of int) error {
	row := Row{Regime: r.Name, Request: r.Method + " " + r.Path, About: r.About, NotMeasured: available(r)}
	if row.NotMeasured == "" {
		m.say(fmt.Sprintf("%d of %d: %s: %s", n+1, of, r.Name, r.About))
		if err := m.measure(ctx, r, &row); err != nil {
			row.NotMeasured = strings.Join(strings.Fields(err.Error()), " ")
		}
	}
	m.result.Rows = append(m.result.Rows, row)
	return ctx.Err()
}

// measure starts the server and fills the row.
func (m *measurement) measure(ctx context.Context, r *Regime, row *Row) error {
	if r.Outage { // start fresh, without the aftermath of another outage
		m.stop()
	}
	if err := m.serve(ctx, r); err != nil {
		return err
	}
	if r.Outage {
		return m.outage(ctx, r, row)
	}
	return m.fill(ctx, r, row)
}

func (m *measurement) say(line string) {
	if m.Progress != nil {
		m.Progress(line)
	}
}

// serve starts the regime's server.
func (m *measurement) serve(ctx context.Context, r *Regime) error {
	args := []string{"serve", m.Server, "--addr", "127.0.0.1:0"}
	switch {
	case r.Source != "":
		args = append(append(args, "--db", r.Source), r.Flags...)
	case r.Faults != "":
		args = append(args, "--downstream", r.Faults)
	case r.Bucket != "":
		args = append(args, "--kv", r.Bucket)
	}
	command := strings.Join(args, " ")
	if m.command == command && !m.child.Ended() {
		return nil
	}
	m.stop()
	m.say("starting " + strings.TrimPrefix(command, "serve "))
	child, err := run.StartChildOn(ctx, m.split.Server, m.Program, args...)
	if err != nil {
		return err
	}
	m.child, m.command = child, command
	return nil
}

func (m *measurement) stop() {
	if m.child != nil {
		m.child.Stop()
		m.child, m.command = nil, ""
	}
}

// fill does the runs of a regime.
func (m *measurement) fill(ctx context.Context, r *Regime, row *Row) error {
	var runs []*record.Run
	first, err := m.status(ctx, r)
	if err != nil {
		return err
	}
	before, err := m.calls(ctx, r)
	if err != nil {
		return err
	}
	kv, err := m.bucket(ctx, r)
	if err != nil {
		return err
	}
	last := first
	for i := range m.Rounds {
		one, err := m.run(ctx, r, unit.Rate{})
		if err != nil {
			return err
		}
		runs = append(runs, one)
		if last, err = m.status(ctx, r); err != nil {
			return err
		}
		if i == 0 && m.Rounds > 1 { // delayed counts of PostgreSQL are then equally late at both ends
			first = last
		}
	}
	if err := judge(row, runs); err != nil {
		return err
	}
	if r.Source != "" {
		costOfDatabase(row, r, &first, &last)
		m.result.Databases[r.Source] = first.Product
	}
	after, err := m.calls(ctx, r)
	if err != nil {
		return err
	}
	costOfCalls(row, &before, &after)
	if r.Bucket != "" {
		end, err := m.bucket(ctx, r)
		if err != nil {
			return err
		}
		costOfBucket(row, &kv, &end)
		m.result.Databases["kv"] = end.Product
	}
	if row.PerS.Value < 1 {
		return nil
	}
	return m.at70(ctx, r, row)
}

// run does one run, closed or open.
func (m *measurement) run(ctx context.Context, r *Regime, rate unit.Rate) (*record.Run, error) {
	s := spec.Spec{
		Targets:     []spec.Target{{Method: r.Method, URL: "http://" + m.child.Addr + r.Path, Weight: 1}},
		Connections: r.Connections, Pipelining: 1, Duration: m.Duration, Warmup: warmup, Timeout: timeout, Engine: spec.EngineAuto, Seed: 1,
		PinGenerator: cores.Format(m.split.Generator), Rate: rate,
	}
	if s.Open() {
		s.Arrivals = spec.Poisson
	}
	if r.Faults != "" { // unanswered requests are part of the measurement
		s.Expect.Statuses = []spec.StatusRange{{First: 200, Last: 299},
			{First: http.StatusServiceUnavailable, Last: http.StatusServiceUnavailable}}
		s.Duration = max(s.Duration, callsLast)
	}
	if r.Outage {
		s.Duration = outageLasts
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(rest):
	}
	done, err := run.Do(ctx, s, run.Options{Store: m.records, Command: []string{"ceiling", "regimes"}, Version: m.Version})
	switch {
	case err != nil:
		return nil, err
	case done.KeepErr != nil:
		return nil, fmt.Errorf("keep the run: %w", done.KeepErr)
	case done.Run.Interrupted:
		return nil, context.Canceled
	}
	if m.result.Environment == nil {
		m.result.Environment = &done.Run.Environment
	}
	return &done.Run, nil
}

// status returns the server's status of its database, if it has one.
func (m *measurement) status(ctx context.Context, r *Regime) (s store.Status, err error) {
	if r.Source == "" {
		return s, nil
	}
	return s, m.ask(ctx, http.MethodGet, "/db/status", &s)
}

// calls returns the server's status of its downstream service, if it has one.
func (m *measurement) calls(ctx context.Context, r *Regime) (s downstream.Status, err error) {
	if r.Faults == "" {
		return s, nil
	}
	return s, m.ask(ctx, http.MethodGet, "/call/status", &s)
}

// bucket returns the server's status of its key-value bucket, if it has one.
func (m *measurement) bucket(ctx context.Context, r *Regime) (s quorum.Status, err error) {
	if r.Bucket == "" {
		return s, nil
	}
	return s, m.ask(ctx, http.MethodGet, "/kv", &s)
}

// ask reads a JSON response of the server.
func (m *measurement) ask(ctx context.Context, method, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, "http://"+m.child.Addr+path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// judge takes the rate from all runs, and everything else from the median one.
func judge(row *Row, runs []*record.Run) (err error) {
	rates := make([]float64, len(runs))
	for i, r := range runs {
		rates[i] = r.Rate.CompletedPerS
		if !r.Verdict.Outcome.Sound() {
			row.Failed++
		}
	}
	if row.PerS, err = stat.Median(rates, confidence); err != nil {
		return err
	}
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b *record.Run) int {
		return cmp.Compare(a.Rate.CompletedPerS, b.Rate.CompletedPerS)
	})
	middle := sorted[len(sorted)/2]
	v := &middle.Verdict
	row.Bottleneck, row.Outcome, row.Reason = string(v.Bottleneck), string(v.Outcome), prose.Reason(v)
	if v.NextBottleneck != nil {
		row.Next = prose.Text(v.NextBottleneck.Says)
	}
	if middle.Requests.Completed > 0 {
		row.Cost.Bytes = float64(middle.Bytes.Read) / float64(middle.Requests.Completed)
	}
	if middle.Subject != nil {
		row.Cost.ServerCPUNs = middle.Subject.CPUNsPerRequest
	}
	headroom(row, middle)
	return nil
}

// headroom takes the generator's headroom from its calibration, or from its use of the CPU.
func headroom(row *Row, r *record.Run) {
	row.Headroom = cmp.Or(r.Headroom(), r.RoomByUse())
	switch {
	case row.Headroom == 0:
		row.Caveat = "the generator's headroom is unknown"
	case row.Headroom < headroomLeast:
		row.Caveat = fmt.Sprintf("the generator's headroom is %s, below %d×: the rate may be its limit", ladder.Times(row.Headroom), headroomLeast)
	}
}

// costOfDatabase is the cost that the database counted between two statuses.
func costOfDatabase(row *Row, r *Regime, first, last *store.Status) {
	writes := float64(last.Writes - first.Writes)
	commits := float64(last.Commits - first.Commits)
	if r.Trips > 0 {
		trips := r.Trips
		if writes > 0 {
			trips *= commits / writes
		}
		row.Cost.RoundTrips = &trips
	}
	if r.Method != http.MethodPost || !(writes > 0) {
		return
	}
	syncs := commits // SQLite in WAL mode: one log sync per commit, unless synchronous is OFF
	switch {
	case r.Source == "postgres":
		syncs = float64(last.WALSyncs - first.WALSyncs)
	case slices.Contains(last.Settings, store.Setting{Name: "synchronous", Value: "OFF"}):
		syncs = 0
	}
	each := syncs / writes
	perS := each * row.PerS.Value
	row.Cost.Fsyncs, row.Cost.FsyncsPer = &each, &perS
}

// costOfCalls is the policy's result between two statuses.
func costOfCalls(row *Row, first, last *downstream.Status) {
	n := float64(last.Requests - first.Requests)
	if !(n > 0) {
		return
	}
	calls, answered := float64(last.Calls-first.Calls)/n, float64(last.Answered-first.Answered)/n
	row.Cost.RoundTrips, row.Cost.Answered = &calls, &answered
}

// costOfBucket is the cost that the bucket counted between two statuses.
func costOfBucket(row *Row, first, last *quorum.Status) {
	n := float64(last.Writes - first.Writes + last.Reads - first.Reads)
	if !(n > 0) {
		return
	}
	trips, commits := float64(last.Trips-first.Trips)/n, float64(last.Commits-first.Commits)/n
	row.Cost.RoundTrips, row.Cost.Commits = &trips, &commits
	if n := last.Commits - first.Commits; n > 0 {
		each := float64(last.CommitNs-first.CommitNs) / float64(n)
		row.Cost.CommitNs = &each
	}
}

// predict applies Little's law to the effect of a delay on the same work: the concurrency stays
// the same, and each request takes a quorum's round trip longer. That gives the lowest rate,
// since without the delay requests also waited for each other's CPU; the highest is that of the
// round trip alone.
func predict(r *Result) {
	var plain, late *Row
	for i := range r.Rows {
		switch r.Rows[i].Regime {
		case quorumName:
			plain = &r.Rows[i]
		case delayedName:
			late = &r.Rows[i]
		}
	}
	if plain == nil || late == nil || !(plain.PerS.Low > 0) {
		return
	}
	trip := 2 * delayed.Seconds()
	late.Predicted = &ladder.Prediction{
		Low: few / (few/plain.PerS.Low + trip), High: few / trip,
		Why: fmt.Sprintf("%d requests at a time, each %v longer than in %s (%s/s at least) and not shorter than that", few, 2*delayed, quorumName,
			unit.FormatSI(plain.PerS.Low)),
	}
}

// at70 measures the latency below the limit.
func (m *measurement) at70(ctx context.Context, r *Regime, row *Row) error {
	rate, err := unit.ParseRate(fmt.Sprintf("%.0f", max(1, loaded*row.PerS.Value)))
	if err != nil {
		return err
	}
	done, err := m.run(ctx, r, rate)
	if err != nil {
		return err
	}
	row.At70 = &ladder.Latency{
		TargetPerS: loaded * row.PerS.Value, P50Ns: done.Latency.Response.P50Ns, P99Ns: done.Latency.Response.P99Ns,
	}
	if done.Verdict.BacklogShare > 0.01 {
		row.At70.Caveat = "the queue grew: the machine was slower than in the runs before"
	} else if !done.Verdict.Outcome.Sound() {
		row.At70.Caveat = prose.Reason(&done.Verdict)
	}
	return nil
}

// sortRows sorts the fastest first.
func sortRows(r *Result) {
	slices.SortStableFunc(r.Rows, func(a, b Row) int {
		if a.NotMeasured != "" || b.NotMeasured != "" {
			return cmp.Compare(a.NotMeasured, b.NotMeasured)
		}
		return cmp.Compare(b.PerS.Value, a.PerS.Value)
	})
}
