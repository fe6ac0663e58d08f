package verdict

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// invalidity is why a run proves nothing.
type invalidity struct {
	because    string
	bottleneck record.Bottleneck // what limited it where that is known, else ""
	next       string
	evidence   []record.Evidence
	// nothing says that no figure of the run can be used, not even to name what
	// was near its limit.
	nothing bool
}

// with is the evidence of the bottleneck, where that is the invalidity's own.
func (v *invalidity) with(found finding) []record.Evidence {
	if v.bottleneck != found.bottleneck || v.nothing {
		return nil
	}
	return found.pro
}

// invalidAccounting looks for a record that contradicts itself: nothing can be built
// on it, whatever else it says.
func invalidAccounting(f *facts) *invalidity {
	r := f.run.Requests
	// Compared as differences of unsigned numbers: they wrap the same way.
	if r.Sent != r.Completed+r.Failed+r.InFlight && !f.run.Unfinished && len(lostOf(f.run)) == 0 {
		return &invalidity{
			nothing: true,
			because: fmt.Sprintf("request accounting mismatch: %s sent, but %s completed, %s failed and %s in flight",
				count(r.Sent), count(r.Completed), count(r.Failed), count(r.InFlight)),
			next: "rerun; if it happens twice, it is a bug in the generator: report it with the record",
			evidence: []record.Evidence{
				record.NewEvidence("requests.sent", float64(r.Sent), "requests", "%s requests sent", count(r.Sent)),
				record.NewEvidence("requests.completed", float64(r.Completed), "requests", "%s completed", count(r.Completed)),
				record.NewEvidence("requests.failed", float64(r.Failed), "requests", "%s failed", count(r.Failed)),
				record.NewEvidence("requests.in_flight", float64(r.InFlight), "requests", "%s in flight", count(r.InFlight)),
			},
		}
	}
	if causes := causesOfRequests(f.run); causes != r.Failed && !f.run.Unfinished && len(lostOf(f.run)) == 0 {
		return &invalidity{
			nothing: true,
			because: fmt.Sprintf("request accounting mismatch: %s requests failed, but the errors by cause add up to %s", count(r.Failed),
				count(causes)),
			next: "rerun; if it happens twice, it is a bug in the generator: report it with the record",
			evidence: []record.Evidence{record.NewEvidence("requests.failed", float64(r.Failed), "requests", "%s requests failed%s", count(r.Failed),
				causesOf(f.run))},
		}
	}
	return f.invalidAgentsAccounting()
}

// causesOfRequests are the errors of the window by which a request failed.
func causesOfRequests(run *record.Run) (n uint64) {
	for _, e := range run.Errors {
		if e.OfRequest() && !e.BeforeWindow {
			n += e.Count
		}
	}
	return n
}

// invalidKilled looks for a run that nobody saw the end of.
func invalidKilled(f *facts) *invalidity {
	if !f.run.Unfinished || f.forming {
		return nil
	}
	return &invalidity{because: f.run.Killed(), next: record.KilledNext}
}

// invalidNothing looks for a run in which nothing happened.
func invalidNothing(f *facts) *invalidity {
	run := f.run
	causes := causesOf(run)
	switch {
	case run.Requests.Completed > 0:
		return nil
	case run.Load.Established == 0 && run.Requests.Sent == 0:
		return &invalidity{
			nothing: true,
			because: "no connection was established" + causes,
			next:    notListening(run),
			evidence: []record.Evidence{record.NewEvidence("load.established", 0, "connections", "none of %d connections was established",
				run.Load.Connections)},
		}
	case run.Requests.Failed > 0 && f.neverAccepted() > 0:
		return &invalidity{
			nothing:    true,
			bottleneck: record.AcceptQueue,
			because:    "no request was answered" + causes + ": " + f.unacceptedSays(),
			next:       f.unacceptedNext(),
			evidence:   f.unacceptedEvidence(),
		}
	case run.Requests.Failed > 0:
		return &invalidity{
			nothing: true,
			because: "no request was answered" + causes,
			next:    "send one request by hand (curl -v); fix the server, or raise --timeout",
			evidence: []record.Evidence{record.NewEvidence("requests.failed", float64(run.Requests.Failed), "requests", "%s requests failed, none completed",
				count(run.Requests.Failed))},
		}
	}
	return &invalidity{
		nothing:  true,
		because:  "no request completed within the window" + causes,
		next:     "measure longer than one response takes (-d)",
		evidence: []record.Evidence{record.NewEvidence("requests.completed", 0, "requests", "no request completed in %.3g s", f.elapsedS)},
	}
}

// notListening is what to do where no connection was established.
func notListening(run *record.Run) string {
	refused := func(e record.Error) bool { return e.Cause == "ECONNREFUSED" }
	target, err := url.Parse(run.Target)
	if err != nil || target.Host == "" || !slices.ContainsFunc(run.Errors, refused) {
		return "check that the target's address and port are right and reachable, then rerun"
	}
	return fmt.Sprintf("nothing is listening on %s; start the server, or check the port (ss -ltn)", target.Host)
}

// causesOf lists the most frequent causes of failure, or nothing.
func causesOf(run *record.Run) string {
	list := slices.Clone(run.Errors)
	slices.SortStableFunc(list, func(a, b record.Error) int {
		switch {
		case a.Count > b.Count:
			return -1
		case a.Count < b.Count:
			return 1
		}
		return strings.Compare(a.Phase+a.Cause, b.Phase+b.Cause)
	})
	var parts []string
	for i, e := range list {
		if i == 3 {
			break
		}
		when := ""
		if e.BeforeWindow {
			when = ", before the window"
		}
		parts = append(parts, fmt.Sprintf("%s × %s (%s%s)", count(e.Count), e.Cause, e.Phase, when))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// littleFacts is Little's law for a closed loop: N slots hold N = X·R requests.
// Over a window it is exact with what the requests at both edges had waited:
// slots × window = the response times of the answered + how long those in flight
// at the end have waited − how long those in flight at the beginning had.
type littleFacts struct {
	known    bool
	inFlight float64 // X·R, with the edges where they are known
	off      float64 // how far X·R alone is from the slots, of these
	allowed  float64 // how far inFlight may be
	// binding: with errors or reconnects a slot is empty at times, and a run that
	// ends after so many requests runs dry at its end.
	binding bool
}

func (f *facts) little() (l littleFacts) {
	run, r := f.run, &f.run.Latency.Response
	if f.open || f.slots <= 0 || r.Count == 0 || f.rate <= 0 || !(r.MeanNs > 0) || f.elapsedS <= 0 {
		return l
	}
	l.known, l.inFlight, l.allowed = true, f.rate*r.MeanNs/1e9, littleTolerance
	l.off = math.Abs(l.inFlight-f.slots) / f.slots
	clean := len(run.Errors) == 0 && run.Requests.Failed == 0 && run.Load.Reconnects == 0 &&
		!run.Spec.NewConnections && run.Load.Established == run.Load.Connections && len(lostOf(run)) == 0
	l.binding = clean && run.Spec.Requests == 0 && !run.Interrupted && !run.Unfinished
	if e := run.Edges; e != nil {
		l.inFlight += (float64(e.AtEndNs) - float64(e.AtStartNs)) / 1e9 / f.elapsedS
		return l
	}
	// Not known, an edge is expected to hold slots × E[R²] / 2 E[R], as a long
	// request is met there more often than a short one; and there are two.
	l.allowed += 2 * secondMoment(&run.Latency) / (2 * r.MeanNs) / 1e9 / f.elapsedS
	l.binding = l.binding && float64(run.Requests.Completed) >= littleCycles*f.slots
	return l
}

// secondMoment is the mean square of the response times, ns²; where only
// quantiles are known the most that it can be.
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

func invalidLittle(f *facts) *invalidity {
	law := f.little()
	if !law.known || !law.binding || math.Abs(law.inFlight-f.slots) <= law.allowed*f.slots {
		return nil
	}
	l := &f.run.Latency.Response
	out := &invalidity{
		nothing: true,
		because: fmt.Sprintf("Little's law does not hold: %s × %s are %.3g requests in flight, but there were %.0f slots",
			unit.FormatRate(f.rate), ns(l.MeanNs), law.inFlight, f.slots),
		next: "rerun on an idle machine: rate and response time contradict each other",
		evidence: []record.Evidence{
			record.NewEvidence("rate.completed_per_s", f.rate, "1/s", "%s", unit.FormatRate(f.rate)),
			record.NewEvidence("latency.response.mean_ns", l.MeanNs, "ns", "mean response time %s", ns(l.MeanNs)),
			record.NewEvidence("load.connections", f.slots, "slots", "%.0f slots: connections × pipelining", f.slots),
		},
	}
	if e := f.run.Edges; e != nil {
		out.evidence = append(out.evidence, record.NewEvidence("edges", float64(e.AtEndNs)-float64(e.AtStartNs), "ns",
			"summed age of the requests in flight: %s when the window opened, %s when it closed", ns(float64(e.AtStartNs)),
			ns(float64(e.AtEndNs))))
	}
	return out
}

// invalidCPURows looks for a host whose CPU accounting cannot be believed.
func invalidCPURows(f *facts) *invalidity {
	for _, h := range f.machines() {
		if h.rows > 0 && float64(h.bad) >= badRowsMost*float64(h.rows) {
			return &invalidity{
				because: fmt.Sprintf("%d of %s%s %s inconsistent and discarded, so CPU use is unknown", h.bad,
					unit.Plural(h.rows, "CPU sample", "CPU samples"), f.of(h.name), were(h.bad)),
				next: "rerun; if this virtual machine's clock jumps, use another one",
				evidence: []record.Evidence{record.NewEvidence("series.cpu.cores.bad", float64(h.bad), "rows", "%d of %d per-core CPU samples were inconsistent",
					h.bad, h.rows)},
			}
		}
	}
	return nil
}

// invalidThrottled looks for a generator whose CPU was held back by the host:
// what it then measures is its own quota.
func invalidThrottled(f *facts) *invalidity {
	for _, v := range append([]*facts{f}, f.agents...) {
		q := v.own.quota.throttled
		if q.known && q.value >= throttledShare && !(f.subject.known && f.subject.quota == v.own.quota) {
			return &invalidity{
				because:    fmt.Sprintf("%s was throttled by its cgroup's CPU quota in %s of the periods", v.who(), unit.Percent(q.value)),
				bottleneck: record.LoadGenerator,
				next:       fmt.Sprintf("give %s's cgroup more CPU", v.who()),
				evidence: []record.Evidence{record.NewEvidence("series.throttle.throttled", q.value, "share", "%s's cgroup was throttled in %s of the periods",
					v.who(), unit.Percent(q.value))},
			}
		}
	}
	if t := f.clock; t.throttles > 0 && t.slowest > 0 && t.slowest < clockDrop*t.fastest {
		return &invalidity{
			because: fmt.Sprintf("the host%s was throttled: %.0f thermal events, and its clock fell from %.2f to %.2f GHz", f.of(t.host),
				t.throttles, t.fastest/1e6, t.slowest/1e6),
			next:     "cool the machine, then rerun",
			evidence: []record.Evidence{record.NewEvidence("series.freq.throttles", t.throttles, "events", "%.0f thermal throttle events", t.throttles)},
		}
	}
	return nil
}

// invalidSchedule looks for an open loop whose rate was not sent. Whose fault it
// was is told by what was full meanwhile.
func invalidSchedule(f *facts, slo sloResult, found *finding) *invalidity {
	s := &f.schedule
	grew := s.owed.known && s.owed.value > owedShare
	if !f.open || s.missed <= unsentShare && !grew {
		return nil
	}
	ev := []record.Evidence{
		record.NewEvidence("load.target_per_s", f.run.Load.TargetPerS, "1/s", "asked %s", unit.FormatRate(f.run.Load.TargetPerS)),
		record.NewEvidence("requests.unsent", s.missed, "share", "%s of the %s requests due were not sent in time", unit.Percent(s.missed),
			count(uint64(s.asked))),
	}
	g := &f.generator
	if s.missed <= unsentShare {
		if len(slo.broken) > 0 || found.bottleneck == record.Failures || found.bottleneck == record.AcceptQueue {
			return nil
		}
		return &invalidity{
			because:    fmt.Sprintf("the target rate was sent but not answered: when the window closed, %s of the requests were still waiting and the queue was growing; this rate is not sustainable. %s", unit.Percent(s.owed.value), upper(found.because)),
			bottleneck: found.bottleneck,
			next:       "lower the rate (-R)",
			evidence: append(ev, record.NewEvidence("series.load.in_flight", s.owed.value, "share", "the backlog grew by %s of the requests due",
				unit.Percent(s.owed.value))),
		}
	}
	short := fmt.Sprintf("the target rate was not sent: %s of the requests were missing or late", unit.Percent(s.missed))
	if f.generatorFull() && !serverSide(found.bottleneck) {
		worst := f.worst()
		return &invalidity{because: short + ", because " + worst.who() + " was full", bottleneck: record.LoadGenerator,
			evidence: append(ev, f.generatorEvidence()...), next: generatorNext(worst)}
	}
	if len(slo.broken) > 0 && g.busy.known && (f.starvedOfSlots() || !s.slotsUsed.known) {
		return nil // a broken SLO is proof enough: the response time counts from when a request was due
	}
	if f.starvedOfSlots() {
		ev = append(ev, record.NewEvidence("series.load.in_flight", s.slotsUsed.value, "share", "all %.0f slots were in use in %s of the samples", f.slots,
			unit.Percent(s.slotsUsed.value)))
		return &invalidity{
			because:    fmt.Sprintf("%s, because every slot was in use: these are closed-loop figures at concurrency %.0f, not latencies at the target rate. %s", short, f.slots, upper(found.because)),
			bottleneck: found.bottleneck,
			next: fmt.Sprintf("lower the rate (-R), or raise the concurrency (-c above %d); for the bottleneck: %s", f.run.Load.Connections,
				found.next), evidence: ev,
		}
	}
	if v := f.heldUp(found.bottleneck); v != nil {
		g := &v.generator
		return &invalidity{
			because: fmt.Sprintf("%s, because %s was starved by its own host: its busiest worker ran %s of the time and waited for a CPU %s", short,
				v.who(), unit.Percent(g.busy.value), unit.Percent(g.delay.value)),
			bottleneck: record.LoadGenerator, evidence: append(ev, v.generatorEvidence()...),
			next: "check " + v.who() + " for a CPU quota; otherwise " + v.starvedNext(),
		}
	}
	return &invalidity{because: short + "; the cause was not recorded", evidence: ev,
		next: "watch both ends, or lower the rate (-R)"}
}

// heldUp is the generator, of several agents the worst, that fell behind its own
// schedule while it was kept from a CPU, or had hardly any left; nil where there
// is none. Its time need not be full for that: of a worker that a quota stops,
// 87 to 110 % were seen as waiting, and the quota itself cannot be read from
// within a network namespace. Where the server's side was full, that is to blame
// for all who fell behind, unless others kept to their schedule.
func (f *facts) heldUp(bottleneck record.Bottleneck) *facts {
	all := f.agents
	if len(all) == 0 {
		all = []*facts{f}
	}
	var worst *facts
	kept := false
	for _, v := range all {
		if v.schedule.missed <= unsentShare {
			kept = true
			continue
		}
		g := &v.generator
		short := g.busy.known && (g.delay.value >= starvedDelay || math.Max(g.wanting.value, g.busy.value) >= generatorNear)
		if short && (worst == nil || g.delay.value > worst.generator.delay.value) {
			worst = v
		}
	}
	if serverSide(bottleneck) && !kept {
		return nil
	}
	return worst
}

// serverSide tells whether a bottleneck is on the server's side, or shared with it.
func serverSide(bottleneck record.Bottleneck) bool {
	return slices.Contains([]record.Bottleneck{record.ServerCPU, record.SharedCPU, record.ServerThread, record.ServerBlocked, record.Uneven},
		bottleneck)
}
