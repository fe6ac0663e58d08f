package verdict

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"ceiling/record"
)

// The database behind the server, from its own view of its sessions and the server's view of its
// pool. A pool that is too small, a contended row or table lock, a log that is synced and a
// database that computes are different answers with different next steps.

// Bounds for the database rules.
const (
	// sessionsFewest is the fewest samples that show what sessions wait for on average: one
	// second at five per second.
	sessionsFewest = 5
	// poolWaits is how many requests, on average, must wait for a connection for the pool to be
	// the bottleneck.
	poolWaits = 1
	// sessionsNamed bounds the waits named.
	sessionsNamed = 4
	// partNamed is the share of the server's CPU from which the database's part is mentioned.
	partNamed = 0.3
)

// databaseFacts summarises the database's samples over the window.
type databaseFacts struct {
	name    string // "PostgreSQL"
	samples int
	pool    poolFacts

	// Means over the samples, in sessions.
	sessions, active float64
	fewest, most     int // of the sessions
	waits            []record.SessionWait
	means            []float64 // of waits
	onCPU            float64
	locked           float64 // wait for each other's locks
	committing       float64 // wait for the log: its sync, its write, or the session doing either
	syncing          float64 // of these, in the write or the sync itself
	lock             lockFacts

	commitsPerS, syncsPerS, walBytesPerS figure
	syncNs                               figure // of one sync, by the database's own clock
	askedNs                              float64
	askedShare                           float64 // of the window
	cores                                figure  // used by its processes, if its host was watched
}

// poolFacts is the server's own count of its connections.
type poolFacts struct {
	samples   int
	size      float64
	inUse     float64 // on average
	waiting   float64 // requests that wait for one, on average: by Little's law, time waited per time
	waitsPerS float64
}

// lockFacts describes what most of the locked sessions wait for.
type lockFacts struct {
	kind, relation, blocker string
	rows                    int // at most, in a sample
	waiting                 float64
}

// known reports whether there are enough samples of the sessions.
func (d *databaseFacts) known() bool { return d.samples >= sessionsFewest }

// full reports whether requests wait for a connection from the pool.
func (p *poolFacts) full() bool {
	return p.samples >= sessionsFewest && p.size > 0 && p.inUse >= poolBusy*p.size && p.waiting >= poolWaits
}

func databaseOf(f *serverSide, series *record.Series) databaseFacts {
	d := databaseFacts{name: "the database"}
	if of := f.base.run.Database; of != nil && of.Product != "" {
		d.name, _, _ = strings.Cut(of.Product, " ")
	}
	d.pool = poolOf(f.base, series)
	rows := observed(f.base, series.Observed.Databases)
	d.samples = len(rows)
	if d.samples == 0 {
		return d
	}
	d.sum(rows)
	d.lock = lockOf(rows)
	d.counted(rows)
	d.cores = databaseCores(f)
	return d
}

// sum computes means over the samples.
func (d *databaseFacts) sum(rows []*record.DatabaseRow) {
	n := float64(len(rows))
	kinds := map[record.SessionWait]float64{}
	d.fewest = rows[0].Sessions
	for _, r := range rows {
		d.sessions += positive(float64(r.Sessions)) / n
		d.active += positive(float64(r.Active)) / n
		d.fewest, d.most = min(d.fewest, r.Sessions), max(d.most, r.Sessions)
		for _, w := range r.Waits {
			mean := positive(float64(w.Sessions)) / n
			w.Sessions = 0
			kinds[w] += mean
			switch {
			case w.Type == record.OnCPU:
				d.onCPU += mean
			case w.Type == "Lock":
				d.locked += mean
			case w.OfLog():
				d.committing += mean
				if w.Type == "IO" {
					d.syncing += mean
				}
			}
		}
	}
	for w := range kinds {
		d.waits = append(d.waits, w)
	}
	slices.SortFunc(d.waits, func(a, b record.SessionWait) int {
		return cmp.Or(cmp.Compare(kinds[b], kinds[a]), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Event, b.Event))
	})
	for _, w := range d.waits {
		d.means = append(d.means, kinds[w])
	}
}

// lockOf returns the lock with the most waiters.
func lockOf(rows []*record.DatabaseRow) lockFacts {
	type place struct{ kind, relation, blocker string }
	waiting, different := map[place]float64{}, map[string]int{}
	for _, r := range rows {
		inRow := map[[2]string]int{} // by kind and table: some wait for a row's transaction, others for their turn at the same row
		for _, l := range r.Locks {
			kind := l.Kind
			if kind == "tuple" { // the queue for a row: its first waiter waits for a transaction, the others for the row
				kind = "transactionid"
			}
			waiting[place{kind, l.Relation, l.Blocker}] += positive(float64(l.Waiting)) / float64(len(rows))
			inRow[[2]string{l.Kind, l.Relation}] += min(max(l.Rows, 0), 1e6)
		}
		for at, n := range inRow {
			different[at[1]] = max(different[at[1]], n)
		}
	}
	var best lockFacts
	for p, n := range waiting {
		if n > best.waiting || n == best.waiting && p.relation+p.blocker < best.relation+best.blocker {
			best = lockFacts{kind: p.kind, relation: p.relation, blocker: p.blocker, waiting: n}
		}
	}
	// For some that wait for the same lock, the table or the statement is unknown.
	total := 0.0
	for p, n := range waiting {
		if p.kind == best.kind && (p.relation == best.relation || p.relation == "" || best.relation == "") {
			total += n
			if best.relation == "" && p.relation != "" {
				best.relation = p.relation
			}
			if best.blocker == "" || p.blocker != "" && p.blocker < best.blocker {
				best.blocker = p.blocker
			}
		}
	}
	best.waiting, best.rows = total, different[best.relation]
	return best
}

// counted reads the database's counters.
func (d *databaseFacts) counted(rows []*record.DatabaseRow) {
	var seconds, commits, syncs, syncNs, bytes, asked float64
	log, timed := true, true
	for _, r := range rows {
		seconds += positive(float64(r.WidthNs)) / 1e9
		commits += positive(float64(r.Commits))
		syncs += positive(float64(r.WALSyncs))
		syncNs += positive(float64(r.WALSyncNs))
		bytes += positive(float64(r.WALBytes))
		asked += positive(float64(r.TookNs))
		log, timed = log && r.WALSyncs >= 0, timed && r.WALSyncNs >= 0
	}
	d.askedNs = asked / float64(len(rows))
	if !(seconds > 0) {
		return
	}
	d.askedShare = asked / 1e9 / seconds
	d.commitsPerS = some(commits / seconds)
	if log {
		d.syncsPerS, d.walBytesPerS = some(syncs/seconds), some(bytes/seconds)
		if timed && syncs > 0 {
			d.syncNs = some(syncNs / syncs)
		}
	}
}

// poolOf summarises the server's own pool counts.
func poolOf(f *runFacts, series *record.Series) poolFacts {
	var p poolFacts
	var seconds, waitedNs, waited float64
	for _, r := range observed(f, series.Observed.Statuses) {
		if r.Pool.Size <= 0 {
			continue
		}
		p.samples++
		p.size += positive(float64(r.Pool.Size))
		p.inUse += positive(float64(r.Pool.InUse))
		seconds += positive(float64(r.WidthNs)) / 1e9
		waitedNs += positive(float64(r.Pool.WaitedNs))
		waited += positive(float64(r.Pool.Waited))
	}
	if p.samples > 0 {
		p.size, p.inUse = p.size/float64(p.samples), p.inUse/float64(p.samples)
	}
	if seconds > 0 {
		p.waiting, p.waitsPerS = waitedNs/1e9/seconds, waited/seconds
	}
	return p
}

// databaseCores returns the CPU of the database's processes; if the server started them, they are
// among its own.
func databaseCores(f *serverSide) figure {
	for i := range f.behind {
		if b := &f.behind[i]; b.known && strings.HasPrefix(b.name, "postgres") {
			return some(b.cores)
		}
	}
	cores, any := 0.0, false
	for _, p := range f.subject.processes {
		if strings.HasPrefix(p.comm, "postgres") {
			cores, any = cores+p.cores, true
		}
	}
	return figure{cores, any && f.subject.known}
}

// syncTakes returns how long one sync of the log takes, in ns: by the database's clock, or by
// Little's law from the sessions seen in it.
func (d *databaseFacts) syncTakes() figure {
	if d.syncNs.known {
		return d.syncNs
	}
	if d.syncsPerS.known && d.syncsPerS.value > 0 && d.syncing > 0 {
		return some(d.syncing / d.syncsPerS.value * 1e9)
	}
	return figure{}
}

// evidence returns what the sessions and the pool did.
func (d *databaseFacts) evidence() []record.Evidence {
	var list []record.Evidence
	if d.known() {
		var waits []record.Statement
		for i := range d.waits[:min(len(d.waits), sessionsNamed)] {
			if d.means[i] >= waitThreads {
				waits = append(waits, say("database.wait", with{"type": d.waits[i].Type, "event": d.waits[i].Event, "sessions": d.means[i]}))
			}
		}
		list = append(list, record.NewEvidence("series.database.waits", d.active, "sessions",
			say("database.sessions", with{"name": d.name, "sessions": d.sessions, "active": d.active, "waits": waits, "samples": d.samples,
				"asked_ns": d.askedNs, "asked_share": d.askedShare})))
		if d.commitsPerS.known {
			takes := d.syncTakes()
			list = append(list, record.NewEvidence("series.database.commits", d.commitsPerS.value, "/s",
				say("database.commits", with{"name": d.name, "per_s": d.commitsPerS.value, "syncs_known": d.syncsPerS.known, "syncs_per_s": d.syncsPerS.value,
					"sync_ns": takes.value, "timed": d.syncNs.known})))
		}
	}
	if p := &d.pool; p.samples >= sessionsFewest {
		list = append(list, record.NewEvidence("series.status.pool.in_use", p.inUse, "connections",
			say("database.pool", with{"size": p.size, "in_use": p.inUse, "waiting": p.waiting, "waits_per_s": p.waitsPerS})))
	}
	return list
}

// atLock says that sessions wait for each other's locks.
func (d *databaseFacts) atLock() *limit {
	if !d.known() || d.locked < waitStep || d.locked < mostOf*d.active {
		return nil
	}
	l := &d.lock
	of := with{"name": d.name, "waiting": d.locked, "active": d.active, "relation": l.relation, "blocker": l.blocker,
		"row": l.kind == "transactionid" || l.kind == "", "one": l.rows <= 1, "syncs": d.committing >= halfOf*(d.active-d.locked) && d.committing >= waitThreads}
	return &limit{says: say("database.lock", of), next: just("database.lock.next", of)}
}

// atLog says that sessions wait for commits to reach the disk.
func (d *databaseFacts) atLog() *limit {
	if !d.known() || d.committing < waitStep || d.committing < mostOf*d.active {
		return nil
	}
	of := with{"name": d.name, "waiting": d.committing, "active": d.active, "sync_ns": d.syncTakes().value, "syncs_per_s": d.syncsPerS.value,
		"commits": 0.0, "busy": math.Min(d.syncing, 1)}
	if d.syncsPerS.value > 0 {
		of["commits"] = d.commitsPerS.value / d.syncsPerS.value
	}
	return &limit{says: say("database.log", of), next: just("database.log.next", of)}
}

// atPool says that requests wait for a connection, and what doubling the pool would give: a slot
// held for S per request serves 1/S requests a second, until the database's computing fills its
// CPUs.
func (f *facts) atPool() *limit {
	d := &f.cpu.server.database
	p := &d.pool
	if !p.full() || f.base.rate <= 0 {
		return nil
	}
	heldNs := p.inUse / f.base.rate * 1e9
	times, bound := 2.0, "pool"
	if mean := positive(f.base.run.Latency.Response.MeanNs); mean > 0 && !f.base.open {
		// A request that need not wait takes less time, with the same number in flight.
		rest := math.Max(mean-p.waiting/f.base.rate*1e9, heldNs)
		if most := mean / rest; most < times {
			times, bound = math.Max(most, 1), "requests"
		}
	}
	if room := f.databaseRoom(); room.known && room.value < times {
		times, bound = room.value, "cpu"
	}
	of := with{"name": d.name, "size": p.size, "waiting": p.waiting, "requests": f.underWay(), "held_ns": heldNs, "most_per_s": p.size / heldNs * 1e9,
		"wait_ns": p.waiting / f.base.rate * 1e9, "times": times, "bound": bound, "open": f.base.open, "twice": 2 * p.size}
	return &limit{says: say("database.pool-full", of), next: just("database.pool-full.next", of)}
}

// databaseRoom returns how many times this rate the CPUs of the database's host would allow, if
// they were watched and if others left them idle. On a host that others also keep busy, doubling
// a pool whose queries sleep measured twice the rate.
func (f *facts) databaseRoom() figure {
	if !f.cpu.server.database.cores.known || !f.cpu.server.host.known {
		return figure{}
	}
	used := f.cpu.server.subject.cores
	for i := range f.cpu.server.behind {
		used += f.cpu.server.behind[i].cores
	}
	if f.cpu.together {
		used += f.cpu.generator.self.cores.value
	}
	if !(used > 0) {
		return figure{}
	}
	return some(math.Max(f.cpu.server.host.had(f.cpu.server.cpus)/used, 1))
}

// atWork says that the sessions wait for nothing: the database computes.
func (d *databaseFacts) atWork() *limit {
	if !d.known() || d.onCPU < waitStep || d.onCPU < mostOf*d.active || d.active < poolBusy*d.sessions || d.cores.known {
		return nil
	}
	of := with{"name": d.name, "on_cpu": d.onCPU, "active": d.active}
	return &limit{says: say("database.works", of), next: just("database.works.next", of)}
}

// ruleDatabase asks whether requests wait for the database behind the server, or for a connection
// to it.
func ruleDatabase(f *facts) finding {
	out := finding{bottleneck: record.ServerBlocked, explained: true}
	d := &f.cpu.server.database
	if !d.known() && d.pool.samples < sessionsFewest && !f.cpu.server.titles.known() {
		return out
	}
	seen := d.evidence()
	l := cmp.Or(d.atLock(), d.atLog(), f.atPool(), d.atWork())
	if !d.known() {
		seen = append(f.cpu.server.titles.evidence(), seen...)
		l = cmp.Or(f.cpu.server.titles.atLock(), l)
	}
	out.pro = seen
	if l == nil {
		return out
	}
	if free, missing := f.generatorFree(); !free {
		if missing != nil {
			out.answer, out.missing = unknown, missing
		}
		return out
	}
	p := &f.places
	if !p.known || !p.both {
		out.answer, out.missing = unknown, []record.Statement{p.missing()}
		return out
	}
	if p.share[serverQueue]+p.share[inServer] < mostOf {
		return out
	}
	if idle, missing := f.cpu.serverIdle(); missing != nil || !idle {
		return out // the CPU they all share is the bottleneck
	}
	out.answer = matched
	out.pro = slices.Concat(seen, f.cpu.server.cpuEvidence(), f.placeEvidence(serverQueue, inServer), f.cpu.server.stackClue().says)
	out.because, out.next, out.caveats = []record.Statement{l.says}, l.next, l.caveats
	return out
}

// explainDatabase says which part of a full server is its database, and what the sessions do.
func explainDatabase(f *serverSide, found *finding) {
	d := &f.database
	if found.answer != matched || !slices.Contains([]record.Bottleneck{record.ServerCPU, record.SharedCPU}, found.bottleneck) {
		return
	}
	found.pro = append(found.pro, d.evidence()...)
	if own := databaseCores(f); own.known && len(f.behind) == 0 && own.value >= partNamed*f.subject.cores {
		found.because = append(found.because, say("database.part", with{"name": cmp.Or(d.name, "the database"), "used_cores": own.value, "cores": f.subject.cores}))
	}
}
