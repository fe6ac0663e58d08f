package verdict

import (
	"cmp"
	"slices"

	"ceiling/record"
)

// This file judges a disk by the kernel's counters (diskfacts.go) when no stacks show who waits
// for it.

const (
	// diskBusy is the busy share of the window from which a disk may hold requests up. One
	// request after another leaves it idle between an answer and the next write: a planted
	// bottleneck disk was busy for 0.83 to 0.97 of the time.
	diskBusy = 0.75
	// pressureLeast is the share of time during which some task on the host must wait for a disk
	// for it to hold a server up.
	pressureLeast = 0.5
	// loggers is how many threads must wait for a disk if one of them may just be writing a log;
	// then the requests must also wait for each other.
	loggers = 1.2
	// looksFewest is how many samples of threads' states show what the threads wait for.
	looksFewest = 3
)

// full returns the disk that was busy nearly all the time and holds files of the server or of the
// servers it calls; otherwise a busy one of unknown ownership; nil if there is none.
func (d *diskFacts) full(behind bool) *record.DiskUse {
	var of, other []*record.DiskUse
	for i := range d.list {
		switch u := &d.list[i]; {
		case u.Busy < diskBusy:
		case behind && u.Behind, !behind && u.Server:
			of = append(of, u)
		case !u.Server && !u.Behind:
			other = append(other, u)
		}
	}
	if len(of) == 0 {
		of = other
	}
	if len(of) == 0 {
		return nil
	}
	// Of a volume and the disks below it, prefer the one that flushes.
	return slices.MaxFunc(of, func(a, b *record.DiskUse) int {
		return cmp.Or(cmp.Compare(a.Flushing(), b.Flushing()), cmp.Compare(a.Busy, b.Busy), cmp.Compare(b.Device, a.Device))
	})
}

// flushes reports whether a disk spends most of its time in flushes; it cannot run two at once.
func flushes(d *record.DiskUse) bool { return d.Flushing() >= mostOf }

// workOf describes a disk's work in one clause.
func workOf(d *record.DiskUse) record.Statement {
	return say("disk.work", with{"device": d.Device, "busy": d.Busy, "flushes": d.FlushesPerS, "flush_ns": d.FlushNs, "flushing": d.Flushing(),
		"syncs": flushes(d), "reads": d.ReadsPerS, "writes": d.WritesPerS, "queue": d.Queue})
}

// evidence returns what the disk did and that tasks on the host waited for it.
func (d *diskFacts) evidence(u *record.DiskUse) []record.Evidence {
	if u == nil {
		return nil
	}
	list := []record.Evidence{record.NewEvidence("series.disk.busy_ns", u.Busy, "share",
		say("disk.requests", with{"device": u.Device, "busy": u.Busy, "reads": u.ReadsPerS, "read_bytes": u.ReadBytesPerS, "writes": u.WritesPerS,
			"written_bytes": u.WrittenBytesPerS, "flushes": u.FlushesPerS, "queue": u.Queue}))}
	if d.pressure.known {
		list = append(list, record.NewEvidence("series.psi.io_some_ns", d.pressure.value, "share",
			say("disk.pressure", with{"share": d.pressure.value})))
	}
	return list
}

// diskNext says what to do about a disk.
func diskNext(d *record.DiskUse) record.Statement {
	if flushes(d) {
		return say("disk.next.sync", with{"device": d.Device})
	}
	return say("disk.next", with{"device": d.Device})
}

// diskCaveats returns what is inferred about a disk rather than observed.
func diskCaveats(d *record.DiskUse) []record.Statement {
	var list []record.Statement
	if !flushes(d) {
		list = append(list, say("caveat.disk-parallel", with{"device": d.Device, "busy": d.Busy, "queue": d.Queue}))
	}
	if !d.Server && !d.Behind {
		list = append(list, say("caveat.disk-inferred", with{"device": d.Device}))
	}
	return list
}

// pressed reports whether some task on the host waited for a disk most of the time or, without
// pressure data from the kernel, whether threads were sampled often enough.
func (d *diskFacts) pressed(looks int) bool {
	if d.pressure.known {
		return d.pressure.value >= pressureLeast
	}
	return looks >= looksFewest
}

// ruleDisk asks whether a disk was busy nearly all the time while the server waited for it, by
// the kernel's counters alone.
func ruleDisk(f *facts) finding {
	out := finding{bottleneck: record.ServerBlocked, explained: true}
	d := f.cpu.server.disks.full(false)
	if d == nil {
		return out
	}
	out.pro = f.cpu.server.disks.evidence(d)
	t := &f.cpu.server.sleeps
	// Threads that flush one after another hold up all that write the same log; otherwise half of the
	// requests in state D at once are evidence enough.
	holdsUp := t.disk >= waitStep && (flushes(d) || t.disk >= mostOf*f.underWay())
	if !holdsUp || !f.cpu.server.disks.pressed(t.looks) {
		return out
	}
	beside := t.inDisk < 2 && t.disk < loggers && t.all > float64(len(f.cpu.server.subject.processes))+waitStep
	if beside && (f.waiting() != queued || f.lone.lined) {
		return out
	}
	if free, missing := f.generatorFree(); !free || missing != nil {
		return out
	}
	p := &f.places
	if idle, missing := f.cpu.serverIdle(); !idle || missing != nil || !p.known || !p.both || p.share[serverQueue]+p.share[inServer] < mostOf {
		return out // serverwait.go says what is missing
	}
	out.answer = matched
	waiting := record.NewEvidence("series.process.states.disk", t.disk, "threads", say("threads.disk", with{"threads": t.disk, "of": t.all}))
	out.pro = slices.Concat(out.pro, []record.Evidence{waiting}, f.cpu.server.cpuEvidence(), f.placeEvidence(serverQueue, inServer))
	out.because = just("blocked.by-disk", with{"device": d.Device, "work": workOf(d), "threads": t.disk})
	out.next, out.caveats = []record.Statement{diskNext(d)}, diskCaveats(d)
	if beside {
		out.caveats = append(out.caveats, say("caveat.disk-beside", nil))
	}
	return out
}

// ofTheDisks adds a caveat about what a constantly busy disk does not show.
func (d *caveats) ofTheDisks(f *serverSide, bottleneck record.Bottleneck) {
	u := f.disks.full(false)
	if u == nil || !u.Server || f.sleeps.looks == 0 || f.sleeps.disk >= waitStep ||
		!slices.Contains([]record.Bottleneck{record.ServerBlocked, record.Concurrency, record.Inconclusive}, bottleneck) {
		return
	}
	if w := diskWaitsOf(f.tellingWaits()); w.all >= waitStep {
		return
	}
	d.add("caveat.disk-busy", with{"device": u.Device, "busy": u.Busy, "threads": f.sleeps.disk})
}
