package verdict

import (
	"strings"

	"ceiling/record"
)

// PointVerdict is what one published measurement proves.
type PointVerdict struct {
	// Label is the point's id, or its line in the file.
	Label   string         `json:"label"`
	Verdict record.Verdict `json:"verdict"`
	// Missing are the keys that were not stated (or not usable) and without
	// which the ceiling stays undetermined or doubtful.
	Missing []string `json:"missing"`
	// Inconsistencies are the figures of this point that contradict each other.
	Inconsistencies []Inconsistency `json:"inconsistencies"`
}

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

// JudgePoints judges measurements that other tools printed. A verdict rests on
// the figures alone: ids, names and what an author concluded do not enter it.
// Points of one route or one server inform each other as evidence and doubt;
// none takes its ceiling from another.
func JudgePoints(points []record.Point) PointsVerdict {
	all := make([]*pointFacts, len(points))
	for i := range points {
		all[i] = newPointFacts(points[i])
	}
	peers := newPeers(all)
	out := PointsVerdict{Points: make([]PointVerdict, len(points)), Between: pointsBetween(all)}
	for i, f := range all {
		peers.inform(f)
		v := PointVerdict{Label: points[i].Label(), Inconsistencies: f.inconsistencies}
		v.Verdict, v.Missing = f.judge()
		v.Verdict.Evidence = append(v.Verdict.Evidence, f.loadEvidence()...)
		v.Verdict.Doubts = append(v.Verdict.Doubts, f.doubts()...)
		if v.Verdict.Ceiling == Undetermined {
			v.Verdict.Doubts = append(v.Verdict.Doubts, peers.hints(f)...)
		}
		out.Points[i] = v
	}
	return out
}

// judge lets the rules speak: what cannot be, then what is full, in the order
// of how little else has to be known to say so. The link comes before the
// generator: no generator gets more through a full link, and one that spins
// while it waits looks full at any rate. The server comes last and needs all
// others to be known.
func (f *pointFacts) judge() (record.Verdict, []string) {
	if !f.p.RPS.Known {
		return record.Verdict{Outcome: record.Void, Ceiling: Undetermined, Because: "undetermined: there is no rate (rps is missing)", Next: "state the rate"}, []string{"rps"}
	}
	if v := f.void(); v != nil {
		return *v, nil
	}
	var v record.Verdict
	var missing []string
	switch {
	case f.open() && f.metSchedule():
		v = f.verdictAskedRate()
	case f.link.full():
		v = f.verdictBandwidth()
	case f.generator.full():
		v = f.verdictGenerator()
	case f.server.full() && f.generator.free() && f.link.free():
		v = f.verdictServerCPU()
	default:
		v, missing = f.verdictUndetermined()
	}
	if f.open() && !f.metSchedule() {
		v.Outcome = record.Void
		v.Because = f.scheduleSays() + "; " + v.Because
	}
	return v, missing
}

// missingFigure is a figure that was not stated, and what for want of it is unknown.
type missingFigure struct {
	keys []string
	says string
}

// lacks lists what is missing to tell the ceiling.
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
