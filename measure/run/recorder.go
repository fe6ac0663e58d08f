package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/measure/behind"
	"ceiling/measure/load"
	"ceiling/record"
)

// recorder is the Sink that writes events as they arrive, and keeps them for the verdict.
type recorder struct {
	writer       *record.Writer
	spec         *spec.Spec
	host         string
	options      *Options
	end          context.CancelFunc // of the run, for early stopping
	stoppedEarly string
	behind       *behind.Watch // the watch on what is behind the server, during the run

	state     Progress
	completed uint64

	mu     sync.Mutex // guards what any goroutine reports
	series record.Series
	kept   int // observed rows in it
}

// rowsMost bounds the observed rows kept for the verdict: three hours of a host with 100 per
// second, some 700 MB.
const rowsMost = 1 << 20

// Connected implements load.Observer.
func (r *recorder) Connected(established, asked int, window time.Time) {
	r.begin(window)
	r.state.Plan, r.state.Established, r.state.Asked = r.options.step, established, asked
	r.state.TotalS, r.state.Requests = r.spec.Duration.Seconds(), r.spec.Requests
	r.state.ElapsedS = -r.spec.Warmup.Seconds()
	r.tell()
}

// Window implements load.Observer.
func (r *recorder) Window(open bool, _ time.Time) {
	if !open {
		r.behind.Stop()
	}
}

// Interval implements load.Observer.
func (r *recorder) Interval(t *load.Tally, late bool) {
	row := LoadRow(r.host, t, late)
	row.Response = record.StepsOf(&t.Response)
	r.series.Load = append(r.series.Load, row)
	r.writer.AppendLoad(&row)
	if !t.Warmup {
		r.completed += t.Completed
	}
	if r.options.StopEarly != nil && r.stoppedEarly == "" {
		if r.stoppedEarly = r.options.StopEarly(&row, &t.Response); r.stoppedEarly != "" {
			r.end()
		}
	}
	r.state.Row, r.state.Completed, r.state.ElapsedS = row, r.completed, float64(t.EndNs)/1e9
	r.state.Response, r.state.BatchMeanNs = &t.Response, float64(t.HandledNs)/max(float64(t.Completed), 1)
	r.tell()
	r.state.Response = nil
}

// Observed implements Sink.
func (r *recorder) Observed(row record.ObservedRow) {
	r.writer.AppendObserved(row)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept++; r.kept <= rowsMost {
		r.series.Observed.Add(row)
	} else if r.kept == rowsMost+1 {
		r.series.NotMeasured = append(r.series.NotMeasured, record.NotMeasured{What: "observed rows", TNs: row.Observed().TNs, Part: true,
			Why: fmt.Sprintf("the verdict is from the first %d of them; the record has all", rowsMost)})
	}
	r.options.tell(Event{Observed: row})
}

// NotMeasured implements Sink.
func (r *recorder) NotMeasured(n record.NotMeasured) {
	n = r.options.veil.notMeasured(n)
	r.writer.AppendNotMeasured(n)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.series.NotMeasured = append(r.series.NotMeasured, n)
}

// AgentInterval implements Sink.
func (r *recorder) AgentInterval(agent string, t *load.Tally, late bool) {
	row := LoadRow(agent, t, late)
	r.writer.AppendAgent(&row)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.series.Agents = append(r.series.Agents, row)
	r.options.tell(Event{Agent: &row})
}

func (r *recorder) tell() { r.options.tell(Event{Progress: &r.state}) }

// stopShare is how much shorter than asked for, in percent, a window is that a script ended.
const stopShare = 5

// assemble builds the document of the run, without the subject and the verdict.
func (r *recorder) assemble(w *RunResult, env record.Environment) record.Run {
	t := &w.Result.Total
	run := figures(r.spec, w.Result, w.Connections, w.Threads)
	run.Schema, run.Started, run.Target, run.Spec = record.Schema, w.Result.Started, r.spec.Targets[0].URL, *r.spec
	run.WarmupS, run.Rate.Spread = r.spec.Warmup.Seconds(), record.SpreadOf(r.series.Load)
	run.Environment, run.NotMeasured = env, append(append([]record.NotMeasured{}, r.series.NotMeasured...), r.options.veil.missing()...)
	run.Interrupted, run.StoppedEarly = w.Result.Interrupted, r.stoppedEarly
	if from := r.spec.Targets[0].From; from != nil && from.What == spec.OriginScript && run.StoppedEarly == "" && !run.Interrupted &&
		time.Duration(w.Result.WindowNs) < r.spec.Duration-stopShare*r.spec.Duration/100 {
		run.StoppedEarly = "the script stopped its threads"
	}
	run.Generator.Headroom, run.Generator.HeadroomBy, run.Generator.Shortages = w.Headroom, w.HeadroomBy, w.Shortages
	record.Blame(run.Errors, r.spec.OverUnix(), w.Shortages)
	run.Agents, run.Fleet = w.Agents, w.Fleet
	run.Database, run.Downstream = r.behind.Database(), r.behind.Downstream()
	if len(w.Agents) > 0 {
		run.Generator.PID = 0 // each agent has its own
	}
	run.Unloaded = unloaded(w.Result.Unloaded)
	run.Latency.ResponseBins, run.Latency.ServiceBins = record.BinsOf(&t.Response), record.BinsOf(&t.Service)
	if e := w.Result.Edges; e != nil {
		run.Edges = &record.Edges{AtStartNs: e.CarriedNs, AtEndNs: e.InFlightNs}
	}
	if w.Result.First != nil {
		run.FirstAnswers = record.BinsOf(w.Result.First)
	}
	if r.spec.SLO.NeedsHistogram() {
		run.Latency.Response.HDR, run.Latency.Service.HDR = encoded(&t.Response), encoded(&t.Service)
		for _, first := range []struct {
			q *record.Quantiles
			h *hist.Hist
		}{{run.Latency.FirstByte, &t.Early.FirstByte}, {run.Latency.FirstEvent, &t.Early.FirstEvent}} {
			if first.q != nil {
				first.q.HDR = encoded(first.h)
			}
		}
	}
	return run
}

// figures returns the figures of a result: the part of the document that is the same for a whole
// run, for an agent's share, and for this process alone.
func figures(s *spec.Spec, l *load.Result, connections, threads int) record.Run {
	t := &l.Total
	elapsed := float64(l.WindowNs) / 1e9
	run := record.Run{
		Spec: *s,
		Load: record.Load{
			Connections: connections, Opened: l.Opened, Established: l.Established,
			Reconnects: t.Reconnects, Closes: closes(&t.Closes), Threads: threads, Pipelining: s.Pipelining,
			Mode: "closed", Engine: l.Engine, EngineWhy: l.EngineWhy, EngineFeatures: l.EngineFeatures,
			Arrivals: s.Arrivals, Protocol: protocolName(l), TLS: tlsOf(l.Handshakes, s.TLS, elapsed), HTTP2: http2Of(l.H2),
			Streams: streamsOf(l.Streams), Events: eventsOf(&t.Early, elapsed),
		},
		ElapsedS: elapsed,
		Requests: record.Requests{
			Sent: t.Sent + l.Carried, InFlightAtStart: l.Carried, Completed: t.Completed, Failed: t.Failed,
			InFlight: t.Sent + l.Carried - t.Completed - t.Failed, Unsent: l.Unsent, Resent: t.Resent,
			Due: l.Asked, LateAtEnd: l.LateAtEnd,
		},
		Bytes:    record.Bytes{Read: t.Read, Written: t.Written},
		Statuses: statuses(t), Errors: faults(t, l.Setup, s), ErrorResponses: errorResponses(l), Redirects: redirects(l),
		Latency:  latencies(l),
		ByTarget: byTarget(l, s), Generator: generator(l),
	}
	if s.Open() {
		run.Load.Mode = "open"
		run.Load.TargetPerS = s.Rate.PerSecond()
	}
	if elapsed > 0 {
		run.Rate.CompletedPerS = float64(t.Completed) / elapsed
		run.Rate.SentPerS = float64(t.Sent) / elapsed
	}
	return run
}

// latencies returns the quantiles of a result, with what the requests without a response say about
// them.
func latencies(l *load.Result) record.Latency {
	t := &l.Total
	out := record.Latency{Response: record.QuantilesOf(&t.Response), Service: record.QuantilesOf(&t.Service), Lag: record.QuantilesOf(&t.Lag)}
	first, event := new(record.Unanswered), new(record.Unanswered)
	if w := l.Waiting; w != nil {
		response := &record.Unanswered{Waiting: w.Response, TimedOut: timeouts(t)}
		service := &record.Unanswered{Waiting: w.Service, TimedOut: response.TimedOut}
		out.Response, out.Service = record.Bounded(&t.Response, response), record.Bounded(&t.Service, service)
		out.Waiting = &record.Waiting{Response: record.WaitedOf(response), Service: record.WaitedOf(service)}
		first = &record.Unanswered{Waiting: w.FirstByte, TimedOut: response.TimedOut}
		event = &record.Unanswered{Waiting: w.FirstEvent, TimedOut: response.TimedOut}
		waitedFirst, waitedEvent := record.WaitedOf(first), record.WaitedOf(event)
		out.Waiting.FirstByte, out.Waiting.FirstEvent = &waitedFirst, &waitedEvent
	}
	out.FirstByte, out.FirstEvent = bounded(&t.Early.FirstByte, first), bounded(&t.Early.FirstEvent, event)
	return out
}

// bounded returns the quantiles of a histogram with those that wait, nil if it is empty.
func bounded(h *hist.Hist, u *record.Unanswered) *record.Quantiles {
	if h.Count() == 0 {
		return nil
	}
	q := record.Bounded(h, u)
	return &q
}

// eventsOf converts the server-sent events of responses; nil if there were none.
func eventsOf(e *load.Early, elapsed float64) *record.Events {
	if e.Events == 0 {
		return nil
	}
	return &record.Events{Responses: e.Responses, Count: e.Events, PerS: float64(e.Events) / elapsed}
}

// timeouts returns how many requests failed for want of a response in time.
func timeouts(t *load.Tally) (n uint64) {
	for fault, k := range t.Faults {
		if fault.OfRequest() && fault.Cause == load.CauseTimeout {
			n += k
		}
	}
	return n
}

// closes converts the counts of closed connections; nil if there were none.
func closes(c *load.Closes) *record.Closes {
	if c.Most == 0 {
		return nil
	}
	return &record.Closes{Announced: c.Announced, Idle: c.Idle, InFlight: c.InFlight, Most: c.Most, AtMost: c.AtMost,
		IdleMeanNs: int64(c.IdleNs / max(c.Idle, 1)), Code: c.Code}
}

// unloaded converts the unloaded requests; nil if there were none.
func unloaded(l *load.Unloaded) *record.Unloaded {
	if l == nil {
		return nil
	}
	r := record.LoneOf(l.ServiceNs, l.Connections)
	r.RestNs = l.RestNs
	r.Sent, r.Failed, r.Bad, r.ElapsedS = len(l.ServiceNs)+l.Failed, l.Failed, l.Bad, float64(l.ElapsedNs)/1e9
	return r
}

// encoded encodes a histogram for the document, "" if it has no such form.
func encoded(h *hist.Hist) string {
	text, err := h.EncodeV2()
	if err != nil {
		return "" // histograms writes the same, and reports the failure
	}
	return text
}

// statuses of responses; messages and events have none, and count as 0.
func statuses(t *load.Tally) map[string]uint64 {
	m := map[string]uint64{}
	for code, n := range t.Statuses {
		if n > 0 && code > 0 {
			m[strconv.Itoa(code)] = n
		}
	}
	return m
}

// faults lists the errors of the window and, separately, those before it, the most frequent first,
// including responses with an unexpected status.
func faults(t *load.Tally, setup map[load.Fault]uint64, s *spec.Spec) []record.Error {
	list := []record.Error{}
	for f, n := range t.Faults {
		list = append(list, record.Error{Phase: f.Phase, Cause: f.Cause, Count: n})
	}
	for f, n := range setup {
		list = append(list, record.Error{Phase: f.Phase, Cause: f.Cause, Count: n, BeforeWindow: true})
	}
	for code, n := range t.Statuses {
		if n > 0 && code > 0 && !s.Expect.Has(code) {
			list = append(list, record.Error{Phase: record.PhaseStatus, Cause: strconv.Itoa(code), Count: n})
		}
	}
	slices.SortFunc(list, func(a, b record.Error) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Cause, b.Cause))
	})
	return list
}

// errorResponses converts the first response of each unexpected status, and against each condition.
func errorResponses(l *load.Result) (list []record.ErrorResponse) {
	for _, e := range l.Errors {
		list = append(list, record.ErrorResponse{Status: e.Status, Check: e.Check, Line: e.Line})
	}
	return list
}

// redirects converts the first redirect of each status.
func redirects(l *load.Result) (list []record.Redirect) {
	for _, r := range l.Redirects {
		list = append(list, record.Redirect{Status: r.Status, To: r.To})
	}
	return list
}

func byTarget(l *load.Result, s *spec.Spec) []record.TargetResult {
	var list []record.TargetResult
	var left []load.TargetWaiting
	if l.Waiting != nil {
		left = slices.SortedFunc(slices.Values(l.Waiting.Targets), func(a, b load.TargetWaiting) int { return cmp.Compare(a.Target, b.Target) })
	}
	u := new(record.Unanswered)
	for i := range l.Total.ByTarget {
		b := &l.Total.ByTarget[i]
		u.Waiting.Reset()
		for ; len(left) > 0 && left[0].Target == i; left = left[1:] {
			u.Waiting.RecordN(left[0].Ns, left[0].Count)
		}
		r := record.TargetResult{
			Target: s.Targets[i].Method + " " + s.Targets[i].URL, Weight: s.Targets[i].Weight,
			Completed: b.Completed, Failed: b.Failed, Statuses: map[string]uint64{},
			Response: record.Bounded(&b.Response, u),
		}
		for code, n := range b.Statuses {
			if code > 0 {
				r.Statuses[strconv.Itoa(code)] = n
			}
		}
		list = append(list, r)
	}
	return list
}

func generator(l *load.Result) record.Generator {
	t := &l.Total
	g := record.Generator{
		PID: os.Getpid(), UserNs: l.UserNs, SystemNs: l.SystemNs, AllocatedBytes: l.AllocatedBytes,
		BatchMaxNs: t.BatchMaxNs, Batches: t.Batches, Waits: t.Waits, CoalesceNs: t.GatherNs,
		RunDelay: -1, Workers: []record.Worker{},
	}
	if t.Completed > 0 {
		g.CPUNsPerRequest = float64(l.UserNs+l.SystemNs) / float64(t.Completed)
		g.HandlingMeanNs = float64(t.HandledNs) / float64(t.Completed)
	}
	if t.Batches > 0 {
		g.BatchMeanNs = float64(t.BatchNs) / float64(t.Batches)
	}
	if c := load.MergeCompose(l.Workers); c != nil {
		g.Source = &record.ComposeCost{What: c.What, Requests: c.Requests, CPUNs: c.CPUNs, Busy: c.Busy, DelayedNs: c.DelayedNs}
		if l.WindowNs > 0 {
			g.Source.WaitedShare = min(float64(c.WaitedNs)/float64(l.WindowNs), 1)
		}
	}
	for _, w := range l.Workers {
		g.Workers = append(g.Workers, record.Worker{
			Thread: w.Thread, Connections: w.Connections, Completed: w.Completed, Busy: w.Busy, RunDelay: w.RunDelay,
		})
		g.BusiestWorker = max(g.BusiestWorker, w.Busy)
		g.RunDelay = max(g.RunDelay, w.RunDelay)
	}
	return g
}

// histograms keeps the three distributions, in the interchange format.
func (r *recorder) histograms(l *load.Result) error {
	var err error
	for _, h := range []struct {
		name string
		of   *hist.Hist
	}{{"response", &l.Total.Response}, {"service", &l.Total.Service}, {"lag", &l.Total.Lag}} {
		text, e := h.of.EncodeV2()
		if e == nil {
			e = r.writer.Histogram(h.name, text)
		}
		err = errors.Join(err, e)
	}
	return err
}
