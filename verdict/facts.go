package verdict

import (
	"cmp"
	"math"
	"slices"

	"ceiling/record"
)

// The facts are computed once from a record, in parts; a rule takes the parts it needs. A figure
// that was not measured is unknown, never zero.

// runFacts is what the result says, plus the load rows of an open loop's schedule.
type runFacts struct {
	run  *record.Run
	open bool // an open loop
	// forming: the run is still going, and is unfinished only for that reason.
	forming bool
	// slots is the number of requests that can be in flight on the connections that were
	// established.
	slots    float64
	elapsedS float64
	rate     float64 // completed per second
	// errorShare is failed requests, unexpected statuses and failed connects, over all of these
	// (without those of this host, which local has)
	// plus the completed requests.
	errorShare figure
	bad        float64 // completed with an unexpected status
	unlike     float64 // completed with an expected one, and against a check
	// connects counts the connect attempts that failed within the window if each request uses its
	// own connection; otherwise the generator retries freely and no request fails. idle counts
	// connections on which the server sent something that no request had asked for; closing one
	// is its right.
	connects, idle float64
	refused        float64 // connects including those before the window
	timeouts       float64 // timed out, in any phase
	behindTimeouts float64 // failed with a pipelined request that timed out
	local          localFacts
	// requestBytes and responseBytes are mean sizes on the wire, above TCP.
	requestBytes, responseBytes figure
	schedule                    scheduleFacts
}

// generatorSide is the generator and its host.
type generatorSide struct {
	base *runFacts
	// agents are the facts of each agent that loads, if there are several, sorted by name: they
	// share the server's facts, and each has its own generator's. agent is the agent these facts
	// belong to, "" for the whole run. Both are empty if there is a single generator.
	agents []*facts
	agent  string

	self      generatorFacts
	own       processFacts // its process
	home      hostFacts    // CPU of its host
	homeHost  string
	cpus      []int       // that it may use
	atHomeToo []neighbour // on its host
}

// serverSide is the server and its host, if observed.
type serverSide struct {
	base       *runFacts
	subject    processFacts
	host       hostFacts // CPU of its host
	cpus       []int     // that it may use
	neighbours []neighbour
	behind     []behindServer // servers on the same host that it calls
	peers      peerFacts
	sleeps     threadFacts
	crew       workerFacts
	accept     acceptFacts
	unaccepted unacceptedFacts
	database   databaseFacts // behind it
	titles     titleFacts    // what its processes' titles say if it was not queried
	calls      callFacts     // of a service behind it
	disks      diskFacts     // of its host
}

// cpuFacts says who used the CPUs of either end.
type cpuFacts struct {
	base      *runFacts
	generator *generatorSide
	server    *serverSide
	hosts     []record.HostUse // both ends' CPUs and links
	near      bool             // the generator runs on the server's machine
	together  bool             // and they share CPUs
	clock     clockFacts
}

// pathFacts is the network between the two ends.
type pathFacts struct {
	base    *runFacts
	link    linkFacts
	ways    [2]linkFacts // to the server, and back
	packets packetFacts
	// exceeded are the allowances of a cloud interface that were used up.
	exceeded []allowance
}

// timeFacts describes how the window went over time.
type timeFacts struct {
	base         *runFacts
	stall        stallFacts
	outage       outageFacts
	trend        trendFacts
	late         *stretchFacts // what failed the SLO, if that was only part of the window
	startupQueue startupQueueFacts
	changed      changedFacts
}

// facts is everything, including where the requests were.
type facts struct {
	base          *runFacts
	cpu           *cpuFacts
	path          *pathFacts
	time          *timeFacts
	places        placeFacts
	delayed       delayedAckFacts
	lone          unloadedFacts
	observerShare figure // of one core, for the most expensive observer
	lostLater     []record.NotMeasured
}

// newParts returns facts of which nothing is known yet.
func newParts(result runFacts) *facts {
	run := &result
	return &facts{
		base: run,
		cpu:  &cpuFacts{base: run, generator: &generatorSide{base: run}, server: &serverSide{base: run}},
		path: &pathFacts{base: run}, time: &timeFacts{base: run},
	}
}

// generatorFacts is what the generator reports about itself.
type generatorFacts struct {
	busy figure // share of its time that the busiest worker ran
	// wanting is the largest share of a worker's time that it ran or waited for a CPU; unknown
	// without the run-queue delay.
	wanting  figure
	delay    figure  // largest share of a worker's time that it waited for a CPU
	waiting  float64 // the same of all workers, in cores
	cores    figure  // CPU of the whole process, in cores
	headroom figure  // calibrated: the rate it could reach over this one
	byUse    float64 // the same by its own use of the CPU; 0 if unknown
	mayUse   float64 // the cores that its threads may use
	where    string  // the record's field that busy comes from
}

// full reports whether the generator has nothing left by its own account.
func (g *generatorFacts) full() bool {
	return g.busy.known && g.busy.value >= generatorFull || g.wanting.known && g.wanting.value >= generatorWanting
}

// scheduleFacts compares an open loop's schedule with what was sent.
type scheduleFacts struct {
	asked  float64 // requests due within the window
	missed float64 // of these, unsent or late at the end, as a share
	// slotsUsed is the share of the load rows in which every slot was taken.
	slotsUsed figure
	// owed is the share of the due requests in flight when the window closed, beyond those in
	// flight at its start.
	owed figure
}

func newFacts(run *record.Run, series *record.Series) *facts {
	if series == nil {
		series = new(record.Series)
	}
	f := newParts(runFacts{run: run, open: run.Load.Mode == "open" || run.Load.Mode == "" && run.Spec.Open()})
	f.cpu.generator.account()
	rows := f.base.loadRows(series)
	f.base.scheduleOf(rows)
	f.watched(series, rows)
	return f
}

// account reads the result.
func (f *generatorSide) account() {
	run := f.base.run
	connections := run.Load.Established
	if connections <= 0 {
		connections = run.Load.Connections
	}
	f.base.slots = math.Max(float64(connections), 0) * streams(&run.Load)
	f.base.elapsedS, f.base.rate = positive(run.ElapsedS), positive(run.Rate.CompletedPerS)
	completed := float64(run.Requests.Completed)
	if f.base.rate == 0 && f.base.elapsedS > 0 {
		f.base.rate = positive(completed / f.base.elapsedS)
	}
	f.base.local = localOf(run)
	f.base.countErrors()
	if completed > 0 {
		f.base.responseBytes = some(float64(run.Bytes.Read) / completed)
	}
	if sent := float64(run.Requests.Sent) - float64(run.Requests.InFlightAtStart); sent > 0 {
		f.base.requestBytes = some(float64(run.Bytes.Written) / sent)
	}
	f.generatorOwn()
}

// watched reads the observers' rows.
func (f *facts) watched(series *record.Series, load []record.LoadRow) {
	f.cpu.server.subject = processesOf(f.base, series, record.RoleSubject, "")
	cpu := observed(f.base, series.Observed.CPU)
	if f.cpu.server.subject.known {
		f.cpu.server.host = hostOf(cpu, f.cpu.server.subject.host)
		f.cpu.server.cpus = f.cpu.server.host.allowedOf(f.base.run.Spec.PinServer, f.cpu.server.subject.allowed)
		f.cpu.server.subject.stolen = f.cpu.server.host.stolenOf(f.cpu.server.cpus)
	}
	f.cpu.generators(series, cpu, load)
	f.time.stall = stallsOf(f.base, load)
	f.base.local.lackConnections(f.base.run, load)
	if f.base.local.unreachable(f.base.run) {
		f.time.outage = outagesOf(load)
	}
	f.time.changed = changedOf(f.base, load)
	f.time.stall.during(f.cpu, series)
	links := record.LinksOf(ours(f.cpu, series.Observed.NetDevs))
	f.path.link, f.path.ways = linkOf(f.cpu, links)
	f.cpu.hosts = hostsOf(f.cpu, links)
	f.path.exceeded = exceededOf(f.cpu, series)
	sockets := f.socketRows(series)
	f.delayed = delayedAckOf(f, series, sockets)
	f.places = occupancyOf(f, series, sockets, load)
	f.cpu.server.accept = acceptOf(f.cpu, series)
	f.cpu.server.unaccepted = unacceptedOf(f.cpu, series, sockets)
	f.path.packets = packetsOf(f.cpu, series)
	f.cpu.clock = clockOf(f.cpu, series)
	f.time.startupQueue = startupOf(f.cpu.generator, series, &f.delayed)
	f.cpu.server.peers = peersOf(f.cpu.server, series)
	f.cpu.server.neighbours = neighboursOf(f.base, series, f.cpu.server.subject.host, f.cpu.server.cpus)
	f.cpu.generator.atHomeToo = neighboursOf(f.base, series, f.cpu.generator.homeHost, f.cpu.generator.cpus)
	f.cpu.server.behind = behindOf(f.cpu.server, series)
	f.cpu.server.database = databaseOf(f.cpu.server, series)
	f.cpu.server.titles = titlesOf(f.cpu.server, series)
	f.cpu.server.calls = callsOf(f.base, series)
	f.cpu.server.disks = disksOf(f.cpu.server, series)
	f.cpu.server.sleeps = sleepsOf(f.cpu.server, series)
	f.cpu.server.crew = workersOf(f.cpu.server, series)
	f.observerShare = observerShareOf(f.cpu, series)
	f.lostLater = lostLater(f.base, series)
	f.time.trend = trendOf(f.cpu, load, series)
	f.time.late = f.base.brokenBy(load)
	f.lone = loneOf(f)
}

// homeOf returns the name of the generator's host in the rows.
func homeOf(f *generatorSide, load []record.LoadRow) string {
	switch {
	case f.own.known:
		return f.own.host
	case f.base.run.Environment.Host != "":
		return f.base.run.Environment.Host
	case len(load) > 0:
		return load[0].Host
	}
	return ""
}

// generators reads the generator's side: one, or several agents.
func (f *cpuFacts) generators(series *record.Series, cpu []*record.CPURow, load []record.LoadRow) {
	loading := loadersOf(f.base.run)
	if len(loading) > 1 {
		f.several(loading, series, cpu)
		return
	}
	home := ""
	if len(loading) == 1 {
		home = loading[0].Name
	}
	f.generator.own = processesOf(f.base, series, record.RoleGenerator, home)
	if f.generator.homeHost = home; home == "" {
		f.generator.homeHost = homeOf(f.generator, load)
	}
	f.generator.generatorSeen(load)
	f.atHome(cpu)
}

// atHome finds the generator's CPUs and which of them the server may use too.
func (f *cpuFacts) atHome(cpu []*record.CPURow) {
	f.generator.home = hostOf(cpu, f.generator.homeHost)
	f.generator.cpus = f.generator.home.allowedOf(f.base.run.Spec.PinGenerator, f.generator.own.allowed)
	f.near = f.server.subject.known && oneMachine(f.base.run, f.server.subject.host, f.generator.homeHost)
	f.together = f.near && len(common(f.server.cpus, f.generator.cpus)) > 0
}

// generatorSeen fills in from the load rows and the observer what the generator did not report
// itself.
func (f *generatorSide) generatorSeen(load []record.LoadRow) {
	g := &f.self
	if !g.busy.known {
		sum, width := 0.0, 0.0
		for i := range load {
			if b := positive(load[i].Busy); b > 0 {
				sum, width = sum+b*float64(load[i].WidthNs), width+float64(load[i].WidthNs)
			}
		}
		if width > 0 {
			g.busy, g.where = some(sum/width), "series.load.busy"
		}
	}
	if len(f.own.threads) > 0 {
		t := f.own.threads[0]
		if !g.busy.known && t.run > 0 {
			g.busy, g.where = some(t.run), "series.process.busiest"
		}
		if !g.wanting.known && t.queue.known && g.busy.known {
			g.wanting, g.delay = some(t.run+t.queue.value), t.queue
		}
	}
	if !g.cores.known && f.own.known && f.own.cores > 0 {
		g.cores = some(f.own.cores)
	}
}

// largest exceeds every possible figure of a run: 10^18 requests or bits per second, or shares,
// or nanoseconds (31 years). Nothing larger is a real measurement.
const largest = 1e18

// positive returns v, or 0 if v is not a plausible positive number.
func positive(v float64) float64 {
	if !(v > 0 && v < largest) {
		return 0
	}
	return v
}

func (f *runFacts) countErrors() {
	run := f.run
	for status, n := range run.Statuses {
		if f.unexpected(status) {
			f.bad += float64(n)
		}
	}
	for _, e := range run.Errors {
		if originOf(run, e) == record.OfLocal {
			continue
		}
		if e.OfConnecting() {
			f.refused += float64(e.Count)
		}
		if e.BeforeWindow {
			continue
		}
		switch {
		case e.Phase == record.PhaseCheck:
			f.unlike += float64(e.Count)
		case e.OfConnecting() && run.Spec.NewConnections.Each():
			f.connects += float64(e.Count)
		case e.Phase == record.PhaseIdle && !record.Errno(e.Cause):
			f.idle += float64(e.Count)
		}
		switch e.Cause {
		case "timeout", "ETIMEDOUT":
			f.timeouts += float64(e.Count)
		case "behind a timed-out request": // pipelined on its connection
			f.behindTimeouts += float64(e.Count)
		}
	}
	failed := math.Max(float64(run.Requests.Failed)-f.local.requests, 0)
	wrong := failed + f.bad + f.unlike + f.connects + f.idle
	if all := float64(run.Requests.Completed) + failed + f.connects; all > 0 {
		f.errorShare = some(math.Min(wrong/all, 1))
	}
}

// generatorOwn reads what the generator reports about itself. A generator that completed requests
// has run: a share of 0 means it was not measured.
func (f *generatorSide) generatorOwn() {
	g, own := &f.self, &f.base.run.Generator
	if b := positive(own.BusiestWorker); b > 0 {
		g.busy, g.where = some(b), "generator.busiest_worker"
	}
	if own.RunDelay >= 0 && g.busy.known {
		// The kernel counts a wait when it ends, so this may include one from before the window.
		g.delay = some(math.Min(positive(own.RunDelay), 1))
	}
	for _, w := range own.Workers {
		busy := positive(w.Busy)
		if busy > 0 && (!g.busy.known || busy > g.busy.value) {
			g.busy, g.where = some(busy), "generator.workers.busy"
		}
		if w.RunDelay > 0 {
			g.waiting += positive(w.RunDelay)
		}
		if busy > 0 && w.RunDelay >= 0 {
			g.wanting = some(math.Max(g.wanting.value, busy+positive(w.RunDelay)))
		}
	}
	if cpu := float64(own.UserNs) + float64(own.SystemNs); cpu > 0 && f.base.elapsedS > 0 {
		g.cores = some(cpu / 1e9 / f.base.elapsedS)
	}
	if h := positive(own.Headroom); h > 0 {
		g.headroom = some(h)
	}
	g.byUse, g.mayUse = f.base.run.RoomByUse(), f.base.run.GeneratorCores()
}

// scheduleOf compares an open loop's schedule with what was sent.
func (f *runFacts) scheduleOf(rows []record.LoadRow) {
	if !f.open {
		return
	}
	s, run := &f.schedule, f.run
	s.asked = float64(run.Requests.Due)
	if s.asked == 0 { // assembled from the rows, or written by an older version
		s.asked = math.Max(float64(run.Requests.Sent)-float64(run.Requests.InFlightAtStart), 0) + float64(run.Requests.Unsent)
	}
	late := float64(run.Requests.LateAtEnd)
	if len(rows) > 0 {
		first, last := rows[0], rows[len(rows)-1]
		for i := range rows {
			if rows[i].TNs <= f.run.WindowEndNs() {
				last = rows[i]
			}
		}
		late = math.Max(late, float64(last.Backlog))
		full := 0.0
		for i := range rows {
			if f.slots > 0 && float64(rows[i].InFlight) >= slotsTaken*f.slots {
				full++
			}
		}
		s.slotsUsed = some(full / float64(len(rows)))
		if s.asked > 0 {
			s.owed = some(math.Max(float64(last.InFlight)-float64(first.InFlight), 0) / s.asked)
		}
	}
	if s.asked > 0 {
		// What was late when the window closed includes what was never sent.
		s.missed = math.Min(math.Max(float64(run.Requests.Unsent), late)/s.asked, 1)
	}
	// If the schedule's arithmetic and its result differ, the worse one counts: the sent rate
	// falls short of the target rate.
	window := run.WindowS()
	if asked, sent := positive(run.Load.TargetPerS)*(1-f.lostPart()), positive(run.Rate.SentPerS); asked > 0 && window > 0 && sent > 0 {
		short := 1 - sent*f.elapsedS/(asked*window)
		// The number of requests in a window is Poisson: allow twice its deviation.
		if slack := 2 / math.Sqrt(asked*window); short > slack {
			s.missed = math.Max(s.missed, short)
		}
	}
}

// loadRows returns the generator's rows of the window in time order.
func (f *runFacts) loadRows(series *record.Series) []record.LoadRow {
	if series == nil {
		return nil
	}
	return inWindow(series.Load, "")
}

// inWindow picks the rows of the window, of one agent or, with "", of all.
func inWindow(all []record.LoadRow, agent string) []record.LoadRow {
	var rows []record.LoadRow
	for _, row := range all {
		if !row.Warmup && row.WidthNs > 0 && (agent == "" || row.Host == agent) {
			rows = append(rows, row)
		}
	}
	sortLoad(rows)
	return rows
}

// sortLoad orders rows by time and breaks ties by content, so that the order of reading does not
// change the verdict.
func sortLoad(rows []record.LoadRow) {
	slices.SortFunc(rows, func(a, b record.LoadRow) int {
		return cmp.Or(cmp.Compare(a.TNs, b.TNs), cmp.Compare(a.WidthNs, b.WidthNs),
			cmp.Compare(a.Completed, b.Completed), cmp.Compare(a.Sent, b.Sent), cmp.Compare(a.Failed, b.Failed),
			cmp.Compare(a.InFlight, b.InFlight), cmp.Compare(a.Backlog, b.Backlog), cmp.Compare(a.Bad, b.Bad),
			cmp.Compare(a.MeanNs, b.MeanNs), cmp.Compare(a.P50Ns, b.P50Ns), cmp.Compare(a.P90Ns, b.P90Ns),
			cmp.Compare(a.Busy, b.Busy))
	})
}
