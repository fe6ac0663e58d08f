package verdict

import (
	"ceiling/record"
	"slices"
)

// answer is what a rule makes of a run.
type answer int

const (
	no         answer = iota // this is not the bottleneck
	yes                      // it is
	cannotTell               // a measurement is missing
)

// finding is a rule's whole answer. It holds nothing but what the record says.
type finding struct {
	bottleneck record.Bottleneck
	answer     answer
	because    []record.Statement // with the figures
	pro        []record.Evidence  // what it stands on
	against    []record.Evidence  // what contradicts it
	missing    []record.Statement // what was not measured, where the answer is cannotTell
	caveats    []record.Statement
	next       []record.Statement // what to do
	// explained: because and next name the cause itself, and no other source is
	// asked what the requests wait for.
	explained bool
	// times this run's rate at which the resource would be full; 0 unknown.
	times float64
	// nearly says in words how near the resource is, for the next bottleneck.
	nearly record.Statement
}

// figure is a number that may not have been measured.
type figure struct {
	value float64
	known bool
}

func some(v float64) figure { return figure{v, true} }

// mentions tells whether statements, or those that they are put together of, have one
// of the codes.
func mentions(list []record.Statement, codes ...string) bool {
	return slices.ContainsFunc(list, func(s record.Statement) bool {
		if slices.Contains(codes, s.Code) {
			return true
		}
		for _, v := range s.With {
			switch v := v.(type) {
			case record.Statement:
				if mentions([]record.Statement{v}, codes...) {
					return true
				}
			case []record.Statement:
				if mentions(v, codes...) {
					return true
				}
			}
		}
		return false
	})
}

// with is what a statement speaks of.
type with = record.Values

// say makes a statement; its sentence stands in package prose under the same code.
func say(code string, values with) record.Statement { return record.State(code, values) }

// just is a sentence of one statement.
func just(code string, values with) []record.Statement {
	return []record.Statement{record.State(code, values)}
}
