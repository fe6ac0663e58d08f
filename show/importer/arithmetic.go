package importer

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
)

const (
	// slotsOver is how far rate × mean latency may exceed the requests that can be in flight: the
	// rounding of the mean is subtracted, the rest is for requests in flight at the edges.
	slotsOver = 1.10
	// bytesOff is the tolerated difference between two counts of the same bytes.
	bytesOff = 0.02
)

// holdArithmetic compares figures that follow from each other.
func (r *Result) holdArithmetic() {
	r.holdErrors()
	r.holdLittle()
	r.holdBytes()
}

// invalid adds a caveat with which the figures cannot be used.
func (r *Result) invalid(format string, args ...any) {
	r.Invalid = true
	r.Caveats = append([]string{fmt.Sprintf(format, args...)}, r.Caveats...)
}

// badStatuses counts the responses with an error status.
func (r *Result) badStatuses() uint64 {
	var n uint64
	for status, count := range r.Statuses {
		code, err := strconv.Atoi(status)
		if err == nil && code >= 400 || status == "400 or more" || status == "not 2xx" || strings.HasPrefix(status, "4xx") ||
			strings.HasPrefix(status, "5xx") {
			n += count
		}
	}
	return n
}

// holdErrors refuses a run whose requests failed: a server that refuses part of its work has
// another limit than one that does it.
func (r *Result) holdErrors() {
	failed, bad := r.Failed(), r.badStatuses()
	all := r.Requests + failed
	if share := float64(failed+bad) / float64(max(all, 1)); all > 0 && share >= spec.ErrorsMatter {
		r.invalid("%s of %s requests failed (%s without a response, %s with an error status)", unit.Percent(min(share, 1)),
			unit.FormatCount(int64(all)), unit.FormatCount(int64(failed)), unit.FormatCount(int64(bad)))
	}
}

// holdLittle applies Little's law to a closed loop: the requests in flight, rate × mean latency,
// cannot exceed the slots. A latency that counts from when a request was due needs none, and
// go-wrk's mean is derived from its rate.
func (r *Result) holdLittle() {
	slots := r.Connections * r.Pipelining
	if slots == 0 || r.MeanNs == nil || r.From == FromDue || r.Tool == GoWrk {
		return
	}
	mean := float64(*r.MeanNs - max(r.MeanDigitNs, 1))
	if inFlight := r.CompletedPerS * mean / 1e9; inFlight > slotsOver*float64(slots) {
		r.invalid("Little's law: %s connections × %d = %s slots; %s with a mean of %s would need %s in flight",
			unit.FormatCount(int64(r.Connections)), r.Pipelining, unit.FormatCount(int64(slots)), unit.FormatRate(r.CompletedPerS),
			unit.FormatNs(*r.MeanNs), unit.FormatCount(int64(inFlight)))
	}
}

// holdBytes compares the printed transfer rate with the bytes of the responses × their rate, and
// says where a unit was mistaken: tools print 2^20 bytes as MB, and people copy them as 10^6.
func (r *Result) holdBytes() {
	if r.transferPerS == 0 || r.BytesRead == nil {
		return
	}
	counted := float64(*r.BytesRead) / r.DurationS
	off := func(perS float64) bool { return math.Abs(perS/counted-1) > bytesOff }
	if !off(r.transferPerS) {
		return
	}
	text := ""
	switch mib := float64(1<<20) / 1e6; {
	case !off(r.transferPerS * mib):
		text = ": the figure fits in powers of 1024 only"
	case !off(r.transferPerS / mib):
		text = ": the figure fits in powers of 1000 only"
	}
	r.caveat("it prints a transfer of %s/s, but its bytes per response × its rate are %s/s%s", unit.FormatBytesSI(int64(r.transferPerS)),
		unit.FormatBytesSI(int64(counted)), text)
}
