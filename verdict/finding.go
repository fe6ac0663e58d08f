package verdict

import (
	"slices"

	"ceiling/record"
)

// answer is a rule's judgement of a run.
type answer int

const (
	notMatched answer = iota // this is not the bottleneck
	matched                  // it is
	unknown                  // a measurement is missing
)

// finding is a rule's complete answer, derived from the record alone.
type finding struct {
	bottleneck record.Bottleneck
	answer     answer
	because    []record.Statement // with the figures
	pro        []record.Evidence  // supporting evidence
	against    []record.Evidence  // contradicting evidence
	missing    []record.Statement // what was not measured, if the answer is unknown
	caveats    []record.Statement
	next       []record.Statement // what to do
	// explained: because and next name the cause itself, so explainWait consults no other source.
	explained bool
	// alone: nothing else that the run shows is worth naming.
	alone bool
	// times is the multiple of this run's rate at which the resource would be full; 0 if unknown.
	times float64
	// nearly says how near the resource is, for the next bottleneck.
	nearly record.Statement
}

// figure is a number that may not have been measured.
type figure struct {
	value float64
	known bool
}

func some(v float64) figure { return figure{v, true} }

// mentions reports whether any statement, or a statement nested in it, has one of the codes.
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

// with holds a statement's values.
type with = record.Values

// say makes a statement; package prose has its sentence under the same code.
func say(code string, values with) record.Statement { return record.State(code, values) }

// just makes a sentence of one statement.
func just(code string, values with) []record.Statement {
	return []record.Statement{record.State(code, values)}
}
