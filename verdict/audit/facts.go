package audit

import (
	"slices"

	"ceiling/record"
	"ceiling/verdict"
)

// Thresholds for figures that others printed. They are wider than those for
// our own records: a published CPU is the mean of a host over a time that is
// seldom the run's, and a rate may be rounded.
const (
	// pointFull is the share of its CPU from which a side counts as full. Means
	// of a host hold the run's beginning and end and cores that got less than
	// their part; hosts whose busiest cores stood at 100 % print 85 to 96.
	pointFull = 0.85
	// pointFree is the share up to which a side clearly had something left.
	pointFree = 0.70
	// linkFull is the share of a link that its least possible bytes must fill.
	// What is not counted (longer heads, TCP options, acknowledgements) makes
	// up the rest.
	linkFull = 0.95
	// linkFree is the share up to which a link cannot be full whatever its
	// frames: with 1,500-byte frames they add 6 %, short heads another 5.
	linkFree = 0.80
	// linkPossible is the share that a link cannot carry, with room for a
	// rounded rate and bytes that waited before the measurement.
	linkPossible = 1.02
	// littleImpossible is how far rate × least mean latency may exceed the
	// slots before the figures cannot all be true: rounding is taken off
	// before, the rest is for requests in flight at the edges.
	littleImpossible = 1.10
	// littleStrained is where they are only odd.
	littleStrained = 1.05
	// littleIdle is the share of the slots that must be in flight by rate ×
	// mean latency; below it connections stood idle.
	littleIdle = 0.90
	// tailLong is how many times the median the mean has to be to be told.
	tailLong = 3
	// scheduleMet is the part of an asked rate that counts as all of it.
	scheduleMet = 0.98
	// totalsOff, totalsOffAsked are differences between rate and requests ÷
	// time: with the time as it was, and with the one that was asked for.
	totalsOff, totalsOffAsked = 0.02, 0.05
	// totalsImpossible is where one of the two is not a rate of this run.
	totalsImpossible = 0.20
	// figureMost bounds the figures: 10^15 of anything a second was never
	// measured, and neither was 10^-15.
	figureMost = 1e15
	// bytesOff is the difference between two counts of the same bytes.
	bytesOff = 0.02
)

// pointFacts is a point with what follows from its figures. None of it changes once
// it is made; what other points say makes another of it (peers.inform).
type pointFacts struct {
	*run
	bytes           transfer
	generator       pointGenerator
	server          pointServer
	link            pointLink
	little          pointLittle
	conditions      conditions
	lent            lent
	inconsistencies contradictions
}

func newPointFacts(p record.Point) *pointFacts {
	r, impossible := newRun(p)
	server, ofServer := newPointServer(&r.Point)
	generator, ofGenerator := newPointGenerator(&r.Point)
	bytes, latencies := transfer{r}, newLatencies(r)
	little, link := newLittle(latencies), newLink(bytes)
	return &pointFacts{
		run: r, bytes: bytes, generator: generator, server: server, link: link, little: little, conditions: conditionsOf(&r.Point),
		inconsistencies: slices.Concat(impossible, ofServer, ofGenerator, r.checkConnections(), latencies.check(), little.found,
			r.checkTotals(), bytes.check(), link.check(&r.Point), r.checkSchedule()),
	}
}

// caveats is what weakens the point's figures, whatever the bottleneck.
func (f *pointFacts) caveats() []record.Statement {
	list := slices.Clone(f.little.caveats)
	if f.Approx {
		list = append(list, say("point.approximate", nil))
	}
	if s := f.RPSStdev; s.Known && f.RPS.Known && s.Value/f.RPS.Value > verdict.Unsteady {
		list = append(list, say("point.unsteady", with{"deviation": s.Value / f.RPS.Value}))
	}
	return list
}
