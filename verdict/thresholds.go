package verdict

import "ceiling/experiment/spec"

// Every threshold of the rules stands here with its reason. None of them is
// sharp in nature; each is set where the error it allows is small beside what
// the verdict claims.
const (
	// littleTolerance is how far N may be from X·R in a closed loop, once the
	// requests cut off at either edge of the window are in it. Responses are
	// counted from when their slot came free, so the law then holds exactly; the
	// tolerance is for clocks and for rounding in other tools' figures.
	littleTolerance = 0.05
	// littleCycles is how many requests each slot has to have made for the law to
	// be held against a run whose edges are not known.
	littleCycles = 20

	// unsentShare of an asked rate may be missing or late at the end. A tenth
	// of it would already move a p99 that the late requests are left out of.
	unsentShare = 0.01

	// GeneratorFull is the share of its time that a saturated worker runs. The
	// rest is what it loses to interrupts and to waking up: a generator held to
	// one CPU before an empty server was measured at 0.96 to 0.99.
	GeneratorFull = 0.95
	// generatorWanting is the same with the time a worker was runnable but was
	// not given a CPU: it never waited for the server at all.
	generatorWanting = 0.98
	// generatorNear is where a generator stops being clearly free: it can give
	// at most a tenth more, so whatever is called the bottleneck is next to it.
	generatorNear = 0.90
	// halfOf the CPU of common cores is what a server may use that takes turns
	// with its generator: 1.05 of 2 was measured with a fifth of them idle.
	halfOf = 0.5
	// idleClearly is the part of the server's CPU that has to be free before a
	// generator that is only nearly full is called the bottleneck.
	idleClearly = 0.2
	// starvedDelay is the share of its time that a worker waits for a CPU, and
	// starvedQueue the share of the answers unread before it, from which it is
	// the queue of the loop without being full: 0.83 and 0.65 were measured with
	// two busy neighbours on its core, 0.29 and 0.18 in a fair fight.
	starvedDelay = 0.25
	starvedQueue = 0.4

	// h2WindowMatters is the share of the connections' time in which HTTP/2 windows of
	// the server held request bodies back from which uploads would be faster without.
	h2WindowMatters = 0.1
	// windowTrips is how many times as long as the PING that began with it a stall may last
	// for the distance to be the reason: measured 0.9 to 1.0 with one, 50 with a server that
	// reads slowly. windowFilled is the least part of window ÷ round trip that connections
	// carry then.
	windowTrips  = 2
	windowFilled = 0.5

	// handshakesMatter is the share of the requests that came with a TLS handshake,
	// and of the generator's CPU time that handshakes took, from which they are told
	// of: one costs as much as some hundred requests, so at a tenth the rate is theirs.
	handshakesMatter = 0.1

	// errorsMatter is the share of answers that are not what was asked from
	// which the rate no longer describes the work that was asked for.
	errorsMatter = spec.ErrorsMatter
	// errorsMostly is the share from which the run is one of errors, and of no
	// work.
	errorsMostly = 0.5

	// shortS is the time below which a run's figures hang on chance: a server
	// with a collector of garbage has had few cycles of it in 5 s.
	shortS = 5
	// Unsteady is the deviation of the rate over the run's seconds, relative to
	// its mean, from which a mean hides more than it says.
	Unsteady = 0.10
	// trendBins means of throughput, in trendStretches that are about independent,
	// are the fewest to speak of a trend; trendChance is how often six of them in
	// any order would show one (2/6! = 0.28%). More bins than trendBinsMost add
	// nothing but time. In less than trendLeastS one second of a neighbour's work
	// is a trend.
	trendBins      = 20
	trendLeastS    = 5
	trendStretches = 6
	trendChance    = 0.005
	trendBinsMost  = 600
	// stretchesMost of the window may be late stretches for these to be what broke
	// an SLO; stretchesSaid of their times are told, and gaps that are no further
	// than stretchesApart from their mean are a period.
	stretchesMost  = 0.5
	stretchesSaid  = 6
	stretchesApart = 0.25
	// grewMatters is how many times more of something is a growth.
	grewMatters = 1.2
	// meanApart is how many times the median the mean of the response times is
	// when the two describe different things: 1.4 of an exponential distribution,
	// 1.6 of a lognormal one with σ = 1.
	meanApart = 3
	// lateRows is the share of late samples from which the generator's host is
	// suspected of not running what it should.
	lateRows = 0.10
	// reconnectShare of requests that opened a connection anew makes a keep-alive
	// run into another experiment.
	reconnectShare = 0.01
	// closesShare of requests behind which the server closed the connection is worth
	// a caveat: a limit of 200 requests.
	closesShare = 0.005
	// closesAlike of those connections are all of them: a reset loses responses that
	// were on their way.
	closesAlike = 0.95
)

const (
	// slotsTaken of the slots in flight at the end of an interval count as all
	// of them: a few are always between two requests.
	slotsTaken = 0.9
	// slotsUsedShare of the intervals with every slot taken make the slots, or
	// the server behind them, answerable for a schedule that was not kept.
	slotsUsedShare = 0.25
	// owedShare of all requests may be in flight at the end beyond those at the
	// beginning before a queue counts as growing without end.
	owedShare = 0.01
	// delayWorthSaying is the run-queue delay below which it is not mentioned.
	delayWorthSaying = 0.02
)

const (
	// badRowsMost is the share of refused CPU rows from which the rest is not
	// believed either. A single glitch of idle time going back is common on
	// tickless kernels.
	badRowsMost = 0.2
	// coresIdle is the idle share below which CPUs count as full. Two sides that
	// wake each other through sockets leave some time idle at every wake-up.
	coresIdle = 0.08
	// coresIdleContested is the idle share up to which CPUs count as full when
	// their threads wanted contested times what there is: an empty handler
	// against this generator on two cores was measured at 11 to 14 % idle with
	// 1.3 to 1.6 times the cores wanted, one full thread of two cores at 22 % and
	// 0.97.
	coresIdleContested = 0.2
	contested          = 1.15
	// serverWants is the CPU that a server used or waited for, relative to what
	// it may use, below which full cores are not its own doing.
	serverWants = 0.8
	// neighbourTakes of the server's cores, used by others, are what a starved
	// thread of it lost; a shell and a daemon take less. neighbourMatters is the
	// least that one of them is named for, and neighboursSaid bounds the names.
	neighbourTakes   = 0.2
	neighbourMatters = 0.05
	neighboursSaid   = 3
	// bothWant is the same of both sides together, for a fight between them.
	bothWant = 0.92

	// threadFull is the share of its time that a saturated thread runs,
	// threadWanting the same with its wait for a CPU, of which it must have run
	// threadRuns.
	threadFull    = 0.93
	threadWanting = 0.97
	threadRuns    = 0.6
	// threadWants is what a thread on cores that others fill runs or waits for a
	// CPU, from which it cannot be said to be idle.
	threadWants = 0.8
	// threadWorks is what a thread runs or waits for a CPU from which it is one of
	// those that do the work, and not a timer or a collector of garbage now and
	// then.
	threadWorks = 0.15

	// placesFewest samples of the sockets give a share to be spoken of: at
	// fewer, an interval of shares spans half of everything.
	placesFewest = 5
	// batchesMost is how many batches an interval is made of: with ten, each
	// lasts a second of a usual run, far beyond what samples have in common.
	batchesMost = 10
	// largeRequest is the size from which a request is on the way in for as
	// long as it is unacknowledged: acknowledgements are not put off for more
	// than two full segments (RFC 1122, 4.2.3.2), 2 × 1448 bytes on Ethernet.
	largeRequest = 16 << 10

	// A stall has no more than stallRest of the usual answers, fills at least one
	// row of 100 ms, lasts stallPatience response times, and stallExpected
	// answers are missing: for chance that is e^−20. That every slot happened to
	// have a long request at the same time is less likely than stallChance.
	stallRest       = 0.05
	stallShortestNs = 90e6
	stallPatience   = 4
	stallExpected   = 20
	stallRows       = 5
	stallChance     = 0.01

	// startupSteady is the coefficient of variation up to which the first answers
	// tell a queue from a delay; startupQueued and startupAlone are the bounds of q
	// beyond cv², halfway to ½ with a margin. q has to be known to startupAlone with
	// startupSure deviations of the rows' means.
	startupSteady = 0.4
	startupQueued = 0.28
	startupAlone  = 0.15
	startupSure   = 1.5
	// startupFastest is how much faster than the mean the fastest answer of a
	// queue with startupSlots slots is.
	startupFastest = 0.25
	startupSlots   = 8
)

const (
	// Of lone requests, the first half is left out where the second took less than
	// loneFell of it, both of loneHalf requests or more: it was still warming up.
	loneHalf = 4
	loneFell = 0.8
	// loneSlower is how much longer a request of the loop may take than a lone one
	// without waiting for another: two that run at once share caches and wake-ups.
	// loneMost is the same for the mean the other way: more than the slots cannot be
	// worked on.
	loneSlower = 1.25
	loneMost   = 1.25
	// loneAlone of the slots worked on at a time are all of them; loneQueue of them
	// leave a quarter of the time to a queue, and what the busy CPU may explain
	// besides must leave 1 − loneRoom.
	loneAlone = 0.8
	loneQueue = 0.75
	loneRoom  = 0.8
	// loneChance is how unlikely the lone requests have to be as a sample of the
	// loop's to tell a queue, loneUnlikely where the first answers say the same,
	// loneLikely what they are as one of the same times: the least of some hundred
	// ranks that hang together. In simulated loops of heavy tails 1 in 100 then is
	// taken for a queue at most.
	loneChance   = 1e-3
	loneUnlikely = 3e-3
	loneLikely   = 0.01
	// loneFirsts connections at least make first answers a sample. They count as
	// those of a lone request within loneFirstWithin times its ninth decile.
	loneFirsts      = 8
	loneFirstWithin = 1.5
	// loneSoon is how many times that time is long past it: most of the connections
	// without an answer by then were passed by, whatever their order.
	loneSoon = 10
	// loneWhole is how near to a whole number of places their number is told as one.
	loneWhole = 0.12
)

const (
	// idleMost of the CPU that it may use leaves a server with CPU to spare:
	// with four fifths taken, a queue before it already explains a wait.
	idleMost = 0.8
	// smallPart of the common CPU leaves the other side answerable for at least
	// 85 % of the bottleneck: scaling its cost by k scales the rate by that much.
	smallPart = 0.15
	// besidesFull is what a server does beside its full threads: a timer, a
	// collector of garbage, a log.
	besidesFull = 0.15
	// throttledShare of the enforcement periods in which a cgroup ran out of
	// its quota: a busy group may miss a few by chance.
	throttledShare = 0.2
	// selfLimitOff is how near to a whole number of cores a server that limits
	// itself stays, selfLimitQueue the share of requests unread before it.
	selfLimitOff   = 0.05
	selfLimitQueue = 0.4
	// wantsLittle cores, used or waited for, are too few to be what requests wait
	// for: a single thread that serves them spends half of its time on something
	// else, and several spend more.
	wantsLittle = 0.5
	// lonelyThread of the server's CPU in one thread makes that thread the next
	// bottleneck rather than the cores.
	lonelyThread = 0.6
	// unevenRest is what the other workers use, relative to the busiest, below
	// which the work is not spread.
	unevenRest = 0.6

	// linkTaken is how much of a link's bits can be used: gaps for ARP,
	// acknowledgements and the shaper's granularity take the rest.
	linkTaken = 0.92
	// linkTakenGuessed is the same where only the run's own bytes are known:
	// framing is guessed for full packets, smaller ones carry less.
	linkTakenGuessed = 0.90
	// linkTooMuch is more than a link can carry.
	linkTooMuch = 1.05
	// smallPacket is the mean size up to which a path that stops is short of
	// packets, not of bytes: a full one is 1514.
	smallPacket = 400
	// softFull is the share of one core in softirq from which it does little
	// else; the threads that it runs keep a part.
	softFull = 0.8
	// lossMatters is the share of packets lost from which TCP's rate depends on
	// it (Mathis et al. 1997: rate ~ 1/√loss).
	lossMatters = 0.001
	// windowMatters is the share of its sending time that the server is held up
	// by the receiver from which the path is not the only one to blame.
	windowMatters = 0.1
	// mostOf the requests at one place is the better half of them.
	mostOf = 0.5
	// delayedAckNs is how long Linux puts an acknowledgement off at least
	// (include/net/tcp.h, TCP_DELACK_MIN: a 25th of a second), with a tick of a
	// kernel of 250 Hz less.
	delayedAckNs = 36e6
	// delayedAckMost is what a response that waits for one acknowledgement takes
	// at most for that wait to be half of it or more.
	delayedAckMost = 80e6
	// delayedAckTight is the same where the path may be narrow, and delayedFlying
	// the segments then in flight on each connection: the first part of a response.
	delayedAckTight = 52e6
	delayedFlying   = 1.5
	// delayedUnacked of the requests have to be unacknowledged at the server, and
	// delayedWritten of a response's bytes written, for the wait to be that.
	delayedUnacked = 0.5
	delayedWritten = 0.9
	// tripGrown is how far above its shortest a round trip is when packets
	// queue on the path.
	tripGrown = 3

	// overflowShare of the new connections, queueFullShare of the looks at the
	// listener and unacceptedShare of the connections are beyond chance.
	overflowShare   = 0.01
	queueFullShare  = 0.2
	unacceptedShare = 0.1
	// unacceptedSeen of the connections that lists and the listener's queue count
	// as waiting have to be among those that samples met, or they are not the run's:
	// of 3 of 64 a second's 200 looks meet 9, and 2 or fewer in 1 of 200 runs.
	unacceptedSeen = 0.3
	// retriedNs is what a connection request that was dropped comes late at least:
	// TCP_TIMEOUT_INIT, a second, less a tick.
	retriedNs = 950e6

	// waitQueue is the share of requests unread before an idle server that its
	// wake-up cannot explain.
	waitQueue = 0.35
	// outageMatters is the share of the window from which a server that was gone
	// fails the run: what is left is no measurement of that time.
	outageMatters = 0.10
	// stallBottleneck is the share of the window without an answer from which no
	// other resource accounts for the rate.
	stallBottleneck = 0.15
	// starvedThreads is the number of threads waiting for a CPU from which it
	// was the host that stood still, not the server.
	// The generator has an observer and a coordinator beside its workers, so
	// there hungryThreads may wait.
	starvedThreads = 0.3
	hungryThreads  = 0.8
	// fewPerCore requests for each CPU are too few to make a queue: one is
	// worked on, one is on its way.
	fewPerCore = 2
)

const (
	// skewMost is how far from the common start an agent may begin, in
	// nanoseconds: one interval of the series. Beyond, the first rows hold the
	// start of one agent and the full load of another, and what the first answers
	// tell of a queue is about slots that begin together.
	skewMost = 100e6
	// clockErrorMost is how wrong an agent's clock may be: half an interval.
	// Two agents that are off in opposite directions are then a whole one apart,
	// and rows of the same time are no longer of the same moment.
	clockErrorMost = 50e6
	// joinWithin is how far apart the two ends' sockets may be read, in
	// nanoseconds. A row comes ten times a second; a station's share is a mean over the window, not of an instant.
	joinWithin = 250e6
	// agentShort is the part of its share of the answers below which an agent of
	// a closed loop has another path, or another host, than the rest: its answers
	// take 1.4 times as long as the mean, and quantiles of the whole are those of
	// two kinds of clients.
	agentShort = 0.7

	// stealMatters is the share of CPU time taken by the hypervisor from which
	// a figure of this run and one of another may differ for it alone.
	stealMatters = 0.02
	// foreignCores, or foreignShare of all cores if that is more, used by
	// others: the observer and the shell take less.
	foreignCores = 0.15
	foreignShare = 0.05
	// samplesFew is the number of samples below which an interval of a share
	// is wider than ±0.2.
	samplesFew = 20
	// badRowsSaid is the share of refused CPU rows from which it is said.
	badRowsSaid = 0.05
	// observerMost is what the observer promises to stay below, of one core,
	// with as much again for a short run.
	observerMost = 0.02
	// clockDrop is how far the clock may fall under thermal throttling.
	clockDrop = 0.9
	// timesMost is the multiple from which a next bottleneck is not worth naming.
	timesMost = 100
)

const (
	// waitMatters is the share of a response time from which a wait is worth a
	// line, waitExplains from which it is the next step: a fifth of the time is
	// a quarter more rate.
	waitMatters  = 0.05
	waitExplains = 0.2
	// waitsSaid, peersSaid and sleepsSaid bound what a person has to read.
	waitsSaid  = 3
	peersSaid  = 4
	sleepsSaid = 4

	// awaitedFewest samples in which most requests wait for another server are
	// no accident of one moment.
	awaitedFewest = 2
	// peersFewest samples with the same number of connections make a pool: of
	// two, chance gives the same number easily.
	peersFewest = 3
	// poolBusy is the share of a pool's connections that are in use when
	// requests queue for it. The rest is between the answer and the next
	// question, or within the kernel's tick by which the two are told apart.
	poolBusy = 0.8
	// behindFull of the cores that a database may use leave it nothing: what is
	// missing it loses to waking up and to whoever shares them.
	behindFull = 0.9
	// poolFewer is how much smaller than the requests under way a pool has to
	// be for some to wait for it.
	poolFewer = 0.9

	// threadDisk threads in uninterruptible sleep on average are more than a
	// page fault now and then; threadStopped of them stopped in the mean over
	// the window are a sample or two of all.
	threadDisk = 0.5
	// sleepTells threads on average in a sleep that idle threads are not in are
	// worth a step before all that may be idle.
	sleepTells    = 0.5
	threadStopped = 0.1
)
