package verdict

import (
	"ceiling/internal/unit"
	"ceiling/record"
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
	because    string            // one sentence, with the figures
	pro        []record.Evidence // what it stands on
	against    []record.Evidence // what contradicts it
	missing    []string          // what was not measured, where the answer is cannotTell
	caveats    []string
	next       string // what to do
	// explained: because and next name the cause itself, and no other source is
	// asked what the requests wait for.
	explained bool
	// times this run's rate at which the resource would be full; 0 unknown.
	times float64
	// nearly says in words how near the resource is, for the next bottleneck.
	nearly string
}

// figure is a number that may not have been measured.
type figure struct {
	value float64
	known bool
}

func some(v float64) figure { return figure{v, true} }

// ns writes a time that was counted in floating point.
func ns(v float64) string { return unit.FormatNsFloat(v) }

func count(n uint64) string { return unit.FormatCount(int64(min(n, 1<<62))) }
