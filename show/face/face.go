// Package face prints a run as other load generators print theirs, field by field, so that what
// reads their output goes on working. A figure is ours, under their name: the differences are in
// docs/faces.md.
package face

import (
	"time"

	"ceiling/internal/hist"
	"ceiling/record"
)

// Run is a measured run, with what its command line said and their output repeats.
type Run struct {
	Done *record.Run
	// Response times over the whole window.
	Response *hist.Hist
	// Seconds of the window, in order; the last may be shorter.
	Seconds []Second
	// Hits are its responses by interval; nil: they are not kept.
	Hits *Hits
	URL  string
	// Threads as asked for.
	Threads int
	// Asked is the duration as asked for.
	Asked time.Duration
}

// Second is what was completed, and read in bytes, in a second of the window.
type Second struct{ Completed, Read uint64 }

// Add counts an interval of the window, with its response times, which are valid during the call.
func (r *Run) Add(row *record.LoadRow, response *hist.Hist) {
	if row.Warmup || row.WidthNs <= 0 {
		return
	}
	if r.Hits != nil {
		r.Hits.Add(row, response)
	}
	at := int(max(row.TNs-row.WidthNs/2, 0) / int64(time.Second))
	for len(r.Seconds) <= at {
		r.Seconds = append(r.Seconds, Second{})
	}
	r.Seconds[at].Completed += row.Completed
	r.Seconds[at].Read += row.Read
}

// Failures are a run's errors as these tools divide them.
type Failures struct {
	Connect, Read, Write, Timeout uint64
	Status                        uint64 // responses of 400 and more
	Mismatch                      uint64 // responses with another body than expected
	ByCause                       map[string]uint64
}

// Failures divides the errors of a run.
func (r *Run) Failures() Failures {
	f := Failures{ByCause: map[string]uint64{}}
	for _, e := range r.Done.Errors {
		if e.BeforeWindow && e.OfRequest() {
			continue
		}
		f.ByCause[e.Cause] += e.Count
		switch {
		case e.Phase == record.PhaseCheck:
			f.Mismatch += e.Count
		case e.Phase == record.PhaseStatus:
			f.Status += e.Count
		case e.OfConnecting():
			f.Connect += e.Count
		case e.Cause == "timeout":
			f.Timeout += e.Count
		case e.Phase == record.PhaseSend:
			f.Write += e.Count
		default:
			f.Read += e.Count
		}
	}
	return f
}

// elapsed is how long the counted requests took.
func (r *Run) elapsed() time.Duration { return time.Duration(r.Done.ElapsedS * 1e9) }
