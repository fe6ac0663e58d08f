// Package audit judges measurements published by others: points with a rate and whatever else
// they state. It says what each point proves and which of its figures contradict each other. It
// is a pure function of the points.
package audit

import (
	"slices"
	"strings"

	"ceiling/record"
)

// PointVerdict is what one published measurement proves.
type PointVerdict struct {
	// Label is the point's id, or its line in the file.
	Label   string         `json:"label"`
	Verdict record.Verdict `json:"verdict"`
	// From has the labels of the points that the bottleneck rests on if this point's own figures
	// decide nothing; the verdict is then one step weaker.
	From []string `json:"from,omitempty"`
	// Missing are the keys that were not stated (or not usable) and without which the bottleneck
	// stays inconclusive or doubtful.
	Missing []string `json:"missing"`
	// Inconsistencies are the figures of this point that contradict each other.
	Inconsistencies []Inconsistency `json:"inconsistencies"`
}

// ServerSide is the bottleneck of a point whose client got a higher rate from another server: the
// server's CPU, a thread, a lock, a pool or its network.
const ServerSide = "server side"

// OwnFigures is the code of the caveat that says why a point's own figures decide nothing.
const OwnFigures = "point.own-figures"

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
	KindConnections = "connections" // requested but not opened
	KindSchedule    = "schedule"    // a target rate that was not sent
	KindField       = "field"       // a figure out of its possible range
	KindIdentical   = "identical"   // the same figures under two labels
	KindUnequal     = "unequal"     // runs that differ in more than one thing
)

// Inconsistency is one contradiction, with its arithmetic.
type Inconsistency struct {
	Kind string `json:"kind"`
	// Keys of the figures that contradict each other.
	Keys []string `json:"keys"`
	// Points has the indices of the points concerned, if there are several.
	Points []int            `json:"points,omitempty"`
	Says   record.Statement `json:"says"`
}

// contradictions are the inconsistencies that one check found.
type contradictions []Inconsistency

func (c *contradictions) note(kind string, says record.Statement, keys ...string) {
	*c = append(*c, Inconsistency{Kind: kind, Keys: keys, Says: says})
}

// with holds a statement's values.
type with = record.Values

// say makes a statement; package prose has its sentence under the same code.
func say(code string, values with) record.Statement { return record.State(code, values) }

// just makes a sentence of one statement.
func just(code string, values with) []record.Statement {
	return []record.Statement{record.State(code, values)}
}

// PointsVerdict is what a file of published measurements proves.
type PointsVerdict struct {
	// Points has one verdict for each point, in their order.
	Points []PointVerdict `json:"points"`
	// Between are the inconsistencies of several points with each other.
	Between []Inconsistency `json:"between"`
}

// Judge judges measurements that other tools printed. A verdict rests on the figures alone, not
// on ids, names or the author's conclusions. If a point's own figures decide nothing, those of
// other points may; the verdict then names them and says that it is weaker.
func Judge(points []record.Point) PointsVerdict {
	all := make([]*pointFacts, len(points))
	for i := range points {
		all[i] = newPointFacts(points[i])
	}
	peers := newPeers(all)
	out := PointsVerdict{Points: make([]PointVerdict, len(points)), Between: pointsBetween(all)}
	for i, f := range all {
		f = peers.inform(f)
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

// withoutNil replaces nil lists, which JSON would encode as null, by empty ones.
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
		v.Verdict.Caveats = []record.Statement{}
	}
	return v
}

// judge applies the rules: first what cannot be true, then what is full, ordered by how little
// else must be known. The link comes before the generator: no generator gets more through a full
// link, and one that spins while waiting looks full at any rate. The server comes last because
// all others must be known.
func (f *pointFacts) judge() (v record.Verdict, missing, from []string) {
	if v := f.verdictErrors(); v != nil {
		return *v, nil, nil
	}
	if !f.point.RPS.Known {
		return record.Verdict{Outcome: record.Invalid, Bottleneck: record.Inconclusive,
			Because: just("inconclusive", with{"missing": just("point.no-rate", nil)}),
			Next:    just("point.no-rate.next", nil)}, []string{"rps"}, nil
	}
	if v := f.void(); v != nil {
		return *v, nil, nil
	}
	switch {
	case f.point.open() && f.point.metSchedule():
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
	if f.point.open() && !f.point.metSchedule() {
		v.Outcome = record.Invalid
		v.Because = append(just("point.schedule.missed", f.point.schedule()), v.Because...)
	}
	return v, missing, from
}

// judgeFromOthers consults other points if this one's figures decide nothing.
func (f *pointFacts) judgeFromOthers() (v record.Verdict, missing, from []string) {
	var lacks []record.Statement
	for _, m := range f.lacks() {
		missing, lacks = append(missing, m.keys...), append(lacks, m.says)
	}
	other, points := f.fromOthers()
	if other == nil {
		return f.verdictInconclusive(lacks), missing, nil
	}
	var called []record.Statement
	for _, g := range points {
		if label := g.point.Label(); !slices.Contains(from, label) {
			from, called = append(from, label), append(called, g.point.called())
		}
	}
	other.Because = just("point.from", with{"points": called, "because": other.Because})
	other.Caveats = append(other.Caveats, say("point.weaker", with{"points": called}))
	if len(missing) > 0 {
		other.Caveats = append(other.Caveats, say("point.own-figures", with{"missing": lacks}))
	}
	return *other, missing, from
}

// missingFigure is a figure that was not stated, and what is unknown without it.
type missingFigure struct {
	keys []string
	says record.Statement
}

// lacks lists what is missing to determine the bottleneck.
func (f *pointFacts) lacks() []missingFigure {
	list := slices.Concat(f.generator.lacks(), f.server.lacks(), f.link.lacks())
	if keys := f.point.littleLacks(); len(keys) > 0 {
		list = append(list, missingFigure{keys, say("point.little.unchecked", with{"missing": keysMissing(keys)})})
	}
	return list
}

// keysMissing says that keys are missing.
func keysMissing(keys []string) record.Statement {
	last := len(keys) - 1
	return say("point.keys-missing", with{"others": strings.Join(keys[:last], ", "), "last": keys[last]})
}
