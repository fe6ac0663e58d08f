package load

import "ceiling/internal/hist"

// Phases of an error.
const (
	PhaseConnect  = "connect"
	PhaseIdle     = "idle" // the connection had no request
	PhaseTLS      = "tls"  // a handshake
	PhaseOpen     = "open" // the opening of a WebSocket
	PhaseSend     = "send"
	PhaseResponse = "response"
	PhaseFault    = "fault" // a completed response has a fault that was tolerated
	PhaseCheck    = "check" // a completed response does not satisfy the condition that is the cause
)

// Fault is one cause of failure in one phase.
type Fault struct {
	// Phase is one of the constants above.
	Phase string
	// Cause is an errno name, "timeout", or what was wrong with the response.
	Cause string
}

// OfRequest reports whether each such fault is one failed request; the others are completed responses
// (PhaseCheck), and faults of connections without a request.
func (f Fault) OfRequest() bool { return f.Phase == PhaseSend || f.Phase == PhaseResponse }

// Tally counts what one worker did in one interval, or all of them together.
type Tally struct {
	// StartNs and EndNs on the run's clock; EndNs - StartNs is the true width.
	StartNs, EndNs int64
	Warmup         bool

	Sent      uint64
	Completed uint64
	Failed    uint64
	// Bad counts completed responses with an unexpected status, or against a condition.
	Bad uint64
	// Read and Written are bytes above TCP. Written counts all requests sent; a broken connection
	// may have taken fewer.
	Read, Written uint64
	// Reconnects counts reopened connections; Resent the requests sent again because a server
	// closed a kept-alive connection before taking them.
	Reconnects, Resent uint64
	// Closes counts the connections that the server ended after responses on them.
	Closes Closes

	// At EndNs. Behind, the backlog of requests due and not sent, is an estimate at the mean rate.
	// Of a Result's total only InFlight is set, exactly as it is at the very end.
	InFlight  uint64
	Behind    uint64
	Connected int

	// Statuses counts responses by status code, 100 to 999.
	Statuses [1000]uint64
	Faults   map[Fault]uint64

	Response, Service, Lag hist.Hist
	ByTarget               []TargetTally

	Batching
	Early  Early
	Shakes HandshakeTotals
	// CPUNs of the worker's thread, and that as a share of one CPU; after a merge those of the
	// busiest worker.
	CPUNs int64
	Busy  float64
}

// HandshakeTotals has the totals of TLS handshakes.
type HandshakeTotals struct {
	// Count of those that succeeded, and the workers' CPU time for all of them, without their system
	// calls.
	Count uint64
	CPUNs int64
}

// Batching is how completions arrived: one by one, or several at once.
type Batching struct {
	// Batches counts waits that returned completions, Waits all waits.
	Batches, Waits uint64
	// BatchNs is the time from reaping a batch to its last send being queued.
	BatchNs, BatchMaxNs int64
	// HandledNs sums that over the responses: each waits for the batch that it came with, and more
	// of them come with a long one.
	HandledNs int64
	// GatherNs is the longest time that the engine may wait for further completions.
	GatherNs int64
}

// Closes counts connections that the server ended after responses on them, by their state. A
// keep-alive limit ends all of them after the same number of responses; a timeout, or a server that
// drops connections, does not.
type Closes struct {
	// Announced by the server: Connection: close, a body delimited by the close, a GOAWAY, a
	// WebSocket's close frame.
	Announced uint64
	Idle      uint64 // without a request
	InFlight  uint64 // with requests that had no response yet
	// Most is the largest number of responses on one of them; AtMost counts those with that number.
	Most, AtMost uint64
	// IdleNs is how long the Idle ones had had no request, in sum: next to nothing if the server
	// closes them after a number of responses, and its timeout if it closes idle ones.
	IdleNs uint64
	// Code is the code of the last WebSocket close frame among the Announced ones, 0 if there was none.
	Code uint64
}

// note counts one in the given kind.
func (c *Closes) note(kind *uint64, served uint32) {
	*kind++
	c.merge(uint64(served), 1)
}

// noteIdle counts one that ended idle.
func (c *Closes) noteIdle(served uint32, idleNs int64) {
	c.note(&c.Idle, served)
	c.IdleNs += uint64(max(idleNs, 0))
}

func (c *Closes) merge(most, n uint64) {
	if most > c.Most {
		c.Most, c.AtMost = most, 0
	}
	if most == c.Most {
		c.AtMost += n
	}
}

func (c *Closes) add(o *Closes) {
	c.Announced += o.Announced
	c.Idle += o.Idle
	c.InFlight += o.InFlight
	c.IdleNs += o.IdleNs
	if o.Code > 0 {
		c.Code = o.Code
	}
	c.merge(o.Most, o.AtMost)
}

// TargetTally is one target's part.
type TargetTally struct {
	Completed, Failed uint64
	Statuses          map[int]uint64
	Response          hist.Hist
}

// newTally returns an empty tally of a run with so many targets. One to be decoded must be made for
// the run's number: its memory must not depend on what the network sends.
func newTally(targets int) *Tally {
	t := &Tally{Faults: map[Fault]uint64{}}
	if targets > 1 {
		t.ByTarget = make([]TargetTally, targets)
		for i := range t.ByTarget {
			t.ByTarget[i].Statuses = map[int]uint64{}
		}
	}
	return t
}

// add merges other workers' counts into t: counts and histograms add up, peaks stay peaks.
func (t *Tally) add(o *Tally) {
	t.count(o)
	t.InFlight += o.InFlight
	t.Behind += o.Behind
	t.Connected += o.Connected
	t.CPUNs = max(t.CPUNs, o.CPUNs)
	t.Busy = max(t.Busy, o.Busy)
}

// extend merges what the same worker did right after t into it.
func (t *Tally) extend(o *Tally) {
	t.count(o)
	t.InFlight, t.Behind, t.Connected = o.InFlight, o.Behind, o.Connected
	t.CPUNs += o.CPUNs
	if width := o.EndNs - t.StartNs; width > 0 {
		t.Busy = (t.Busy*float64(t.EndNs-t.StartNs) + o.Busy*float64(o.EndNs-o.StartNs)) / float64(width)
	}
	t.EndNs = o.EndNs
}

// count adds up the fields that both count.
func (t *Tally) count(o *Tally) {
	t.Sent += o.Sent
	t.Completed += o.Completed
	t.Failed += o.Failed
	t.Bad += o.Bad
	t.Read += o.Read
	t.Written += o.Written
	t.Reconnects += o.Reconnects
	t.Resent += o.Resent
	t.Closes.add(&o.Closes)
	for i, n := range o.Statuses {
		t.Statuses[i] += n
	}
	for f, n := range o.Faults {
		t.Faults[f] += n
	}
	t.Response.Merge(&o.Response)
	t.Early.add(&t.Service, &o.Early, &o.Service)
	t.Service.Merge(&o.Service)
	t.Lag.Merge(&o.Lag)
	for i := range o.ByTarget {
		t.ByTarget[i].add(&o.ByTarget[i])
	}
	t.Batches += o.Batches
	t.Waits += o.Waits
	t.BatchNs += o.BatchNs
	t.HandledNs += o.HandledNs
	t.BatchMaxNs = max(t.BatchMaxNs, o.BatchMaxNs)
	t.GatherNs = max(t.GatherNs, o.GatherNs)
	t.Shakes.Count += o.Shakes.Count
	t.Shakes.CPUNs += o.Shakes.CPUNs
}

func (t *TargetTally) add(o *TargetTally) {
	t.Completed += o.Completed
	t.Failed += o.Failed
	for s, n := range o.Statuses {
		t.Statuses[s] += n
	}
	t.Response.Merge(&o.Response)
}

// batch counts a batch that took so long, and brought the responses since the tally had so many.
func (t *Tally) batch(tookNs int64, before uint64) {
	t.Batches++
	t.BatchNs += tookNs
	t.BatchMaxNs = max(t.BatchMaxNs, tookNs)
	if t.Completed > before {
		t.HandledNs += tookNs * int64(t.Completed-before)
	}
}

// clear empties t for the next interval, keeping its memory.
func (t *Tally) clear() {
	faults, targets := t.Faults, t.ByTarget
	t.Response.Reset()
	t.Service.Reset()
	t.Lag.Reset()
	t.Early.reset()
	t.StartNs, t.EndNs, t.Warmup = 0, 0, false
	t.Sent, t.Completed, t.Failed, t.Bad = 0, 0, 0, 0
	t.Read, t.Written, t.Reconnects, t.Resent = 0, 0, 0, 0
	t.Closes = Closes{}
	t.InFlight, t.Behind, t.Connected = 0, 0, 0
	t.Statuses = [1000]uint64{}
	t.Batches, t.Waits, t.BatchNs, t.HandledNs, t.BatchMaxNs, t.GatherNs = 0, 0, 0, 0, 0, 0
	t.CPUNs, t.Busy, t.Shakes = 0, 0, HandshakeTotals{}
	clear(faults)
	for i := range targets {
		targets[i].Completed, targets[i].Failed = 0, 0
		clear(targets[i].Statuses)
		targets[i].Response.Reset()
	}
}
