package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"ceiling/internal/hist"
)

// reader decodes the binary forms. After the first error every read returns zero, and end returns
// the error.
type reader struct {
	b   []byte
	err error
}

// errDamaged is the error for bytes that do not decode: they cannot be repaired, so the details
// help no user.
var errDamaged = errors.New("it is damaged")

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

// refuse fails if what was read is impossible.
func (r *reader) refuse(bad bool) {
	if bad {
		r.fail(errDamaged)
	}
}

// end returns the first error, or one if bytes are left over.
func (r *reader) end() error {
	r.refuse(len(r.b) > 0)
	return r.err
}

func (r *reader) version(want byte) {
	if b := r.take(1); len(b) == 1 && b[0] != want {
		r.fail(fmt.Errorf("it is of version %d, this program speaks %d; use the same ceiling on all hosts", b[0], want))
	}
}

// take returns the next n bytes, or nil.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail(errDamaged)
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(errDamaged)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail(errDamaged)
		return 0
	}
	r.b = r.b[n:]
	return v
}

// number reads one that fits an int and is not negative.
func (r *reader) number() int {
	v := r.uint()
	r.refuse(v > math.MaxInt32)
	return int(v & math.MaxInt32)
}

func (r *reader) float() float64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(b))
	r.refuse(math.IsNaN(v) || math.IsInf(v, 0))
	return v
}

func (r *reader) bool() bool {
	b := r.take(1)
	r.refuse(len(b) == 1 && b[0] > 1)
	return len(b) == 1 && b[0] == 1
}

func (r *reader) text() string { return string(r.take(r.uint())) }

// sized passes on the bytes that their length precedes.
func (r *reader) sized(to func([]byte) error) {
	head := r.take(4)
	if head == nil {
		return
	}
	if b := r.take(uint64(binary.LittleEndian.Uint32(head))); r.err == nil {
		if err := to(b); err != nil {
			r.fail(err)
		}
	}
}

// status reads a code and its count; codes ascend.
func (r *reader) status(before int) (status int, n uint64) {
	status, n = r.number(), r.uint()
	r.refuse(status <= before || status >= len(Tally{}.Statuses) || n == 0)
	return status, n
}

func (r *reader) tally(t *Tally) {
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
		if status, n = r.status(status); r.err == nil {
			t.Statuses[status] = n
		}
	}
	r.faults(t.Faults)
	for _, h := range []*hist.Hist{&t.Response, &t.Service, &t.Lag} {
		r.sized(h.UnmarshalBinary)
	}
	if n := r.uint(); r.err == nil && n != uint64(len(t.ByTarget)) {
		r.fail(fmt.Errorf("it is of a run with %d targets, this one has %d", n, len(t.ByTarget)))
	}
	for i := range t.ByTarget {
		r.target(&t.ByTarget[i])
	}
}

func (r *reader) target(t *TargetTally) {
	t.Completed, t.Failed = r.uint(), r.uint()
	for status, left := -1, r.uint(); left > 0 && r.err == nil; left-- {
		var n uint64
		if status, n = r.status(status); r.err == nil {
			t.Statuses[status] = n
		}
	}
	r.sized(t.Response.UnmarshalBinary)
}

func (r *reader) faults(into map[Fault]uint64) {
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

// lone reads the unloaded requests and the first responses.
func (r *reader) lone(to *Result) {
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

// time reads one that is not negative.
func (r *reader) time() int64 {
	v := r.uint()
	r.refuse(v > uint64(maxTime))
	return int64(v & uint64(maxTime-1))
}

func (r *reader) result(to *Result) {
	r.sized(to.Total.UnmarshalBinary)
	r.faults(to.Setup)
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
	r.lone(to)
	to.Handshakes, to.H2 = r.handshakes(), r.h2()
	to.Streams = r.streams()
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		w := WorkerReport{Agent: r.number(), Thread: r.number(), Connections: r.number(), Opened: r.number(), Completed: r.uint()}
		w.Busy, w.RunDelay = r.float(), r.float()
		to.Workers = append(to.Workers, w)
	}
	r.errors(to)
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		one := Redirect{Status: r.number(), To: r.text()}
		r.refuse(len(one.To) > errorLineMax || len(to.Redirects) == errorsKept)
		to.Redirects = append(to.Redirects, one)
	}
	to.Waiting = r.waiting(max(len(to.Total.ByTarget), 1))
}

// errors reads the first response of each unexpected status.
func (r *reader) errors(to *Result) {
	before := 0
	for left := r.uint(); left > 0 && r.err == nil; left-- {
		e := ErrorResponse{Status: r.number(), Line: r.text()}
		r.refuse(e.Status <= before || e.Status >= len(Tally{}.Statuses) || len(e.Line) > errorLineMax || len(to.Errors) == errorsKept)
		if before = e.Status; r.err == nil {
			to.Errors = append(to.Errors, e)
		}
	}
}
