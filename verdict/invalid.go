package verdict

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"ceiling/record"
)

// invalidity is why a run is invalid.
type invalidity struct {
	because    []record.Statement
	bottleneck record.Bottleneck // what limited it if known, else ""
	next       []record.Statement
	evidence   []record.Evidence
	// nothing: no figure of the run can be used, not even to name what was near its limit.
	nothing bool
}

// with returns the bottleneck's evidence if the invalidity names the same bottleneck.
func (v *invalidity) with(found finding) []record.Evidence {
	if v.bottleneck != found.bottleneck || v.nothing {
		return nil
	}
	return found.pro
}

// invalidAccounting looks for a record that contradicts itself; no conclusion can build on it.
func invalidAccounting(f *runFacts) *invalidity {
	r := f.run.Requests
	// Compared as differences of unsigned numbers: they wrap the same way.
	if r.Sent != r.Completed+r.Failed+r.InFlight && !f.run.Unfinished && len(lostOf(f.run)) == 0 {
		counted := func(name string, n uint64) record.Evidence {
			return record.NewEvidence("requests."+name, float64(n), "requests", say("requests."+name, with{"requests": n}))
		}
		return &invalidity{
			nothing: true,
			because: just("accounting.requests", with{"sent": r.Sent, "completed": r.Completed, "failed": r.Failed, "in_flight": r.InFlight}),
			next:    just("accounting.next", nil),
			evidence: []record.Evidence{
				counted("sent", r.Sent), counted("completed", r.Completed), counted("failed", r.Failed), counted("in_flight", r.InFlight),
			},
		}
	}
	if causes := causesOfRequests(f.run); causes != r.Failed && !f.run.Unfinished && len(lostOf(f.run)) == 0 {
		return &invalidity{
			nothing: true,
			because: just("accounting.causes", with{"failed": r.Failed, "causes": causes}),
			next:    just("accounting.next", nil),
			evidence: []record.Evidence{record.NewEvidence("requests.failed", float64(r.Failed), "requests",
				say("requests.failed-by", with{"requests": r.Failed, "causes": causesOf(f.run)}))},
		}
	}
	return f.invalidAgentsAccounting()
}

// causesOfRequests counts the errors in the window that failed a request.
func causesOfRequests(run *record.Run) (n uint64) {
	for _, e := range run.Errors {
		if e.OfRequest() && !e.BeforeWindow {
			n += e.Count
		}
	}
	return n
}

// invalidKilled looks for a run that was killed before it finished.
func invalidKilled(f *runFacts) *invalidity {
	if !f.run.Unfinished || f.forming {
		return nil
	}
	return &invalidity{because: f.run.Killed(), next: record.KilledNext()}
}

// invalidNothing looks for a run without a completed request.
func invalidNothing(f *serverSide) *invalidity {
	run := f.base.run
	causes := with{"causes": causesOf(run)}
	switch {
	case run.Requests.Completed > 0:
		return nil
	case run.Load.Established == 0 && run.Requests.Sent == 0:
		because, next := unconnected(run)
		return &invalidity{
			nothing: true,
			because: because,
			next:    next,
			evidence: []record.Evidence{record.NewEvidence("load.established", 0, "connections",
				say("connections.none", with{"asked": run.Load.Connections}))},
		}
	case run.Requests.Failed > 0 && f.neverAccepted() > 0:
		return &invalidity{
			nothing:    true,
			bottleneck: record.AcceptQueue,
			because:    just("nothing.not-accepted", with{"causes": causes["causes"], "why": f.unacceptedSays()}),
			next:       f.unacceptedNext(),
			evidence:   f.unacceptedEvidence(),
		}
	case run.Requests.Failed > 0:
		return &invalidity{
			nothing: true,
			because: just("nothing.not-answered", causes),
			next:    unanswered(run),
			evidence: []record.Evidence{record.NewEvidence("requests.failed", float64(run.Requests.Failed), "requests",
				say("requests.all-failed", with{"requests": run.Requests.Failed}))},
		}
	}
	next := just("nothing.not-completed.next", nil)
	if run.StoppedEarly != "" {
		next = just("nothing.stopped.next", with{"why": run.StoppedEarly})
	}
	if len(run.Errors) > 0 || otherProtocol(run) != nil {
		next = unanswered(run)
	}
	return &invalidity{
		nothing: true,
		because: just("nothing.not-completed", causes),
		next:    next,
		evidence: []record.Evidence{record.NewEvidence("requests.completed", 0, "requests",
			say("requests.none-completed", with{"elapsed_s": f.base.elapsedS}))},
	}
}

// causesOf lists the three most frequent causes of failure.
func causesOf(run *record.Run) []record.Statement {
	list := slices.Clone(run.Errors)
	list = slices.DeleteFunc(list, func(e record.Error) bool { // also listed for the window
		return e.BeforeWindow && slices.ContainsFunc(run.Errors, func(o record.Error) bool {
			return !o.BeforeWindow && o.Phase == e.Phase && o.Cause == e.Cause
		})
	})
	slices.SortStableFunc(list, func(a, b record.Error) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Phase+a.Cause, b.Phase+b.Cause))
	})
	var causes []record.Statement
	for _, e := range list[:min(len(list), 3)] {
		causes = append(causes, say("errors.cause", with{"count": e.Count, "cause": e.Cause, "phase": e.Phase, "before_window": e.BeforeWindow}))
	}
	return causes
}

// littleFacts is Little's law for a closed loop: N slots hold N = X·R requests. Over a window it
// is exact once the edges are included: slots × window = the response times of the completed
// requests + how long those in flight at the end have waited − how long those in flight at the
// start had waited.
type littleFacts struct {
	known    bool
	inFlight float64 // X·R, plus the edges if known
	off      float64 // how far X·R alone deviates from the slots, as a share
	allowed  float64 // how far inFlight may deviate
	// binding is false if slots may be empty at times: with errors or reconnects, or in a run
	// that ends after N requests and runs dry.
	binding bool
}

func (f *runFacts) little() (l littleFacts) {
	run, r := f.run, &f.run.Latency.Response
	if f.open || f.slots <= 0 || r.Count == 0 || f.rate <= 0 || !(r.MeanNs > 0) || f.elapsedS <= 0 {
		return l
	}
	l.known, l.inFlight, l.allowed = true, f.rate*r.MeanNs/1e9, littleTolerance
	l.off = math.Abs(l.inFlight-f.slots) / f.slots
	clean := len(run.Errors) == 0 && run.Requests.Failed == 0 && run.Load.Reconnects == 0 &&
		run.Spec.NewConnections == 0 && run.Load.Established == run.Load.Connections && len(lostOf(run)) == 0
	if s := run.Generator.Source; s != nil {
		clean = clean && s.DelayedNs == 0
	}
	l.binding = clean && run.Spec.Requests == 0 && !run.Interrupted && !run.Unfinished && run.StoppedEarly == ""
	if e := run.Edges; e != nil {
		l.inFlight += (float64(e.AtEndNs) - float64(e.AtStartNs)) / 1e9 / f.elapsedS
		return l
	}
	// If unknown, an edge is expected to hold slots × E[R²] / 2 E[R], since it is more likely to
	// hit a long request than a short one; there are two edges.
	l.allowed += 2 * secondMoment(&run.Latency) / (2 * r.MeanNs) / 1e9 / f.elapsedS
	l.binding = l.binding && float64(run.Requests.Completed) >= littleCycles*f.slots
	return l
}

// secondMoment returns the mean square of the response times, ns²; if only quantiles are known,
// its upper bound.
func secondMoment(l *record.Latency) float64 {
	n, sum := 0.0, 0.0
	for _, b := range l.ResponseBins {
		n += float64(b.Count)
		sum += float64(b.Count) * float64(b.Ns) * float64(b.Ns)
	}
	if n > 0 {
		return sum / n
	}
	q := &l.Response
	square := func(ns int64) float64 { return float64(ns) * float64(ns) }
	slowest := max(q.P50Ns, q.P90Ns, q.P99Ns, q.P999Ns, q.MaxNs)
	most := .5*square(q.P50Ns) + .4*square(q.P90Ns) + .09*square(q.P99Ns) + .009*square(q.P999Ns) + .001*square(slowest)
	return math.Min(most, float64(slowest)*q.MeanNs)
}

func invalidLittle(f *runFacts) *invalidity {
	law := f.little()
	if !law.known || !law.binding || math.Abs(law.inFlight-f.slots) <= law.allowed*f.slots {
		return nil
	}
	l := &f.run.Latency.Response
	out := &invalidity{
		nothing: true,
		because: just("little.broken", with{"completed_per_s": f.rate, "mean_ns": l.MeanNs, "in_flight": law.inFlight, "slots": f.slots}),
		next:    just("little.broken.next", nil),
		evidence: []record.Evidence{
			record.NewEvidence("rate.completed_per_s", f.rate, "1/s", say("rate", with{"per_s": f.rate})),
			record.NewEvidence("latency.response.mean_ns", l.MeanNs, "ns", say("latency.mean", with{"mean_ns": l.MeanNs})),
			record.NewEvidence("load.connections", f.slots, "slots", say("slots", with{"slots": f.slots})),
		},
	}
	if e := f.run.Edges; e != nil {
		out.evidence = append(out.evidence, record.NewEvidence("edges", float64(e.AtEndNs)-float64(e.AtStartNs), "ns",
			say("little.edges", with{"start_ns": e.AtStartNs, "end_ns": e.AtEndNs})))
	}
	return out
}

// invalidCPURows looks for a host whose CPU accounting is not credible.
func invalidCPURows(f *cpuFacts) *invalidity {
	for _, h := range f.machines() {
		if h.rows > 0 && float64(h.bad) >= badRowsMost*float64(h.rows) {
			bad := say("cpu.samples-bad", with{"bad": h.bad, "rows": h.rows, "host": f.base.named(h.name)})
			return &invalidity{
				because:  just("cpu.samples-inconsistent", with{"samples": bad}),
				next:     just("cpu.samples-inconsistent.next", nil),
				evidence: []record.Evidence{record.NewEvidence("series.cpu.cores.bad", float64(h.bad), "rows", bad)},
			}
		}
	}
	return nil
}

// invalidThrottled looks for a generator that its cgroup quota throttled: it then measures its
// own quota.
func invalidThrottled(f *facts) *invalidity {
	for _, v := range append([]*facts{f}, f.cpu.generator.agents...) {
		q := v.cpu.generator.own.quota.throttled
		if q.known && q.value >= throttledShare && !(f.cpu.server.subject.known && f.cpu.server.subject.quota == v.cpu.generator.own.quota) {
			throttled := say("quota.throttled", with{"who": v.cpu.generator.who(), "share": q.value})
			return &invalidity{
				because:    []record.Statement{throttled},
				bottleneck: record.LoadGenerator,
				next:       just("quota.throttled.next", with{"who": v.cpu.generator.who()}),
				evidence:   []record.Evidence{record.NewEvidence("series.throttle.throttled", q.value, "share", throttled)},
			}
		}
	}
	if t := f.cpu.clock; t.throttles > 0 && t.slowest > 0 && t.slowest < clockDrop*t.fastest {
		return &invalidity{
			because: just("clock.throttled", with{"host": f.base.named(t.host), "events": t.throttles, "from_ghz": t.fastest / 1e6, "to_ghz": t.slowest / 1e6}),
			next:    just("clock.throttled.next", nil),
			evidence: []record.Evidence{record.NewEvidence("series.freq.throttles", t.throttles, "events",
				say("clock.throttles", with{"events": t.throttles}))},
		}
	}
	return nil
}

// invalidSchedule looks for an open loop that did not send its target rate. What was full at the
// time tells whose fault it was.
func invalidSchedule(f *facts, slo sloResult, found *finding) *invalidity {
	s := &f.base.schedule
	grew := s.owed.known && s.owed.value > backlogMax
	if !f.base.open || s.missed <= unsentShare && !grew {
		return nil
	}
	ev := []record.Evidence{
		record.NewEvidence("load.target_per_s", f.base.run.Load.TargetPerS, "1/s", say("rate.asked", with{"per_s": f.base.run.Load.TargetPerS})),
		record.NewEvidence("requests.unsent", s.missed, "share", say("schedule.unsent", with{"share": s.missed, "due": s.asked})),
	}
	if s.missed <= unsentShare {
		if len(slo.broken) > 0 || found.bottleneck == record.Failures || found.bottleneck == record.AcceptQueue {
			return nil
		}
		return &invalidity{
			because:    just("schedule.not-answered", with{"share": s.owed.value, "found": found.because}),
			bottleneck: found.bottleneck,
			next:       just("schedule.lower", nil),
			evidence: append(ev, record.NewEvidence("series.load.in_flight", s.owed.value, "share",
				say("schedule.backlog", with{"share": s.owed.value}))),
		}
	}
	if f.cpu.generator.full() && !onServerSide(found.bottleneck) {
		worst := f.worst()
		return &invalidity{because: just("schedule.generator-full", with{"share": s.missed, "who": worst.cpu.generator.who()}),
			bottleneck: record.LoadGenerator, evidence: append(ev, f.generatorEvidence()...), next: generatorNext(worst.cpu.generator)}
	}
	if len(slo.broken) > 0 && f.cpu.generator.self.busy.known && (f.base.starvedOfSlots() || !s.slotsUsed.known) {
		return nil // a failed SLO is proof enough: response time counts from when a request was due
	}
	if f.base.starvedOfSlots() {
		return &invalidity{
			because:    just("schedule.slots", with{"share": s.missed, "slots": f.base.slots, "found": found.because}),
			bottleneck: found.bottleneck,
			next:       just("schedule.slots.next", with{"connections": f.base.run.Load.Connections, "next": found.next}),
			evidence: append(ev, record.NewEvidence("series.load.in_flight", s.slotsUsed.value, "share",
				say("slots.used", with{"slots": f.base.slots, "share": s.slotsUsed.value}))),
		}
	}
	if v := f.heldUp(found.bottleneck); v != nil {
		g := &v.cpu.generator.self
		return &invalidity{
			because: just("schedule.generator-starved", with{"share": s.missed, "who": v.cpu.generator.who(), "busy": g.busy.value,
				"delayed": g.delay.value}),
			bottleneck: record.LoadGenerator, evidence: append(ev, v.generatorEvidence()...),
			next: just("schedule.generator-starved.next", with{"who": v.cpu.generator.who(), "next": v.cpu.starvedNext()}),
		}
	}
	return &invalidity{because: just("schedule.unexplained", with{"share": s.missed}), evidence: ev, next: just("schedule.unexplained.next", nil)}
}

// heldUp returns the generator (of several agents the worst) that fell behind its own schedule
// while it was kept off a CPU or had hardly any CPU left; nil if there is none. It need not be
// full: a quota-throttled worker showed 87 to 110 % of its time as waiting, and the quota itself
// cannot be read from within a network namespace. If the server's side was full, that explains
// every agent that fell behind, unless others kept to their schedule.
func (f *facts) heldUp(bottleneck record.Bottleneck) *facts {
	all := f.cpu.generator.agents
	if len(all) == 0 {
		all = []*facts{f}
	}
	var worst *facts
	kept := false
	for _, v := range all {
		if v.base.schedule.missed <= unsentShare {
			kept = true
			continue
		}
		g := &v.cpu.generator.self
		short := g.busy.known && (g.delay.value >= starvedDelay || math.Max(g.wanting.value, g.busy.value) >= generatorNear)
		if short && (worst == nil || g.delay.value > worst.cpu.generator.self.delay.value) {
			worst = v
		}
	}
	if onServerSide(bottleneck) && !kept {
		return nil
	}
	return worst
}

// onServerSide reports whether a bottleneck is on the server's side, or shared with it.
func onServerSide(bottleneck record.Bottleneck) bool {
	return slices.Contains([]record.Bottleneck{record.ServerCPU, record.SharedCPU, record.ServerThread, record.ServerBlocked, record.Uneven},
		bottleneck)
}
