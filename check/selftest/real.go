package selftest

import (
	"fmt"
	"strconv"
	"time"
)

// RealScenarios plant bottlenecks in real software as packaged by Debian. Each has a second form
// with twice the planted resource, with which an independent client confirms the bottleneck
// (confirm.go).
func RealScenarios() []Scenario {
	var all []Scenario
	for _, group := range [][]Scenario{
		pythonPlants(), pythonPools(), nodePlants(), javaPlants(), phpPlants(), rubyPlants(),
		nginxPlants(), nginxLimits(), haproxyPlants(), apachePlants(), databasePlants(),
	} {
		all = append(all, group...)
	}
	return all
}

// confirmedBy sets the confirmation of the plant: the same plan with more of the resource.
func (p plan) confirmedBy(more string, relieved plan) plan {
	p.more, p.relieved = more, &relieved
	return p
}

// saying requires the explanation to match one of the patterns, whichever correct bottleneck is
// named.
func (p plan) saying(patterns ...string) plan {
	p.patterns = patterns
	return p
}

// atATime returns a pattern for a text that states the concurrency: a separate word, with what is
// counted. "python3 (3 processes)" only counts processes.
func atATime(n int) string {
	const things = `at a time|at once|in parallel|servers?\b|slots?\b|places?\b|connections?\b|workers?\b|processes\b|threads?\b|children\b|requests? (at|in|inside)`
	number := fmt.Sprintf(`(%d(\.[0-3]\d*)?|%d\.[7-9]\d*)`, n, n-1)
	if n == 1 {
		number += `|one( request| thread)?`
		number = "(" + number + ")"
	}
	return fmt.Sprintf(`(^|[^\d.,(])%s (of \d+ )?(busy )?(%s)|(pool|limit|maximum) of %s\b|(keeps|serves|served|before) %s\b|effective concurrency about %s( |;|$)`,
		number, things, number, number, number)
}

// millis formats a duration in whole milliseconds, as commands accept it.
func millis(d time.Duration) string { return strconv.Itoa(int(d.Milliseconds())) }

func (d *params) wholeMs(low, high int) time.Duration {
	return time.Duration(d.whole(low, high)) * time.Millisecond
}

// served is a plan of a program under a closed loop.
func (d *params) served(p program, connections int, says string) plan {
	return plan{says: says, subject: host{program: &p}, spec: d.run(connections)}
}

// twiceConnections confirms that nothing is shared: more requests in flight take the same time.
func (p plan) twiceConnections() plan {
	more := p
	more.spec.Connections *= 2
	return p.confirmedBy("twice the connections", more)
}
