package verdict

import (
	"ceiling/record"
	"strings"
)

// collectorRuns is the share of the time in which a collector of garbage stops
// all other threads, from which it is the bottleneck: without it the rate could
// be two and a half times as high.
const collectorRuns = 0.6

// collector is the thread of a JVM that collects garbage while the others stand
// still, where it does so most of the time; nil there is none. The names are
// HotSpot's: the serial collector runs in the VM Thread, the parallel one and
// the pauses of G1 in GC Thread#n.
func (f *serverSide) collector() *threadUse {
	for i := range f.subject.threads {
		t := &f.subject.threads[i]
		if (t.comm == "VM Thread" || strings.HasPrefix(t.comm, "GC Thread#")) && t.run >= collectorRuns {
			return t
		}
	}
	return nil
}

// collectorSays is what to do about it, and the finding.
func (f *serverSide) collectorSays(t *threadUse) (next, because []record.Statement) {
	name := f.subjectName()
	return just("collector.next", with{"server": name}), just("collector", with{"server": name, "thread": t.comm, "ran": t.run})
}
