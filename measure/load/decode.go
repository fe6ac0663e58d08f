package load

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"ceiling/internal/hist"
)

// readStatus reads a code and its count; codes ascend.
func (r *reader) readStatus(before int) (status int, n uint64) {
	status, n = r.number(), r.uint()
	r.refuse(status <= before || status >= len(Tally{}.Statuses) || n == 0)
	return status, n
}

func (r *reader) readTally(t *Tally) {
	t.Warmup = r.bool()
	t.StartNs, t.EndNs = r.int(), r.int()
	// The bounds keep differences of two times from overflowing, and no tally crosses the window's
	// opening.
	r.refuse(t.StartNs < -maxTime || t.EndNs > maxTime || t.EndNs < t.StartNs || t.Warmup && t.EndNs > 0 || !t.Warmup && t.StartNs < 0)
	for _, n := range t.counts() {
		*n = r.uint()
	}
	for _, n := range t.times() {
		*n = r.int()
		r.refuse(*n < 0)
	}
	t.Connected = int(r.int())
	r.refuse(t.Connected < 0)
	t.Busy = r.float()
	for status, left := -1, r.uint(); left > 0 && r.err == nil; left-- {
		var n uint64
		if status, n = r.readStatus(status); r.err == nil {
			t.Statuses[status] = n
		}
	}
	r.readFaults(t.Faults)
	for _, h := range histsOf(t) {
		r.sized(h.UnmarshalBinary)
	}
	if n := r.uint(); r.err == nil && n != uint64(len(t.ByTarget)) {
		r.fail(fmt.Errorf("it is of a run with %d targets, this one has %d", n, len(t.ByTarget)))
	}
	for i := range t.ByTarget {
		r.readTarget(&t.ByTarget[i])
	}
}

func (r *reader) readTarget(t *TargetTally) {
	t.Completed, t.Failed = r.uint(), r.uint()
	for status, left := -1, r.uint(); left > 0 && r.err == nil; left-- {
		var n uint64
		if status, n = r.readStatus(status); r.err == nil {
			t.Statuses[status] = n
		}
	}
	r.sized(t.Response.UnmarshalBinary)
}

func (r *reader) readFaults(into map[Fault]uint64) {
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		f := Fault{Phase: r.text(), Cause: r.text()}
		n := r.uint()
		_, twice := into[f]
		r.refuse(twice || n == 0)
		if r.err == nil {
			into[f] = n
		}
	}
}

// readUnloaded reads the unloaded requests and the first responses.
func (r *reader) readUnloaded(to *Result) {
	if r.bool() {
		l := &Unloaded{Connections: r.number(), Failed: r.number(), Bad: r.number()}
		n, rests := r.number(), r.number()
		r.refuse(n > unloadedMax || rests > unloadedMax)
		l.ElapsedNs = r.time()
		for ; n > 0 && r.err == nil; n-- {
			l.ServiceNs = append(l.ServiceNs, r.time())
		}
		for ; rests > 0 && r.err == nil; rests-- {
			l.RestNs = append(l.RestNs, r.time())
		}
		to.Unloaded = l
	}
	if r.bool() {
		to.First = new(hist.Hist)
		r.sized(to.First.UnmarshalBinary)
	}
}

func (r *reader) readResult(to *Result) {
	r.sized(to.Total.UnmarshalBinary)
	r.readFaults(to.Setup)
	seconds, ns := r.int(), r.uint()
	r.refuse(ns >= 1e9)
	if r.err == nil {
		to.Started = time.Unix(seconds, int64(ns))
	}
	for _, n := range to.counts() {
		*n = r.uint()
	}
	for _, n := range to.times() {
		*n = r.int()
		r.refuse(*n < -1)
	}
	to.Opened, to.Established = r.number(), r.number()
	to.Engine, to.EngineWhy = r.text(), r.text()
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		to.EngineFeatures = append(to.EngineFeatures, r.text())
	}
	to.Interrupted = r.bool()
	if r.bool() {
		to.Edges = &Edges{CarriedNs: r.int(), InFlightNs: r.int()}
	}
	r.readUnloaded(to)
	to.Handshakes, to.H2 = r.readHandshakes(), r.readH2()
	to.Streams = r.readStreams()
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		w := WorkerReport{Agent: r.number(), Thread: r.number(), Connections: r.number(), Opened: r.number(), Completed: r.uint()}
		w.Busy, w.RunDelay = r.float(), r.float()
		to.Workers = append(to.Workers, w)
	}
	r.readErrors(to)
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		one := Redirect{Status: r.number(), To: r.text()}
		r.refuse(len(one.To) > errorLineMax || len(to.Redirects) == errorsKept)
		to.Redirects = append(to.Redirects, one)
	}
	to.Waiting = r.readWaiting(max(len(to.Total.ByTarget), 1))
}

// readErrors reads the first response of each unexpected status.
func (r *reader) readErrors(to *Result) {
	before := ErrorResponse{Status: -1}
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		e := ErrorResponse{Status: r.number(), Check: r.text(), Line: r.text()}
		r.refuse(cmp.Or(cmp.Compare(e.Status, before.Status), strings.Compare(e.Check, before.Check)) <= 0 ||
			e.Status >= len(Tally{}.Statuses) || len(e.Line) > errorLineMax || len(to.Errors) == errorsKept)
		if before = e; r.err == nil {
			to.Errors = append(to.Errors, e)
		}
	}
}
