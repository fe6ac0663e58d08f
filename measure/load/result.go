package load

import (
	"time"

	"ceiling/internal/hist"
)

// Result is the result of a run.
type Result struct {
	Total Tally // of the window
	// Setup counts the faults before the window opened.
	Setup   map[Fault]uint64
	Started time.Time // the window opened
	// WindowNs is the time the counted requests took: the window and, in an open loop, the time to
	// the last response. The widths of its intervals add up to it.
	WindowNs int64
	// Carried requests were in flight when the window opened. A closed loop counts them in the
	// latencies, and leaves out those in flight at the end: the two balance. Those of an open loop
	// were due in the warm-up, and their latencies are left out.
	Carried uint64
	AtEdges
	// Unloaded has the unloaded requests; nil: none were sent. First is the time from the start of a closed
	// loop to each connection's first response, for those that got one before the window opened;
	// nil: not measured.
	Unloaded *Unloaded
	First    *hist.Hist
	// Handshakes of TLS; nil: no TLS.
	Handshakes *Handshakes
	Spoken
	// Asked is how many requests were due in the window of an open loop, or were requested by
	// number. Unsent of them never left; LateAtEnd of an open loop had not left when the window
	// closed.
	Asked, Unsent, LateAtEnd uint64
	// Opened counts the connects begun over the whole run; Established the connections, of those
	// requested, that were established when the load began.
	Opened, Established int
	// StartLateNs is the time from Config.Start (if nil: from the beginning of the load) to the
	// first request that any worker sent; in an open loop, from when that request was due. -1: none
	// was sent.
	StartLateNs       int64
	Engine, EngineWhy string
	EngineFeatures    []string
	UserNs, SystemNs  int64 // CPU of the process over the window
	AllocatedBytes    uint64
	Workers           []WorkerReport
	FirstResponses
	// Interrupted: the context ended before the plan did.
	Interrupted bool
}

// Spoken is what protocols other than HTTP/1.1 add to a result.
type Spoken struct {
	// H2 is what HTTP/2 adds; nil: no connection spoke it.
	H2 *H2Report
	// Streams of messages; nil: the connections carried requests.
	Streams *Streams
}

// Edges sum, over the requests of all slots, how long each had waited for its response when the
// window opened (negative if it came due after that) and when it closed. With them slots × window =
// all response times + InFlightNs − CarriedNs, exactly, if no slot was ever without a request.
type Edges struct {
	CarriedNs, InFlightNs int64
}

// AtEdges is what is known of the requests at the edges of the window.
type AtEdges struct {
	// Edges of the window in a closed loop; nil: unknown.
	Edges *Edges
	// Waiting has the requests without a response at the end; nil: unknown.
	Waiting *Waiting
}

// join adds a part's.
func (e *AtEdges) join(part *AtEdges) {
	e.Edges, e.Waiting = addEdges(e.Edges, part.Edges), join(e.Waiting, part.Waiting, (*Waiting).add)
}

// addEdges adds a part's edges to the total, which is nil if any part's are.
func addEdges(all, part *Edges) *Edges {
	if all == nil || part == nil {
		return nil
	}
	return &Edges{all.CarriedNs + part.CarriedNs, all.InFlightNs + part.InFlightNs}
}

// WorkerReport is one worker's own account.
type WorkerReport struct {
	// Agent among several that the worker belongs to, by its number in the Merger.
	Agent       int
	Thread      int
	Connections int
	Completed   uint64
	Busy        float64 // share of the window on a CPU
	RunDelay    float64 // share of the window runnable, waiting for a CPU; -1 not measured
	Opened      int

	carried, inFlight, asked, unsent, lateAtEnd uint64
	atEdges                                     AtEdges
	alone                                       *Unloaded
	handshakes                                  *Handshakes
	h2                                          *H2Report
	streams                                     *Streams
	compose                                     *ComposeReport // nil: the requests were there before the run
	first                                       *hist.Hist
	firstNs, firstDueNs                         int64 // when the first request left, and when it was due
	windowNs                                    int64 // time its counted requests took
	responses                                   FirstResponses
	ring                                        ringFacts
}

// ringFacts is which kind of ring a worker had, and why.
type ringFacts struct {
	engine, why string
	features    []string
}

// include adds a tally to the total, or only its faults if it is from before the window.
func (r *Result) include(t *Tally) {
	if t.Warmup {
		for f, n := range t.Faults {
			r.Setup[f] += n
		}
		return
	}
	r.Total.count(t)
	r.Total.CPUNs, r.Total.Busy = max(r.Total.CPUNs, t.CPUNs), max(r.Total.Busy, t.Busy)
}

// MergeCompose merges the reports of all workers; nil if nothing was composed.
func MergeCompose(workers []WorkerReport) *ComposeReport {
	var all *ComposeReport
	for i := range workers {
		all = join(all, workers[i].compose, func(all, one *ComposeReport) {
			all.Requests += one.Requests
			all.CPUNs += one.CPUNs
			all.Busy = max(all.Busy, one.Busy)
			all.WaitedNs = max(all.WaitedNs, one.WaitedNs)
			all.DelayedNs += one.DelayedNs
		})
	}
	return all
}
