package plan

import (
	"slices"
	"strings"

	"ceiling/record"
)

// What was seen of the tunings of a factorial experiment. A metric that does not change says "no
// effect" only of a tuning that was in effect.

// tuningOf is what was seen of the settings in which the levels of an effect differ.
type tuningOf struct {
	pairs, seen int          // pairs of runs that differ in settings, and those in which one was seen to act
	opposite    bool         // the counters showed the opposite
	unseen      record.Tuned // one that was not seen to act
}

// shown reports whether the tuning acted, as far as the kernel tells; true if there is none.
func (t *tuningOf) shown() bool { return t.pairs == 0 || !t.opposite && 2*t.seen > t.pairs }

// tuned returns what was seen of the settings that a contrast's factors change.
func (r *factorialRuns) tuned(k contrast) tuningOf {
	var t tuningOf
	each := []contrast{{k.factor, k.level, -1, 0}}
	if k.with >= 0 {
		each = append(each, contrast{k.with, k.withLevel, -1, 0})
	}
	for _, main := range each {
		for _, pair := range main.terms(r.cells) {
			for _, runs := range r.blocks {
				t.add(runs[pair.minus[0]].Tuned, runs[pair.plus[0]].Tuned)
			}
		}
	}
	return t
}

// add adds the settings in which two runs differ.
func (t *tuningOf) add(a, b []record.Tuned) {
	differ := slices.Concat(notIn(a, b), notIn(b, a))
	if len(differ) == 0 || differ[0].Effect == "" { // "": by a program that did not look
		return
	}
	t.pairs++
	seen := false
	for _, s := range differ {
		switch s.Effect {
		case record.TuningInEffect:
			seen = true
		case record.TuningNotInEffect:
			t.opposite, t.unseen = true, s
		default:
			if t.unseen.What == "" {
				t.unseen = s
			}
		}
	}
	if seen {
		t.seen++
	}
}

// notIn returns the settings of a that b does not have with the same value.
func notIn(a, b []record.Tuned) []record.Tuned {
	var list []record.Tuned
	for _, s := range a {
		if !slices.ContainsFunc(b, func(o record.Tuned) bool { return o.What == s.What && o.During == s.During }) {
			list = append(list, s)
		}
	}
	return list
}

// setBack returns the setting that another program changed back during a run; nil: none.
func setBack(m *record.Measured) *record.Tuned {
	if i := slices.IndexFunc(m.Tuned, func(s record.Tuned) bool { return s.Effect == record.TuningSetBack }); i >= 0 {
		return &m.Tuned[i]
	}
	return nil
}

// knobOf returns a setting's knob: that of all queues is one.
func knobOf(what string) string { return what[strings.LastIndexByte(what, ' ')+1:] }

// notSeen is the caveat that names settings that no run has shown to act, each with the evidence of
// one run.
func notSeen(r *factorialRuns) []record.Statement {
	seen, last := map[string]bool{}, map[string]record.Tuned{}
	var knobs []string
	for _, runs := range r.blocks {
		for _, m := range runs {
			for _, s := range m.Tuned {
				knob := knobOf(s.What)
				if s.Effect == "" {
					continue
				}
				if _, known := last[knob]; !known {
					knobs = append(knobs, knob)
				}
				seen[knob] = seen[knob] || s.Effect == record.TuningInEffect
				last[knob] = s
			}
		}
	}
	var list []record.Statement
	for _, knob := range knobs {
		if s := last[knob]; !seen[knob] {
			list = append(list, record.State("factorial.not-seen", record.Values{"setting": s.What, "to": s.During, "evidence": s.Evidence}))
		}
	}
	return list
}
