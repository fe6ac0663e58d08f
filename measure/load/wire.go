package load

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"ceiling/internal/hist"
)

// Versions of the binary forms.
const (
	tallyVersion  = 6
	resultVersion = 10
)

// NewResult returns an empty result of a run with so many targets, to decode into.
func NewResult(targets int) *Result {
	return &Result{Total: *newTally(targets), Setup: map[Fault]uint64{}}
}

// AppendBinary appends the exact binary form of a tally to b: every exported field, numbers as
// varints, and the nonzero entries of histograms and statuses. The form is versioned; an agent and
// its controller use the same version. 100 ms of 64 connections at full speed take 5 KB, at most 6
// (measured). The error is always nil.
func (t *Tally) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, tallyVersion)
	warmup := byte(0)
	if t.Warmup {
		warmup = 1
	}
	b = append(b, warmup)
	b = binary.AppendVarint(b, t.StartNs)
	b = binary.AppendVarint(b, t.EndNs)
	for _, n := range t.counts() {
		b = binary.AppendUvarint(b, *n)
	}
	for _, n := range t.times() {
		b = binary.AppendVarint(b, *n)
	}
	b = binary.AppendVarint(b, int64(t.Connected))
	b = appendFloat(b, t.Busy)
	used := 0
	for _, n := range t.Statuses {
		if n > 0 {
			used++
		}
	}
	b = binary.AppendUvarint(b, uint64(used))
	for status, n := range t.Statuses {
		if n > 0 {
			b = binary.AppendUvarint(b, uint64(status))
			b = binary.AppendUvarint(b, n)
		}
	}
	b = appendFaults(b, t.Faults)
	for _, h := range histsOf(t) {
		b = sized(b, h.AppendBinary)
	}
	b = binary.AppendUvarint(b, uint64(len(t.ByTarget)))
	for i := range t.ByTarget {
		b = t.ByTarget[i].append(b)
	}
	return b, nil
}

// histsOf returns the histograms of a tally, in wire order.
func histsOf(t *Tally) []*hist.Hist {
	return []*hist.Hist{&t.Response, &t.Service, &t.Lag, &t.Early.FirstByte, &t.Early.FirstEvent}
}

// counts returns the plain numbers of a tally, in wire order.
func (t *Tally) counts() []*uint64 {
	return []*uint64{
		&t.Sent, &t.Completed, &t.Failed, &t.Bad, &t.Read, &t.Written, &t.Reconnects, &t.Resent,
		&t.InFlight, &t.Behind, &t.Batches, &t.Waits,
		&t.Closes.Announced, &t.Closes.Idle, &t.Closes.InFlight, &t.Closes.Most, &t.Closes.AtMost,
		&t.Closes.IdleNs, &t.Closes.Code, &t.Shakes.Count, &t.Early.Responses, &t.Early.Events,
	}
}

// times does the same for durations, none of which is negative.
func (t *Tally) times() []*int64 {
	return []*int64{&t.BatchNs, &t.BatchMaxNs, &t.GatherNs, &t.CPUNs, &t.Shakes.CPUNs, &t.HandledNs}
}

func (t *TargetTally) append(b []byte) []byte {
	b = binary.AppendUvarint(b, t.Completed)
	b = binary.AppendUvarint(b, t.Failed)
	b = binary.AppendUvarint(b, uint64(len(t.Statuses)))
	codes := make([]int, 0, len(t.Statuses))
	for status := range t.Statuses {
		codes = append(codes, status)
	}
	slices.Sort(codes)
	for _, status := range codes {
		b = binary.AppendUvarint(b, uint64(status))
		b = binary.AppendUvarint(b, t.Statuses[status])
	}
	return sized(b, t.Response.AppendBinary)
}

func appendFloat(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// sized adds what form appends, preceded by its length.
func sized(b []byte, form func([]byte) ([]byte, error)) []byte {
	at := len(b)
	b, _ = form(append(b, 0, 0, 0, 0)) // the forms' errors are always nil
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func appendFaults(b []byte, faults map[Fault]uint64) []byte {
	list := make([]Fault, 0, len(faults))
	for f := range faults {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Cause, b.Cause))
	})
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, f := range list {
		b = appendText(appendText(b, f.Phase), f.Cause)
		b = binary.AppendUvarint(b, faults[f])
	}
	return b
}

// UnmarshalBinary decodes what AppendBinary wrote, all of b, and replaces t. t must be made for the
// run's number of targets (newTally). Input that no tally can have is an error, and leaves t empty.
// Apart from t's own memory it allocates no more than the length of b warrants.
func (t *Tally) UnmarshalBinary(b []byte) error {
	t.clear()
	if t.Faults == nil {
		t.Faults = map[Fault]uint64{}
	}
	r := reader{b: b}
	r.version(tallyVersion)
	r.readTally(t)
	if err := r.end(); err != nil {
		t.clear()
		return fmt.Errorf("decode tally: %w", err)
	}
	return nil
}

// AppendBinary appends the exact binary form of a result to b: every exported field, and those of
// the workers. Started keeps its instant, not its zone. The error is always nil.
func (r *Result) AppendBinary(b []byte) ([]byte, error) {
	b = sized(append(b, resultVersion), r.Total.AppendBinary)
	b = appendFaults(b, r.Setup)
	b = binary.AppendVarint(b, r.Started.Unix())
	b = binary.AppendUvarint(b, uint64(r.Started.Nanosecond()))
	for _, n := range r.counts() {
		b = binary.AppendUvarint(b, *n)
	}
	for _, n := range r.times() {
		b = binary.AppendVarint(b, *n)
	}
	b = binary.AppendUvarint(b, uint64(r.Opened))
	b = binary.AppendUvarint(b, uint64(r.Established))
	b = appendText(appendText(b, r.Engine), r.EngineWhy)
	b = binary.AppendUvarint(b, uint64(len(r.EngineFeatures)))
	for _, text := range r.EngineFeatures {
		b = appendText(b, text)
	}
	interrupted := byte(0)
	if r.Interrupted {
		interrupted = 1
	}
	b = append(b, interrupted)
	b = r.Streams.append(r.H2.append(r.Handshakes.append(appendLone(appendEdges(b, r.Edges), r.Unloaded, r.First))))
	b = binary.AppendUvarint(b, uint64(len(r.Workers)))
	for i := range r.Workers {
		w := &r.Workers[i]
		for _, n := range []int{w.Agent, w.Thread, w.Connections, w.Opened} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		b = binary.AppendUvarint(b, w.Completed)
		b = appendFloat(appendFloat(b, w.Busy), w.RunDelay)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Errors)))
	for i := range r.Errors {
		b = appendText(appendText(binary.AppendUvarint(b, uint64(r.Errors[i].Status)), r.Errors[i].Check), r.Errors[i].Line)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Redirects)))
	for _, to := range r.Redirects {
		b = appendText(binary.AppendUvarint(b, uint64(to.Status)), to.To)
	}
	return r.Waiting.append(b), nil
}

func (r *Result) counts() []*uint64 {
	return []*uint64{&r.Carried, &r.Asked, &r.Unsent, &r.LateAtEnd, &r.AllocatedBytes}
}

// times returns the durations of a result; StartLateNs may be -1.
func (r *Result) times() []*int64 {
	return []*int64{&r.WindowNs, &r.StartLateNs, &r.UserNs, &r.SystemNs}
}

func appendEdges(b []byte, e *Edges) []byte {
	if e == nil {
		return append(b, 0)
	}
	return binary.AppendVarint(binary.AppendVarint(append(b, 1), e.CarriedNs), e.InFlightNs)
}

// appendLone adds the unloaded requests and the first responses, or their absence.
func appendLone(b []byte, l *Unloaded, first *hist.Hist) []byte {
	if l == nil {
		b = append(b, 0)
	} else {
		b = append(b, 1)
		for _, n := range []int{l.Connections, l.Failed, l.Bad, len(l.ServiceNs), len(l.RestNs)} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		b = binary.AppendUvarint(b, uint64(l.ElapsedNs))
		for _, n := range slices.Concat(l.ServiceNs, l.RestNs) {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	if first == nil {
		return append(b, 0)
	}
	return sized(append(b, 1), first.AppendBinary)
}

// UnmarshalBinary decodes what AppendBinary wrote, all of b, and replaces r; see
// Tally.UnmarshalBinary and NewResult.
func (r *Result) UnmarshalBinary(b []byte) error {
	r.clear()
	in := reader{b: b}
	in.version(resultVersion)
	in.readResult(r)
	if err := in.end(); err != nil {
		r.clear()
		return fmt.Errorf("decode result: %w", err)
	}
	return nil
}

// clear empties a result, keeping the memory of its targets.
func (r *Result) clear() {
	targets := r.Total.ByTarget
	*r = Result{Setup: map[Fault]uint64{}}
	r.Total.Faults, r.Total.ByTarget = map[Fault]uint64{}, targets
	r.Total.clear()
}
