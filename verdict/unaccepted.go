package verdict

import (
	"maps"
	"math"
	"slices"

	"ceiling/record"
)

// Connections that stay in the accept queue: the kernel has established them, so the client
// considers them good, but the server never accepts them. No process answers their requests,
// however long the timeout.

// unacceptedFacts are the connections of the run that no process had accepted.
type unacceptedFacts struct {
	known bool
	mean  float64 // as estimated from socket samples
	// count is the number in the fullest list of all connections, or the lowest length of the
	// listeners' queues, which also hold connections that their client has given up.
	count float64
	of    float64 // connections at the server's end
	// growing: the server took connections out of the queue until the end, so no limit keeps the
	// others out.
	growing bool
	files   filesFacts
}

// filesFacts counts the open files of the server process nearest to its limit; may is 0 if unknown.
type filesFacts struct {
	pid       int
	comm      string
	open, may int
}

// full reports whether accept(2) has no descriptor left. A sample may fall between a close and
// the next accept.
func (l *filesFacts) full() bool {
	return l.may > 0 && l.open >= l.may-max(1, l.may/100)
}

func unacceptedOf(f *cpuFacts, series *record.Series, rows []*record.SocketsRow) unacceptedFacts {
	u := unacceptedFacts{count: math.Inf(1)}
	n := 0.0
	for _, row := range rows {
		if row.Server.Sockets <= 0 {
			continue
		}
		u.mean, u.of = u.mean+math.Max(row.Server.Unaccepted, 0), u.of+float64(row.Server.Sockets)
		n++
		if row.Moments == 0 && len(f.generator.agents) == 0 { // the row is a list
			u.count = math.Min(u.count, math.Max(row.Server.Unaccepted, 0))
		}
	}
	if n > 0 {
		u.mean, u.of = u.mean/n, u.of/n
	}
	fullest := fullestList(f, series)
	if fullest.Connections > 0 {
		u.count, u.of = math.Min(u.count, float64(max(fullest.Unaccepted, 0))), float64(fullest.Connections)
	}
	var queues, lists []int
	for _, row := range ours(f, series.Observed.Listeners) {
		if queue := queueOf(row); queue >= 0 && f.server.ofServer(row.Host) && !f.base.isOver(row.TNs) {
			queues = append(queues, queue)
			u.count = math.Min(u.count, float64(queue))
		}
	}
	for _, row := range rows {
		if row.Listed.Connections == fullest.Connections && !f.base.isOver(row.TNs) {
			lists = append(lists, row.Listed.Unaccepted)
		}
	}
	u.known = n > 0 && !math.IsInf(u.count, 1)
	u.growing = shrinks(queues) || shrinks(lists)
	u.files = filesOf(f, series)
	return u
}

// shrinks reports whether a queue was shorter in the second half of its counts than it ever was in
// the first. A server at its limit may take a few more, for connections that broke.
func shrinks(counts []int) bool {
	half := len(counts) / 2
	return half > 0 && float64(slices.Min(counts[:half])) > unacceptedFalls*float64(slices.Min(counts[half:]))
}

// isOver reports whether a reading is from after the window: the run's connections are then
// closed, and those that waited take their place.
func (f *runFacts) isOver(tNs int64) bool { return float64(tNs) > f.run.WindowS()*1e9 }

// fullestList returns the list with the most connections and, of these, the one with the fewest
// waiting: other lists were taken while connections were being opened or reopened.
func fullestList(f *cpuFacts, series *record.Series) (fullest record.Listing) {
	for _, row := range append(setup(f, series.Observed.Sockets), ours(f, series.Observed.Sockets)...) {
		l := row.Listed
		if f.server.ofServer(row.Host) && !f.base.isOver(row.TNs) &&
			(l.Connections > fullest.Connections || l.Connections == fullest.Connections && l.Unaccepted < fullest.Unaccepted) {
			fullest = l
		}
	}
	return fullest
}

// queueOf returns how many connections wait at all listeners; -1 if one listener's queue is
// unknown.
func queueOf(row *record.ListenerRow) int {
	sum := 0
	for _, l := range row.Listeners {
		if l.Queue < 0 {
			return -1
		}
		sum += l.Queue
	}
	if len(row.Listeners) == 0 {
		return -1
	}
	return sum
}

func filesOf(f *cpuFacts, series *record.Series) filesFacts {
	var worst filesFacts
	if !f.server.subject.known {
		return worst
	}
	may := map[int]int64{}
	for _, row := range series.Observed.Subjects {
		if row.Role == record.RoleSubject && row.Host == f.server.subject.host && row.FilesMax > 0 {
			may[row.PID] = row.FilesMax
		}
	}
	// Samples are rare: if the window has none, the last one before it counts.
	looks := map[int]*record.ProcessRow{}
	for _, row := range append(setup(f, series.Observed.Processes), observed(f.base, series.Observed.Processes)...) {
		if row.Role != record.RoleSubject || row.Host != f.server.subject.host || row.OpenFiles <= 0 || f.base.isOver(row.TNs) {
			continue
		}
		if was := looks[row.PID]; was == nil || was.TNs < 0 || row.OpenFiles > was.OpenFiles {
			looks[row.PID] = row
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(looks)) {
		row, limit := looks[pid], may[pid]
		if limit <= 0 {
			continue
		}
		// The limit bounds descriptor numbers: inherited ones may exceed it.
		open := min(int64(row.OpenFiles), limit)
		if worst.may == 0 || float64(open)*float64(worst.may) > float64(worst.open)*float64(limit) {
			worst = filesFacts{row.PID, row.Comm, int(open), int(min(limit, math.MaxInt32))}
		}
	}
	return worst
}

// neverAccepted returns how many connections of the run no process ever accepted; 0 if all were,
// or if connections come and go, because then some always wait for their turn.
func (f *serverSide) neverAccepted() float64 {
	u, run := &f.unaccepted, f.base.run
	if !u.known || u.count < 1 || u.mean < u.count*unacceptedSeen || run.Spec.NewConnections > 0 {
		return 0
	}
	// Reconnects after a timeout do not count as coming and going.
	if again := float64(run.Load.Reconnects); again > reconnectShare*float64(run.Requests.Completed) && again > 2*f.base.timeouts {
		return 0
	}
	return u.count
}

// acceptsSlowly reports whether most connections of a run that opens them again and again wait to be
// accepted: the loop around accept(2) is what limits it.
func (f *serverSide) acceptsSlowly() bool {
	u, run := &f.unaccepted, f.base.run
	return u.known && u.of > 0 && u.mean >= mostOf*u.of && float64(run.Load.Reconnects) >= mostOf*float64(run.Requests.Completed)
}

// unacceptedSays says how many connections wait to be accepted, and why if that is known.
func (f *serverSide) unacceptedSays() record.Statement {
	n, u := f.neverAccepted(), &f.unaccepted
	var files record.Statement
	if u.files.full() {
		files = u.files.says()
	}
	return say("accept.unaccepted", with{"growing": u.growing, "connections": n, "of": math.Round(u.of), "files": files, "holds": math.Round(u.of - n)})
}

// says describes how near a process is to its limit.
func (l *filesFacts) says() record.Statement {
	return say("files.full", with{"pid": l.pid, "process": l.comm, "open": l.open, "limit": l.may})
}

// unacceptedNext says what to do about them.
func (f *serverSide) unacceptedNext() []record.Statement {
	u := &f.unaccepted
	if u.files.full() {
		return u.files.next()
	}
	if u.growing {
		return just("accept.unaccepted.next.growing", nil)
	}
	if holds := math.Round(u.of - f.neverAccepted()); holds >= 1 {
		return just("accept.unaccepted.next.limit", with{"holds": holds})
	}
	return just("accept.unaccepted.next", nil)
}

// next says how to raise the limit.
func (l *filesFacts) next() []record.Statement { return just("files.full.next", with{"limit": l.may}) }

// unacceptedEvidence returns the facts as evidence.
func (f *serverSide) unacceptedEvidence() []record.Evidence {
	u := &f.unaccepted
	var list []record.Evidence
	if n := f.neverAccepted(); n > 0 {
		list = append(list, record.NewEvidence("series.sockets.listed.unaccepted", n, "connections",
			say("accept.stayed", with{"connections": n, "of": math.Round(u.of)})))
		if a := &f.accept; a.limit > 0 {
			list = append(list, record.NewEvidence("series.listener.queue", float64(a.queue), "connections",
				say("accept.waited", with{"connections": a.queue, "limit": a.limit})))
		}
	}
	if u.files.full() {
		list = append(list, record.NewEvidence("series.process.open_files", float64(u.files.open), "files", u.files.says()))
	}
	return list
}
