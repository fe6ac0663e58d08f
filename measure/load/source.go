package load

import (
	"errors"
	"strconv"
	"time"
)

// Composing makes the requests of a run while it runs, beside the loops: every worker has a Source on
// a goroutine and a thread of its own. Where no request is ready a connection waits for one, and the
// wait counts as lag.
type Composing struct {
	// What it is, for the report: "script", "data", "session".
	What string
	// New makes the source of one of the run's workers; it is called on the source's own goroutine.
	New func(number int) (Source, error)
	// Ahead is how many requests a worker keeps ready; 0: requests are composed when they are needed,
	// after the responses that came before them were seen.
	Ahead int
	// Answers hands the responses to the source.
	Answers bool
	// Thinks: delays are a user's think time, which an open loop leaves out: its schedule sets the pace.
	Thinks bool
	// Times of the requests after the window's opening, in nanoseconds, ascending; nil: the rate says
	// when they are due.
	Times []int64
	// Targets is the number of targets that the requests are of; 0: one.
	Targets int
}

// Source composes the requests of one worker. Its methods are called from one goroutine.
type Source interface {
	// Next sees the responses since the last call, and returns n requests.
	Next(seen []Answer, n int) ([]Composed, error)
	// Interrupt makes a call of Next that is under way return; any goroutine may call it.
	Interrupt()
	// Close ends the source, after the last call of Next.
	Close() error
}

// ErrStopped is a source's error that ends its worker's load, as if its time were over.
var ErrStopped = errors.New("the source has stopped") // read-only

// Composed is one request as it goes on the wire. Its bytes are not changed afterwards.
type Composed struct {
	Bytes []byte
	// NoBody reports whether the response has no body whatever its header says: HEAD.
	NoBody bool
	// Delay is how long the connection waits before it sends it; its response time begins after that.
	Delay time.Duration
	// Target that it counts as. Tag comes back with its Answer.
	Target, Tag uint32
}

// Answer is a response as it came, status line, header and body; nil for a request that failed.
type Answer struct {
	Bytes []byte
	Tag   uint32 // of the request
}

// Parts returns the status, the header and the body without its framing.
func (a Answer) Parts() (status int, head, body []byte) {
	head, body = parts(a.Bytes)
	if len(head) >= len("HTTP/1.1 200") {
		status, _ = strconv.Atoi(string(head[9:12])) // the reader has seen that it is one
	}
	return status, head, body
}

// ComposeReport is what composing took over the whole run, of one worker or all.
type ComposeReport struct {
	What     string // as of Composing
	Requests uint64
	// CPUNs of the sources' threads; Busy is that of the busiest, as a share of the window.
	CPUNs int64
	Busy  float64
	// WaitedNs is how long at least one connection of a worker had no request, in the window, of the
	// worker where it was longest.
	WaitedNs int64
	// DelayedNs sums the delays that began in the window, over all connections.
	DelayedNs int64
}
