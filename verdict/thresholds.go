package verdict

import "ceiling/experiment/spec"

// Every threshold of the rules, with its reason. None is sharp in nature; each is set where the
// error it allows is small compared with what the verdict claims.
const (
	// littleTolerance is how far N may be from X·R in a closed loop, once the requests cut off at
	// either edge of the window are included. A response counts from when its slot became free,
	// so the law then holds exactly; the tolerance is for clocks and for rounding in other tools'
	// figures.
	littleTolerance = 0.05
	// littleCycles is how many requests each slot must have made before the law can count against
	// a run whose edges are unknown.
	littleCycles = 20

	// unsentShare of a target rate may be missing or late at the end. A tenth of it would already
	// move a p99 that leaves the late requests out.
	unsentShare = 0.01

	// generatorFull is the share of its time that a saturated worker runs. It loses the rest to
	// interrupts and wake-ups: a generator pinned to one CPU against an empty server measured
	// 0.96 to 0.99.
	generatorFull = 0.95
	// generatorWanting is the same share including run-queue delay, the time a worker was
	// runnable without a CPU: above it, the worker never waited for the server.
	generatorWanting = 0.98
	// generatorNear is where a generator stops being clearly free: it can give at most a tenth
	// more, so any bottleneck named is close to it.
	generatorNear = 0.90
	// halfOf the CPU of common cores is what a server may use that takes turns with its
	// generator: 1.05 of 2 cores was measured with a fifth of them idle.
	halfOf = 0.5
	// idleClearly is the share of the server's CPU that must be free before a nearly full
	// generator is called the bottleneck.
	idleClearly = 0.2
	// starvedDelay is the share of its time that a worker waits for a CPU, and starvedQueue the
	// share of responses unread before it, from which it is the loop's queue without being full:
	// 0.83 and 0.65 were measured with two busy neighbours on its core, 0.29 and 0.18 in a fair
	// fight.
	starvedDelay = 0.25
	starvedQueue = 0.4

	// h2WindowMatters is the share of the connections' time during which the server's HTTP/2
	// windows held back request bodies, from which uploads would be faster without them.
	h2WindowMatters = 0.1
	// windowTrips is how many times as long as the PING sent at its start a stall may last for
	// distance to be the reason: measured 0.9 to 1.0 with a long path, 50 with a server that
	// reads slowly. windowFilled is the least share of window ÷ round trip that connections then
	// carry.
	windowTrips  = 2
	windowFilled = 0.5

	// handshakesMatter is the share of requests with a TLS handshake, and of the generator's CPU
	// time spent on handshakes, from which the verdict mentions them: a handshake costs as much
	// as some hundred requests, so at a tenth they determine the rate.
	handshakesMatter = 0.1

	// errorsMatter is the share of unexpected responses from which the rate no longer describes
	// the requested work.
	errorsMatter = spec.ErrorsMatter
	// errorsMostly is the share from which the run consists of errors rather than work.
	errorsMostly = 0.5

	// observedS is the duration, in seconds, within which the observers may not have seen the server's
	// processes twice: they look every 100 ms, and find a server after its first answers.
	observedS = 0.5
	// shortS is the duration, in seconds, below which chance dominates: a garbage-collected
	// server has had few GC cycles in 5 s.
	shortS = 5
	// A rate limit shows in limitSamples intervals of limitCount responses each or more: they differ by
	// limitOne response at either end, or limitOff of them, and so does the whole from a round number.
	limitSamples, limitCount = 5, 20
	limitOne, limitOff       = 1.5, 0.002
	// unsteady is the deviation of the rate over the run's seconds, relative to its mean, from
	// which the mean hides more than it says.
	unsteady = 0.10
	// trendBins is the fewest means of throughput for a trend, in trendStretches stretches that
	// are roughly independent; trendChance is how often six of those in random order would show
	// one (2/6! = 0.28%). More than trendBinsMost bins cost time and add nothing. In less than
	// trendLeastS, one second of a neighbour's work looks like a trend.
	trendBins      = 20
	trendLeastS    = 5
	trendStretches = 6
	trendChance    = 0.005
	trendBinsMost  = 600
	// stretchesMost is the largest share of the window that late stretches may take to be what
	// failed an SLO; stretchesSaid bounds the times listed; gaps within stretchesApart of their
	// mean form a period.
	stretchesMost  = 0.5
	stretchesSaid  = 6
	stretchesApart = 0.25
	// grewMatters is the ratio from which a change counts as growth.
	grewMatters = 1.2
	// meanApart is the ratio of mean to median response time from which the two describe
	// different things: 1.4 for an exponential distribution, 1.6 for a lognormal one with σ = 1.
	meanApart = 3
	// lateRows is the share of late samples from which the generator's host is suspected of not
	// scheduling what it should.
	lateRows = 0.10
	// reconnectShare is the share of requests that opened a new connection from which a
	// keep-alive run is a different experiment.
	reconnectShare = 0.01
	// closesShare is the share of requests after which the server closed the connection that is
	// worth a caveat: a limit of 200 requests per connection.
	closesShare = 0.005
	// closesAlike of those connections count as all of them: a reset loses responses in transit.
	closesAlike = 0.95
	// idleLeast is the mean idle time, in ns, from which connections that end idle have timed out:
	// after a limit the end follows the last response at once.
	idleLeast = 50e6
)

const (
	// changedResponses make a mean size, changedPortions of such means in a row a size of its own,
	// and changedRatio is how far apart two sizes are that are not the same responses.
	changedResponses = 20
	changedPortions  = 3
	changedRatio     = 1.25
)

const (
	// slotsTaken of the slots in flight at the end of an interval count as all: a few are always
	// between two requests.
	slotsTaken = 0.9
	// slotsUsedShare is the share of intervals with every slot taken from which the slots, or the
	// server behind them, explain a missed schedule.
	slotsUsedShare = 0.25
	// backlogMax is the share of all requests that may be in flight at the end beyond those at the
	// start before the queue counts as growing without bound.
	backlogMax = 0.01
	// delayWorthSaying is the run-queue delay below which the verdict does not mention it.
	delayWorthSaying = 0.02
)

const (
	// badRowsMost is the share of discarded CPU rows from which the remaining ones are not
	// trusted either. A single glitch of idle time going backwards is common on tickless kernels.
	badRowsMost = 0.2
	// coresIdle is the idle share below which CPUs count as full. Two sides that wake each other
	// through sockets leave some idle time at every wake-up.
	coresIdle = 0.08
	// coresIdleContested is the idle share up to which CPUs count as full if their threads wanted
	// contested times what there is: an empty handler against this generator on two cores
	// measured 11 to 14 % idle with 1.3 to 1.6 times the cores wanted; one full thread on two
	// cores measured 22 % and 0.97.
	coresIdleContested = 0.2
	contested          = 1.15
	// serverDemandMin is the CPU that a server used or waited for, relative to what it may use, below
	// which it did not fill the cores itself.
	serverDemandMin = 0.8
	// serverMost of the CPU that the server may use must be its own, and its generator's, for it to be
	// what limits the server.
	serverMost = 0.6
	// othersMin is how many of the server's cores others must use to explain a starved
	// server thread; a shell and a daemon take less. neighbourMatters is the least use for which
	// a process is named, and neighboursSaid bounds the names.
	othersMin        = 0.2
	neighbourMatters = 0.05
	neighboursSaid   = 3
	// jointDemandMin is the same for both sides together, from which they compete for the cores.
	jointDemandMin = 0.92

	// threadFull is the share of its time that a saturated thread runs, threadWanting the same
	// including its wait for a CPU, of which it must have run threadRuns.
	threadFull    = 0.93
	threadWanting = 0.97
	threadRuns    = 0.6
	// threadWants is the share that a thread on cores filled by others runs or waits for a CPU
	// from which it does not count as idle.
	threadWants = 0.8
	// threadWorks is the share that a thread runs or waits for a CPU from which it is one of the
	// working threads, not an occasional timer or garbage collector.
	threadWorks = 0.15

	// minSamples is the fewest socket samples that yield a share: with fewer, its interval
	// spans half the range.
	minSamples = 5
	// batchesMost is how many batches an interval is made of: with ten, each lasts a second of a
	// usual run, far longer than samples stay correlated.
	batchesMost = 10
	// largeRequest is the size from which a request is in transit for as long as it is
	// unacknowledged: receivers do not delay the ACK for more than two full segments (RFC 1122,
	// 4.2.3.2), 2 × 1448 bytes on Ethernet.
	largeRequest = 16 << 10

	// A stall has at most stallRest of the usual responses, fills at least one row of 100 ms,
	// lasts stallPatience response times, and lacks stallExpected responses: by chance that is
	// e^−20. It is less likely than stallChance that every slot happened to have a long request
	// at the same time.
	stallRest       = 0.05
	stallShortestNs = 90e6
	stallPatience   = 4
	stallExpected   = 20
	stallRows       = 5
	stallChance     = 0.01

	// startupSteady is the coefficient of variation up to which the first responses distinguish a
	// queue from a delay; startupQueued and startupAlone bound q beyond cv², halfway to ½ with a
	// margin. q must be known to startupAlone with startupSure deviations of the rows' means.
	startupSteady = 0.4
	startupQueued = 0.28
	startupAlone  = 0.15
	startupSure   = 1.5
	// startupFastest is how much faster than the mean the fastest response of a queue with
	// startupSlots slots is.
	startupFastest = 0.25
	// startupGrew is how much longer than its first responses those of an open loop that falls behind
	// take on average, if they queue.
	startupGrew  = 3
	startupSlots = 8
)

const (
	// Of the unloaded requests, the first half is dropped if the second took less than loneFell of it
	// and both have loneHalf requests or more: the server was still warming up.
	loneHalf = 4
	loneFell = 0.8
	// loneSlower is how much longer a request of the loop may take than a lone one without
	// waiting for another: two that run at once share caches and wake-ups. loneMost is the same
	// for the mean in the other direction: the server cannot work on more requests than there are
	// slots.
	loneSlower = 1.25
	loneMost   = 1.25
	// loneAlone of the slots being worked on at a time count as all; loneQueue of them leave a
	// quarter of the time to a queue, and what the busy CPU may also explain must leave 1 −
	// loneRoom.
	loneAlone = 0.8
	loneQueue = 0.75
	loneRoom  = 0.8
	// loneChance is how unlikely the unloaded requests must be as a sample of the loop's to indicate
	// a queue, loneUnlikely the same if the first responses agree, loneLikely how likely they
	// must be as a sample of the same times: the least of some hundred correlated ranks. In
	// simulated heavy-tailed loops this mistakes at most 1 in 100 for a queue.
	loneChance   = 1e-3
	loneUnlikely = 3e-3
	loneLikely   = 0.01
	// loneFirsts is the fewest connections whose first responses make a sample. They count as
	// lone within loneFirstWithin times an unloaded request's ninth decile.
	loneFirsts      = 8
	loneFirstWithin = 1.5
	// loneSoon times that time is long past it: most connections without a response by then were
	// overtaken, whatever their order.
	loneSoon = 10
	// loneWhole is how near to a whole number the occupancy must be to be reported as one.
	loneWhole = 0.12
)

const (
	// idleMost of its allowed CPU leaves a server CPU to spare: with four fifths taken, a queue
	// in front of it already explains a wait.
	idleMost = 0.8
	// smallPart of the common CPU leaves the generator responsible for at least 85 % of the
	// bottleneck: scaling its cost by k scales the rate by that much. serversPart is the same of the
	// server, whose rate on cores of its own would be higher by a third at most; the verdict says by
	// how much.
	smallPart   = 0.15
	serversPart = 0.75
	// partSaid is the generator's share of the server's cores from which the verdict mentions it.
	partSaid = 0.05
	// besidesFull is what a server does in addition to its full threads: a timer, a garbage
	// collector, a log.
	besidesFull = 0.15
	// throttledShare of the enforcement periods in which a cgroup ran out of quota counts as
	// throttling: a busy group may lose a few by chance.
	throttledShare = 0.2
	// selfLimitOff is how near to a whole number of cores a server that limits itself stays,
	// selfLimitQueue the share of requests in its receive queue.
	selfLimitOff   = 0.05
	selfLimitQueue = 0.4
	// wantsLittle cores, used or waited for, are too few to be what requests wait for: a single
	// serving thread then spends half of its time on something else, several spend more.
	wantsLittle = 0.5
	// lonelyThread is the share of the server's CPU in one thread from which that thread, not the
	// cores, is the next bottleneck.
	lonelyThread = 0.6
	// unevenRest is what the other workers use, relative to the busiest, below which the work is
	// unbalanced.
	unevenRest = 0.6

	// linkTaken is the usable share of a link's bits: inter-frame gaps, ARP, acknowledgements and
	// the shaper's granularity take the rest.
	linkTaken = 0.92
	// linkTakenGuessed is the same if only the run's own bytes are known: the framing assumes
	// full packets, and smaller ones carry less.
	linkTakenGuessed = 0.90
	// linkTooMuch is more than a link can carry.
	linkTooMuch = 1.05
	// smallPacket is the mean size, in bytes, up to which a saturated path is short of packets,
	// not of bytes: a full one is 1514.
	smallPacket = 400
	// softFull is the share of one core in softirq from which it does little else; the threads on
	// it keep a part.
	softFull = 0.8
	// lossMatters is the packet loss from which TCP's rate depends on it (Mathis et al. 1997:
	// rate ~ 1/√loss).
	lossMatters = 0.001
	// windowMatters is the share of its sending time during which the receiver's window stops the
	// server, from which the path is not the only cause.
	windowMatters = 0.1
	// mostOf the requests in one place are the majority.
	mostOf = 0.5
	// delayedAckNs is the shortest time for which Linux delays an ACK (include/net/tcp.h,
	// TCP_DELACK_MIN: a 25th of a second), less one tick at 250 Hz.
	delayedAckNs = 36e6
	// delayedAckHolds is how long a delayed ACK usually holds back a response: 40 ms and a tick.
	delayedAckHolds = 44e6
	// delayedAckTight is the longest time for which a delayed ACK holds back a response if that is
	// inferred: 40 ms, and three ticks at 250 Hz. delayedFlying is then the most segments in flight
	// per connection, the first part of a response.
	delayedAckTight = 52e6
	delayedFlying   = 1.5
	// delayedWritten of a response's bytes must be written for its ACK to be what it waits for.
	delayedWritten = 0.9
	// tripGrown is the ratio of a round trip to its minimum from which packets queue on the path.
	tripGrown = 3

	// overflowShare of the new connections, queueFullShare of the listener samples and
	// unacceptedShare of the connections are beyond chance.
	overflowShare   = 0.01
	queueFullShare  = 0.2
	unacceptedShare = 0.1
	// unacceptedSeen of the connections that lists and the listener's queue count as waiting must
	// appear in samples, or they are not the run's: of 3 of 64, a second's 200 samples hit 9, and
	// 2 or fewer in 1 of 200 runs.
	unacceptedSeen = 0.3
	// unacceptedFalls is the ratio of a queue's counts, early to late, from which it shrinks: those of a
	// queue that a limit keeps are equal. Samples of 60 looks are no such counts: they vary by a quarter.
	unacceptedFalls = 1.1
	// retriedNs is the least delay of a connection request that was dropped and retransmitted:
	// TCP_TIMEOUT_INIT, a second, less a tick.
	retriedNs = 950e6

	// waitQueue is the share of requests in an idle server's receive queue that wake-up latency
	// cannot explain.
	waitQueue = 0.35
	// outageMatters is the share of the window from which an unreachable server fails the run:
	// the rest does not measure that time.
	outageMatters = 0.10
	// stallBottleneck is the share of the window without a response from which no other resource
	// explains the rate.
	stallBottleneck = 0.15
	// starvedThreads is the number of threads waiting for a CPU from which the host stalled
	// rather than the server. The generator has an observer and a coordinator in addition to its
	// workers, so hungryThreads may wait there.
	starvedThreads = 0.3
	hungryThreads  = 0.8
	// fewPerCore requests per CPU are too few to form a queue: one is being worked on, one is in
	// transit.
	fewPerCore = 2
)

const (
	// skewMost is how far from the common start an agent may begin, in ns: one interval of the
	// series. Beyond that, the first rows mix the start of one agent with the full load of
	// another, and the startup queue test needs slots that start together.
	skewMost = 100e6
	// clockErrorMost is how wrong an agent's clock may be, in ns: half an interval. Two agents
	// that are off in opposite directions then differ by a whole one, and rows with the same time
	// no longer describe the same moment.
	clockErrorMost = 50e6
	// joinWithin is how far apart the two ends' sockets may be read, in ns. There are ten rows
	// per second, and a station's share is a mean over the window, not of an instant.
	joinWithin = 250e6
	// agentShort is the part of its share of the responses below which a closed-loop agent has a
	// different path or host than the rest: its responses take 1.4 times the mean, and overall
	// quantiles mix two kinds of clients.
	agentShort = 0.7

	// stealMatters is the share of CPU time stolen by the hypervisor from which that alone may
	// make two runs differ.
	stealMatters = 0.02
	// foreignCores is the CPU used by other processes that matters, or foreignShare of all cores
	// if that is more: the observer and the shell use less.
	foreignCores = 0.15
	foreignShare = 0.05
	// samplesFew is the number of samples below which a share's interval is wider than ±0.2.
	samplesFew = 20
	// badRowsSaid is the share of discarded CPU rows from which the verdict mentions it.
	badRowsSaid = 0.05
	// observerMost is the observer's promised upper bound, of one core, plus as much again for a
	// short run.
	observerMost = 0.02
	// clockDrop is how far the clock frequency may fall under thermal throttling.
	clockDrop = 0.9
	// timesMost is the multiple from which a next bottleneck is not worth naming.
	timesMost = 100
	// gainLeast is the multiple below which a change gains nothing worth its work.
	gainLeast = 1.02
)

const (
	// waitMatters is the share of a response time from which a wait is worth a line, waitExplains
	// from which it is the next step: removing a fifth of the time raises the rate by a quarter.
	waitMatters  = 0.05
	waitExplains = 0.2
	// waitsSaid, peersSaid and sleepsSaid bound how many lines the report lists.
	waitsSaid  = 3
	peersSaid  = 4
	sleepsSaid = 4

	// awaitedFewest is how many samples in which most requests wait for another server rule out a
	// coincidence.
	awaitedFewest = 2
	// peersFewest is how many samples with the same number of connections make a pool: two are
	// easily equal by chance.
	peersFewest = 3
	// poolBusy is the share of a pool's connections in use when requests queue for it. The rest
	// are between a response and the next query, or within the kernel tick that separates the
	// two.
	poolBusy = 0.8
	// behindFull of the cores that a database may use leaves nothing: it loses the rest to
	// wake-ups and to processes that share them.
	behindFull = 0.9
	// poolFewer is how much smaller than the number of requests in flight a pool must be for some
	// to wait for it.
	poolFewer = 0.9

	// threadDisk threads in uninterruptible sleep on average exceed an occasional page fault;
	// threadStopped of them stopped on average over the window are a sample or two in all.
	threadDisk = 0.5
	// sleepTells threads on average in a sleep that idle threads do not use justify a step ahead
	// of all that may be idle.
	sleepTells    = 0.5
	threadStopped = 0.1
)
