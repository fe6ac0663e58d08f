package plan

import (
	"math"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/stat"
	"ceiling/record"
)

// fewComplete says that so few complete blocks cannot show an effect; empty if they can.
func fewComplete(blocks, effects int) record.Statement {
	if least := stat.LeastBlocks(compareConfidence, effects); blocks < least {
		return say("factorial.few-blocks", with{"blocks": blocks, "least": least, "effects": effects})
	}
	return record.Statement{}
}

// factorialCaveats lists what weakens the effects.
func factorialCaveats(e *spec.Experiment, f *record.Factorial, r *factorialRuns) []record.Statement {
	var list []record.Statement
	if few := fewComplete(f.Blocks, f.Comparisons); !few.IsZero() {
		list = append(list, few)
	}
	list = append(list, invalidCells(e, f)...)
	list = append(list, bottlenecksDiffer(e, f)...)
	shared := func(c record.FactorialCell) bool { return c.Bottleneck == record.SharedCPU }
	if slices.ContainsFunc(f.Cells, shared) {
		list = append(list, record.State("factorial.shared-cpu", nil))
	}
	if least := fewestBeyond(r); least < beyondLeast {
		list = append(list, record.State("factorial.few-beyond", record.Values{"requests": math.Floor(least), "least": beyondLeast}))
	}
	if absent := notAsked(e, r); absent != "" {
		list = append(list, record.State("factorial.not-asked", record.Values{"effects": absent}))
	}
	if len(f.Factors) > 2 {
		list = append(list, record.State("factorial.of-three", nil))
	}
	if slices.ContainsFunc(e.Servers, func(s spec.Server) bool { return s.URL != "" }) {
		list = append(list, record.State("factorial.running-server", nil))
	}
	return list
}

// invalidCells states which runs do not count, and why.
func invalidCells(e *spec.Experiment, f *record.Factorial) []record.Statement {
	var list []record.Statement
	for i := range f.Cells {
		c := &f.Cells[i]
		if c.Invalid == 0 {
			continue
		}
		code := map[bool]string{true: "left-out", false: "some-invalid"}[c.LeftOut]
		list = append(list, record.State("factorial."+code, record.Values{"cell": e.CellLabel(c.Levels), "invalid": c.Invalid, "runs": c.Runs,
			"because": c.Because}))
	}
	return list
}

// bottlenecksDiffer is the caveat that cells had different bottlenecks: an effect between them is
// that of the two bottlenecks.
func bottlenecksDiffer(e *spec.Experiment, f *record.Factorial) []record.Statement {
	cells := map[record.Bottleneck][]string{}
	var order []record.Bottleneck
	for i := range f.Cells {
		c := &f.Cells[i]
		if c.Bottleneck == "" {
			continue
		}
		if cells[c.Bottleneck] == nil {
			order = append(order, c.Bottleneck)
		}
		cells[c.Bottleneck] = append(cells[c.Bottleneck], e.CellLabel(c.Levels))
	}
	if len(order) < 2 {
		return nil
	}
	var each []record.Statement
	for _, b := range order {
		each = append(each, record.State("factorial.bottleneck", record.Values{"bottleneck": string(b), "cells": len(cells[b]),
			"first": cells[b][0]}))
	}
	return []record.Statement{record.State("factorial.bottlenecks-differ", record.Values{"each": each})}
}

// fewestBeyond is the number of requests above p99 in the run with the fewest.
func fewestBeyond(r *factorialRuns) float64 {
	least := math.Inf(1)
	for _, b := range r.blocks {
		for _, m := range b {
			if m.Completed > 0 {
				least = min(least, float64(m.Completed)*.01)
			}
		}
	}
	return least
}

// notAsked names the effects without a pair of cells in the list.
func notAsked(e *spec.Experiment, r *factorialRuns) string {
	var names []string
	for _, k := range contrastsOf(levelCounts(e)) {
		if len(k.terms(r.cells)) > 0 {
			continue
		}
		name := e.Factorial.Factors[k.factor].Name
		if k.with >= 0 {
			name += " × " + e.Factorial.Factors[k.with].Name
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
