package verdict

import (
	"slices"

	"ceiling/record"
)

// diskWaits sums the threads that wait for disks, local or networked, over all files: an embedded
// database syncs a journal, the data and their directory in turn.
type diskWaits struct {
	sync, all float64 // threads
	distinct  int     // different threads, at least
	top       *offWait
}

func diskWaitsOf(list []offWait) diskWaits {
	var d diskWaits
	for i := range list {
		w := &list[i]
		switch w.Reason {
		case record.WaitSync:
			d.sync += w.Threads
		case record.WaitDisk, record.WaitNetworkFile:
		default:
			continue
		}
		d.all += w.Threads
		d.distinct = max(d.distinct, w.Distinct)
		// A file that was closed in the meantime has no name.
		if d.top == nil || d.top.Object == "" && w.Object != "" && w.Threads >= d.top.Threads/4 {
			d.top = w
		}
	}
	return d
}

// holdUp reports whether disk waits explain why n requests queue: a single thread that syncs
// holds up all that write the same log, and half of the requests waiting at once is evidence
// enough.
func (d *diskWaits) holdUp(n float64) bool {
	return d.top != nil && (d.sync >= waitStep || d.all >= waitStep && d.all >= mostOf*n)
}

// says returns the waits in one clause.
func (d *diskWaits) says() record.Statement {
	return say("disk-waits", with{"threads": d.all, "top_threads": d.top.Threads, "alone": d.all < 1.1*d.top.Threads, "what": d.top.object()})
}

// ruleOwnDisk asks whether the server itself waits for a disk. A dedicated logging thread delays
// no request, so the rule needs several threads, or a process with only one.
func ruleOwnDisk(f *facts) finding {
	out := finding{bottleneck: record.ServerBlocked, explained: true}
	list := f.cpu.server.tellingWaits()
	d := diskWaitsOf(list)
	if !d.holdUp(f.underWay()) || d.distinct < 2 && f.cpu.server.sleeps.all > float64(len(f.cpu.server.subject.processes))+waitStep {
		return out
	}
	for i := range list {
		switch list[i].Reason {
		case record.WaitLock, record.WaitInterpreterLock, record.WaitFileLock:
			if list[i].Threads > d.all {
				return out // the lock's explanation covers what is done under it
			}
		}
	}
	p := &f.places
	if free, missing := f.generatorFree(); !free || missing != nil {
		return out
	}
	if idle, missing := f.cpu.serverIdle(); !idle || missing != nil || !p.known || !p.both || p.share[serverQueue]+p.share[inServer] < mostOf {
		return out // serverwait.go says what is missing
	}
	out.answer = matched
	server := f.cpu.server
	device := server.disks.full(false)
	out.pro = slices.Concat(server.stackClue().says, server.disks.evidence(device), server.cpuEvidence(),
		f.placeEvidence(serverQueue, inServer))
	out.because = just("blocked.disk", with{"waits": d.says()})
	if device != nil {
		out.because = append(out.because, workOf(device))
	}
	out.next = []record.Statement{d.top.step()}
	return out
}
