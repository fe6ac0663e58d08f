package verdict

import (
	"fmt"
	"strings"

	"ceiling/internal/unit"
)

// collectorRuns is the share of the time in which a collector of garbage stops
// all other threads, from which it is the bottleneck: without it the rate could
// be two and a half times as high.
const collectorRuns = 0.6

// collector is the thread of a JVM that collects garbage while the others stand
// still, where it does so most of the time; nil there is none. The names are
// HotSpot's: the serial collector runs in the VM Thread, the parallel one and
// the pauses of G1 in GC Thread#n.
func (f *facts) collector() *threadUse {
	for i := range f.subject.threads {
		t := &f.subject.threads[i]
		if (t.comm == "VM Thread" || strings.HasPrefix(t.comm, "GC Thread#")) && t.run >= collectorRuns {
			return t
		}
	}
	return nil
}

// collectorSays is what to do about it, and the finding.
func (f *facts) collectorSays(t *threadUse) (next, because string) {
	name := f.subjectName()
	return "give " + name + " a larger heap (-Xmx), or allocate less; -Xlog:gc shows its collections",
		fmt.Sprintf("single-threaded server: the garbage collector of %s (thread %s) ran %s of the time, stopping its other threads", name,
			t.comm, unit.Percent(t.run))
}
