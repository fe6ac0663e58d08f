package verdict

import "strings"

// collectorRuns is the share of the time during which a stop-the-world garbage collector makes it
// the bottleneck: without it the rate could be two and a half times as high.
const collectorRuns = 0.6

// collector returns the JVM thread that collects garbage while the others are stopped, if it does
// so most of the time; nil if there is none. The names are HotSpot's: the serial collector runs
// in the VM Thread, the parallel one and G1's pauses in GC Thread#n.
func (f *serverSide) collector() *threadUse {
	for i := range f.subject.threads {
		t := &f.subject.threads[i]
		if (t.comm == "VM Thread" || strings.HasPrefix(t.comm, "GC Thread#")) && t.run >= collectorRuns {
			return t
		}
	}
	return nil
}
