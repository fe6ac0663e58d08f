package prose

import (
	"path"
	"slices"
	"strings"

	"ceiling/record"
)

// Fixed returns what is constant along a curve: "64 connections, pipelining 10".
func Fixed(c *record.Curve) string { return strings.Join(Texts(c.Fixed), ", ") }

// ProfileCost says what profiling costs the server.
func ProfileCost(c *record.ProfileCost) string {
	values := record.Values{"pairs": c.Pairs, "needed": c.Needed, "with_ns": c.WithNs, "without_ns": c.WithoutNs, "mid": c.Relative.Mid,
		"low": c.Relative.Low, "high": c.Relative.High}
	switch {
	case c.Relative.Confidence == 0:
		return Text(record.State("profile.cost.open", values))
	case c.Relative.Low > 0:
		return Text(record.State("profile.cost", values))
	}
	return Text(record.State("profile.cost.none", values))
}

// namedMost is how many functions a sentence names.
const namedMost = 3

// ProfileDifference says how a kind of profile differs between two sides.
func ProfileDifference(d *record.ProfileDifference) string {
	dearer, cheaper := changed(d, record.Dearer), changed(d, record.Cheaper)
	values := record.Values{"kind": d.Kind, "unit": d.Unit, "a": d.A, "b": d.B, "blocks_a": d.BlocksA, "blocks_b": d.BlocksB,
		"in_turns": d.InTurns, "dearer": dearer, "cheaper": cheaper}
	known := slices.ContainsFunc(d.Functions, func(f record.FunctionDifference) bool { return f.Low != 0 || f.High != 0 })
	switch {
	case len(dearer)+len(cheaper) > 0:
		return Text(record.State("profile.changed", values))
	case !known:
		return Text(record.State("profile.few-blocks", values))
	}
	return Text(record.State("profile.same", values))
}

// changed describes the functions that became more, or less, expensive; it names the first
// namedMost.
func changed(d *record.ProfileDifference, decision string) []record.Statement {
	var list []record.Statement
	n := 0
	for i := range d.Functions {
		f := &d.Functions[i]
		if f.Decision != decision {
			continue
		}
		if n++; n <= namedMost {
			file := ""
			if f.Line > 0 {
				file = path.Base(f.File)
			}
			list = append(list, record.State("profile.function", record.Values{"function": f.Name, "file": file, "line": f.Line,
				"by": f.B - f.A, "unit": d.Unit}))
		}
	}
	if n > namedMost {
		list = append(list, record.State("profile.functions-more", record.Values{"more": n - namedMost}))
	}
	return list
}
