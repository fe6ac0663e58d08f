package audit

import (
	"slices"

	"ceiling/record"
	"ceiling/verdict"
)

// Thresholds for figures that others printed. They are wider than those for our own records: a
// published CPU figure is a host's mean over a period that is rarely the run's, and a rate may be
// rounded.
const (
	// pointFull is the CPU share from which a side counts as full. A host's mean includes the
	// run's beginning and end and cores that got less than their part; hosts whose busiest cores
	// were at 100 % print 85 to 96.
	pointFull = 0.85
	// pointFree is the share up to which a side clearly had CPU left.
	pointFree = 0.70
	// linkFull is the share of a link that the lower bound of its bytes must fill. What is not
	// counted (longer heads, TCP options, acknowledgements) makes up the rest.
	linkFull = 0.95
	// linkFree is the share up to which a link cannot be full whatever its frames: 1,500-byte
	// frames add 6 %, short heads another 5.
	linkFree = 0.80
	// linkPossible is the share above which a link cannot have carried the bytes, with room for a
	// rounded rate and bytes queued before the measurement.
	linkPossible = 1.02
	// littleImpossible is how far rate × least mean latency may exceed the slots before the
	// figures cannot all be true: rounding is already subtracted, the rest is for requests in
	// flight at the edges.
	littleImpossible = 1.10
	// littleStrained is the same ratio from which the figures are merely odd.
	littleStrained = 1.05
	// littleIdle is the share of the slots that must be in flight by rate × mean latency; below
	// it, connections were idle.
	littleIdle = 0.90
	// tailLong is the ratio of mean to median from which the verdict mentions the tail.
	tailLong = 3
	// scheduleMet is the share of a target rate that counts as all of it.
	scheduleMet = 0.98
	// totalsOff and totalsOffAsked are tolerated differences between rate and requests ÷ time:
	// with the measured time, and with the requested one.
	totalsOff, totalsOffAsked = 0.02, 0.05
	// totalsImpossible is the difference from which one of the two is not a rate of this run.
	totalsImpossible = 0.20
	// figureMost bounds the figures: neither 10^15 of anything a second nor 10^-15 was ever
	// measured.
	figureMost = 1e15
	// bytesOff is the tolerated difference between two counts of the same bytes.
	bytesOff = 0.02
)

// pointFacts is a point with what follows from its figures. It is immutable; what other points
// say makes a copy (peers.inform).
type pointFacts struct {
	point           *run
	bytes           transfer
	generator       pointGenerator
	server          pointServer
	link            pointLink
	little          pointLittle
	conditions      conditions
	lent            borrowedEvidence
	inconsistencies contradictions
}

func newPointFacts(p record.Point) *pointFacts {
	r, impossible := newRun(p)
	server, ofServer := newPointServer(&r.Point)
	generator, ofGenerator := newPointGenerator(&r.Point)
	bytes, latencies := transfer{r}, newLatencies(r)
	little, link := newLittle(latencies), newLink(bytes)
	return &pointFacts{
		point: r, bytes: bytes, generator: generator, server: server, link: link, little: little, conditions: conditionsOf(&r.Point),
		inconsistencies: slices.Concat(impossible, ofServer, ofGenerator, r.checkConnections(), latencies.check(), little.found,
			r.checkTotals(), bytes.check(), link.check(&r.Point), r.checkSchedule()),
	}
}

// caveats returns what weakens the point's figures, whatever the bottleneck.
func (f *pointFacts) caveats() []record.Statement {
	list := slices.Clone(f.little.caveats)
	if f.point.Approx {
		list = append(list, say("point.approximate", nil))
	}
	if s := f.point.RPSStdev; s.Known && f.point.RPS.Known && s.Value/f.point.RPS.Value > verdict.Unsteady {
		list = append(list, say("point.unsteady", with{"deviation": s.Value / f.point.RPS.Value}))
	}
	return list
}
