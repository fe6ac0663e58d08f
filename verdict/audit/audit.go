// Package audit judges measurements that somebody else published: points with a rate
// and whatever else was stated. It says what each proves and which of its figures
// contradict each other. It is a pure function of the points.
package audit

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/record"
)

// PointVerdict is what one published measurement proves.
type PointVerdict struct {
	// Label is the point's id, or its line in the file.
	Label   string         `json:"label"`
	Verdict record.Verdict `json:"verdict"`
	// From are the labels of the points that the bottleneck stands on where this
	// one's own figures decide nothing: then it is one step weaker.
	From []string `json:"from,omitempty"`
	// Missing are the keys that were not stated (or not usable) and without
	// which the bottleneck stays undetermined or doubtful.
	Missing []string `json:"missing"`
	// Inconsistencies are the figures of this point that contradict each other.
	Inconsistencies []Inconsistency `json:"inconsistencies"`
}

// ServerSide is the bottleneck of a point whose client got more from another
// server: the server's CPU, a thread, a lock, a pool or its network.
const ServerSide = "server side"

// OwnFigures begins the caveat that says why a point's own figures decide nothing.
const OwnFigures = "of this run itself: "

// Kinds of inconsistency.
const (
	KindLittle      = "little"      // rate, latency and requests in flight
	KindCPU         = "cpu"         // CPU rows that do not add up
	KindBytes       = "bytes"       // bytes × rate against MB/s, totals against rates
	KindUnit        = "unit"        // MiB taken for MB
	KindLink        = "link"        // more than the link carries
	KindBaseline    = "baseline"    // more than the instance is provisioned for
	KindTotals      = "totals"      // requests counted against rate × time
	KindOrder       = "order"       // percentiles out of order
	KindResolution  = "resolution"  // figures coarser than what they are used for
	KindConnections = "connections" // asked for and not opened
	KindSchedule    = "schedule"    // an asked rate that was not sent
	KindField       = "field"       // a figure outside of what it can be
	KindIdentical   = "identical"   // the same figures under two labels
	KindUnequal     = "unequal"     // runs that differ in more than one thing
)

// Inconsistency is one contradiction, with its arithmetic.
type Inconsistency struct {
	Kind string `json:"kind"`
	// Keys of the figures that contradict each other.
	Keys []string `json:"keys"`
	// Points are the indices of the points concerned, where they are several.
	Points []int  `json:"points,omitempty"`
	Says   string `json:"says"`
}

// PointsVerdict is what a file of published measurements proves.
type PointsVerdict struct {
	// Points has one verdict for each point, in their order.
	Points []PointVerdict `json:"points"`
	// Between are the inconsistencies of several points with each other.
	Between []Inconsistency `json:"between"`
}

// Judge judges measurements that other tools printed. A verdict rests on
// the figures alone: ids, names and what an author concluded do not enter it.
// Where a point's own figures decide nothing, those of other points may: then
// the verdict names them and says that it is weaker.
func Judge(points []record.Point) PointsVerdict {
	all := make([]*pointFacts, len(points))
	for i := range points {
		all[i] = newPointFacts(points[i])
	}
	peers := newPeers(all)
	out := PointsVerdict{Points: make([]PointVerdict, len(points)), Between: pointsBetween(all)}
	for _, f := range all {
		peers.inform(f)
	}
	for i, f := range all {
		v := PointVerdict{Label: points[i].Label(), Inconsistencies: f.inconsistencies}
		v.Verdict, v.Missing, v.From = f.judge()
		v.Verdict.Evidence = append(v.Verdict.Evidence, f.loadEvidence()...)
		v.Verdict.Caveats = append(v.Verdict.Caveats, f.caveats()...)
		if v.Verdict.Bottleneck == record.Inconclusive {
			v.Verdict.Caveats = append(v.Verdict.Caveats, peers.hints(f)...)
		}
		out.Points[i] = v.withoutNil()
	}
	if out.Between == nil {
		out.Between = []Inconsistency{}
	}
	return out
}

// withoutNil makes empty lists of what JSON would call null.
func (v PointVerdict) withoutNil() PointVerdict {
	if v.Missing == nil {
		v.Missing = []string{}
	}
	if v.Inconsistencies == nil {
		v.Inconsistencies = []Inconsistency{}
	}
	if v.Verdict.Evidence == nil {
		v.Verdict.Evidence = []record.Evidence{}
	}
	if v.Verdict.Caveats == nil {
		v.Verdict.Caveats = []string{}
	}
	return v
}

// judge lets the rules speak: what cannot be, then what is full, in the order
// of how little else has to be known to say so. The link comes before the
// generator: no generator gets more through a full link, and one that spins
// while it waits looks full at any rate. The server comes last and needs all
// others to be known.
func (f *pointFacts) judge() (v record.Verdict, missing, from []string) {
	if v := f.verdictErrors(); v != nil {
		return *v, nil, nil
	}
	if !f.p.RPS.Known {
		return record.Verdict{Outcome: record.Invalid, Bottleneck: record.Inconclusive, Because: "inconclusive: there is no rate (rps is missing)",
			Next: "state the rate"}, []string{"rps"}, nil
	}
	if v := f.void(); v != nil {
		return *v, nil, nil
	}
	switch {
	case f.open() && f.metSchedule():
		v = f.verdictAskedRate()
	case f.link.full():
		v = f.verdictBandwidth()
	case f.generator.full():
		v = f.verdictGenerator()
	case f.server.full() && f.generator.free() && f.link.known() && f.link.free():
		v = f.verdictServerCPU()
	default:
		v, missing, from = f.judgeFromOthers()
	}
	if f.open() && !f.metSchedule() {
		v.Outcome = record.Invalid
		v.Because = f.scheduleSays() + "; " + v.Because
	}
	return v, missing, from
}

// judgeFromOthers lets other points speak where the own figures do not.
func (f *pointFacts) judgeFromOthers() (v record.Verdict, missing, from []string) {
	undetermined, missing := f.verdictUndetermined()
	other, points := f.fromOthers()
	if other == nil {
		return undetermined, missing, nil
	}
	var called []string
	for _, g := range points {
		if label := g.p.Label(); !slices.Contains(from, label) {
			from, called = append(from, label), append(called, g.called())
		}
	}
	names := strings.Join(called, " and ")
	other.Because = "from " + names + ": " + other.Because
	other.Caveats = append(other.Caveats, fmt.Sprintf(
		"one step weaker than a measurement of this run: it stands on %s, and the runs may differ in what is not stated", names))
	if len(missing) > 0 {
		other.Caveats = append(other.Caveats, OwnFigures+strings.TrimPrefix(undetermined.Because, "inconclusive: "))
	}
	return *other, missing, from
}

// missingFigure is a figure that was not stated, and what for want of it is unknown.
type missingFigure struct {
	keys []string
	says string
}

// lacks lists what is missing to tell the bottleneck.
func (f *pointFacts) lacks() []missingFigure {
	var list []missingFigure
	list = append(list, f.generator.lacks()...)
	list = append(list, f.server.lacks()...)
	list = append(list, f.link.lacks()...)
	if keys := f.loadLacks(); len(keys) > 0 {
		list = append(list, missingFigure{keys, "Little's law cannot be checked (" + missingText(keys) + ")"})
	}
	return list
}

// missingText says that keys are missing.
func missingText(keys []string) string {
	if len(keys) == 1 {
		return keys[0] + " is missing"
	}
	return strings.Join(keys[:len(keys)-1], ", ") + " and " + keys[len(keys)-1] + " are missing"
}
