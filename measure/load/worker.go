package load

import (
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"ceiling/internal/http1"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
	"ceiling/internal/tlsconn"
)

// shared is what the workers of a run have in common. All of it is written
// before they start but for the two atomics, which the coordinator writes.
type shared struct {
	Config
	script *script
	own    int // connections of the share
	// sources to bind connections to, in turn; none: the kernel chooses
	sources []ring.Sockaddr
	base    time.Time // zero of the run's clock
	// startNs is when the load begins on the run's clock; 0 not yet.
	startNs  atomic.Int64
	stop     atomic.Bool
	schedule schedule
}

// worker is one OS thread with its own ring, connections and tally. Nothing of
// it is shared; tallies leave through a channel once an interval.
type worker struct {
	*shared
	id          int
	number      int // of the first connection among the share's
	pipelining  int
	ring        *ring.Ring
	learned     []http1.Learned
	conns       []conn
	flights     []flight // pipelining entries for each connection
	lagNs       int64    // lag and number of requests not yet in the tally
	lagN        uint64
	closedAfter uint32 // responses of the last connection that ended idle
	cutAfter    uint32 // likewise, with requests on the wire
	batch       []ring.Event
	rounds      uint64   // waits since the beginning
	fresh       []uint32 // connections with requests that leave with the next Wait
	eager       []uint32 // connections that send once the batch is done
	slots       slotQueue
	reopen      []uint32 // closed connections in no order
	dialNs      int64    // when the first of them may be tried again
	openLoop    bool
	arrivals    arrivals
	nextDue     int64 // run's clock; of the next arrival
	quota       int64 // requests still to be given to slots, -1 without limit, as before the load
	granted     int64 // quota at its beginning
	countFromNs int64 // latencies of requests due before are left out
	inFlight    int64
	carried     int64 // inFlight when the window opened
	carriedNs   int64 // and how long the requests of its slots had then waited, all together
	connected   int
	downNs      int64 // since when connected has been 0
	pending     int   // connects under way
	opened      int
	attempted   int // first attempts that have ended, well or not
	phase       phase
	alone       *alone  // while it sends one request at a time, and what came of it
	first       *firsts // the first answers of the load; nil: they are not looked at
	now         int64
	windowNs    int64  // when the window opens, run's clock
	endNs       int64  // when it closes; maxTime without a duration
	firstNs     int64  // the first request left; 0 none yet
	firstDueNs  int64  // when it was due
	doneNs      int64  // the last request that was completed, or failed
	sentNs      int64  // the last time that requests were sent
	lastNs      int64  // the end of what is counted, once the work is done
	originNs    int64  // zero of the schedule
	lateAtEnd   uint64 // requests due and not sent when the window closed
	drainNs     int64  // when waiting for the last answers ends
	tickNs      int64
	expireNs    int64
	tally       *Tally
	free        chan *Tally
	out         chan<- delivery
	delay       *sys.RunDelay
	gathering   gathering
	handedOver  uint64 // completed requests of the tallies that left
	cpuNs       int64  // thread CPU when it was read last, at cpuAtNs
	cpuAtNs     int64
	windowCPUNs int64
	windowDelay int64
	errors      []ErrorResponse // the first of each unexpected status
	tls         *secure         // nil: plain
	long        bool            // a long body came: discard.go
	h2          *h2             // nil: no connection may speak it
	streams     *streams        // nil: the connections carry requests
}

// delivery is one interval of one worker.
type delivery struct {
	worker int
	tally  *Tally
	last   bool
	report *WorkerReport // with the last
	err    error
	// ready comes without a tally: the first attempts to connect have ended,
	// connected of them well.
	ready     bool
	connected int
}

// phase is where a worker is in its life. Each follows the one before it; a
// closed loop alone has lone requests and awaits first answers, and that only
// where it was asked to.
type phase uint8

const (
	opening   phase = iota // the first attempts to connect are under way
	probing                // lone requests are sent, one after the other: lone.go
	waiting                // for the start
	starting               // the load has begun, and some connections await their first answer
	warming                // all have it
	measuring              // the window is open
	draining               // the window's time is over: nothing new is sent
)

const maxTime = int64(1) << 62

// maxPending bounds the connects under way, so that a small accept queue is
// not overrun by our own start: Linux's default somaxconn was 128 until 5.4.
const maxPending = 64

func (w *worker) clock() int64 { return int64(time.Since(w.base)) }

// loop is the life of a worker: submit, wait, read the clock, handle.
func (w *worker) loop() error {
	for before := w.clock(); ; {
		if len(w.reopen) > 0 && w.pending < maxPending {
			w.dial(before)
			before = w.clock()
		}
		if w.openLoop && w.phase >= starting && w.nextDue <= before && w.slots.count > 0 {
			w.now = before
			w.release()
			before = w.clock()
		}
		if len(w.eager) > 0 { // of a beginning, a schedule, an expiry: work sends for its own
			w.transmitAll()
			before = w.clock()
		}
		w.fill(before)
		w.tally.Waits++
		events, err := w.ring.Wait(w.patience(before))
		if err != nil {
			return err
		}
		w.rounds++
		// The clock is read once per batch, after it is reaped: an event is
		// never dated before it was seen.
		w.now = w.clock()
		if w.turn() {
			return nil
		}
		// The reading after the work dates what is sent next, too: each costs about a
		// tenth of what a response does in user space.
		if len(events) > 0 {
			before = w.work(events)
		} else {
			before = w.clock()
		}
		// Behind the events: what came while this thread stood still is no
		// timeout.
		if w.now >= w.expireNs {
			w.expire()
			before = w.clock()
		}
		if w.now >= w.gathering.untilNs {
			w.tryOther()
		}
		// Asked here too, so that nobody waits for events once all is answered.
		if w.inFlight == 0 && w.phase >= measuring && w.finished() {
			return nil
		}
	}
}

// work handles a batch, and tells when it was done.
func (w *worker) work(events []ring.Event) (doneNs int64) {
	w.batch = events
	for i := range events {
		w.handle(&events[i])
	}
	w.transmitAll()
	w.tally.Batches++
	doneNs = w.clock()
	took := doneNs - w.now
	w.tally.BatchNs += took
	w.tally.BatchMaxNs = max(w.tally.BatchMaxNs, took)
	return doneNs
}

// patience is how long the next Wait may take.
func (w *worker) patience(now int64) ring.Patience {
	until := min(w.tickNs, w.expireNs, now+int64(100*time.Millisecond))
	if w.phase < starting {
		until = min(until, now+int64(2*time.Millisecond))
		if start := w.startNs.Load(); start > 0 {
			until = min(until, start)
		}
	}
	if w.phase >= starting && w.openLoop && w.slots.count > 0 {
		until = min(until, w.nextDue)
	}
	switch w.phase {
	case measuring:
		until = min(until, w.endNs)
	case draining:
		until = min(until, w.drainNs)
	}
	if len(w.reopen) > 0 && w.pending < maxPending {
		until = min(until, w.dialNs)
	}
	return w.gathering.patienceFor(ring.Patience{Timeout: time.Duration(max(until-now, 0))})
}

// turn passes the boundaries of time: the load begins, the window opens and
// closes, an interval ends. It tells whether the work is done.
func (w *worker) turn() (done bool) {
	if w.phase < starting {
		w.prepare()
	}
	if w.phase >= starting && w.phase < measuring && w.now >= w.windowNs {
		w.openWindow()
	}
	if w.now >= w.tickNs {
		w.tick()
	}
	if w.stop.Load() {
		w.lastNs = w.now
		return true
	}
	return w.phase >= measuring && w.finished()
}

// finished tells that the window has closed and no answer is to be waited
// for. A closed loop leaves what is in flight then; an open loop waits for it
// within bounds, for those requests were due. The end of what is counted is
// then that of the last answer or of the last request, not of the waiting.
func (w *worker) finished() bool {
	if w.now >= w.endNs && w.phase == measuring {
		w.phase = draining
		w.lastNs = w.endNs
		if !w.openLoop {
			return true
		}
		w.lateAtEnd = w.behind() + w.held()
		w.cutAt(w.endNs)
		w.tickNs = maxTime // the drain is one interval
	}
	switch {
	case w.phase == draining:
		w.lastNs = max(w.endNs, w.doneNs, w.sentNs)
		return w.answered() || w.now >= w.drainNs
	case w.Requests > 0 && w.answered():
		w.lastNs = max(w.windowNs, w.doneNs)
		return true
	case w.Duration == 0 && w.connected == 0 && w.now-w.downNs > int64(w.Timeout)+2*maxBackoffNs:
		w.lastNs = w.now
		return true // nobody is there, and no time would end the waiting
	}
	return false
}

// answered tells that all that was to be sent was, and has its answer.
func (w *worker) answered() bool {
	if w.inFlight > 0 || w.quota > 0 || w.openLoop && w.nextDue < maxTime {
		return false
	}
	for i := range w.conns {
		if w.conns[i].waiting > 0 {
			return false
		}
	}
	return true
}

// lengthNs is the length of the schedule in the window.
func (w *worker) lengthNs() int64 {
	if w.Duration == 0 {
		return maxTime / 2
	}
	return int64(w.Duration)
}

// prepare does what comes before the load: the first attempts to connect, the
// lone requests, the wait for the start.
func (w *worker) prepare() {
	if w.phase == opening && w.attempted == len(w.conns) {
		w.beAlone()
	}
	if w.phase == probing {
		w.stayAlone()
	}
	if start := w.startNs.Load(); w.phase == waiting && start > 0 && w.now >= start {
		w.begin(start)
	}
}

// ready says that what comes before the start is done.
func (w *worker) ready() {
	w.phase = waiting
	w.out <- delivery{worker: w.id, ready: true, connected: w.connected}
}

// begin starts the load.
func (w *worker) begin(start int64) {
	w.phase, w.downNs, w.quota = starting, w.now, w.granted
	w.windowNs = start + int64(w.Warmup)
	w.endNs = maxTime
	if w.Duration > 0 {
		w.endNs = w.windowNs + int64(w.Duration)
		w.drainNs = w.endNs + int64(w.Drain)
	}
	// Intervals end at whole multiples from the window's opening, for every
	// worker, however late it comes here; the first after the start.
	w.tickNs = w.windowNs - (int64(w.Warmup)-1)/int64(w.Interval)*int64(w.Interval)
	w.tally.StartNs = start
	w.handOver(start, w.spare()) // what went wrong while connecting
	if w.Warmup == 0 {
		w.openWindow()
	}
	if w.openLoop {
		if w.phase < measuring {
			w.warmSchedule(start)
		}
		for i := range w.conns {
			w.freeSlots(uint32(i), &w.conns[i], int32(w.pipelining))
		}
		return
	}
	w.firstDueNs = start
	w.first = w.awaitFirsts()
	for i := range w.conns {
		c := &w.conns[i]
		if w.quota >= 0 && c.state != open {
			c.parked = int32(w.pipelining) // others may have its share
			continue
		}
		w.supply(uint32(i), c, int32(w.pipelining))
		w.transmit(uint32(i), c)
	}
	if w.phase == measuring { // without a warm-up they come due after the window has opened
		w.carriedNs = w.waited(w.windowNs)
	}
}

// openWindow ends the warm-up: what was counted until now is handed over as
// such, and what is in flight is carried into the window.
func (w *worker) openWindow() {
	w.cutAt(w.windowNs)
	w.choose()
	w.tickNs = w.windowNs + int64(w.Interval)
	w.phase = measuring
	w.tally.Warmup = false
	w.carried, w.carriedNs = w.inFlight, w.waited(w.windowNs)
	w.doneNs = w.windowNs
	if w.h2 != nil {
		w.h2.windowOpens()
	}
	w.windowCPUNs, w.windowDelay = sys.ThreadCPUNs(), w.runDelay()
	if w.openLoop {
		w.countFromNs = w.windowNs
		w.mainSchedule()
	}
}

func (w *worker) runDelay() int64 {
	if w.delay == nil {
		return -1
	}
	ns, err := w.delay.Ns()
	if err != nil {
		return -1
	}
	return ns
}

// dial opens connections that are closed and may be tried, within bounds.
func (w *worker) dial(now int64) {
	if now < w.dialNs {
		return
	}
	w.dialNs = maxTime
	kept := w.reopen[:0]
	for k, i := range w.reopen {
		c := &w.conns[i]
		if w.pending >= maxPending {
			kept = append(kept, w.reopen[k:]...)
			w.dialNs = now
			break
		}
		if c.reopenAt <= now && !w.unneeded(c) {
			w.connect(i, c, now)
		}
		if c.state == closed {
			kept = append(kept, i)
			if !w.unneeded(c) {
				w.dialNs = min(w.dialNs, c.reopenAt)
			}
		}
	}
	w.reopen = kept
}

// unneeded tells that a new connection would have no request: all that were
// asked for have been given out.
func (w *worker) unneeded(c *conn) bool {
	return w.NewConnections && w.phase >= starting && w.quota == 0 && c.waiting == 0
}

func (w *worker) connect(i uint32, c *conn, now int64) {
	w.opened++
	c.since = now
	fd, err := w.socket(i)
	if err != nil {
		c.reopenAt = now + maxBackoffNs
		w.connectFailed(c, PhaseConnect, sys.ErrnoName(err))
		return
	}
	c.fd, c.state = int32(fd), connecting
	w.pending++
	w.ring.Connect(fd, &w.Address, c.tag(i))
}

// socket for connection i, with the local address whose turn it is.
func (w *worker) socket(i uint32) (int, error) {
	fd, err := w.Address.Socket()
	if err != nil || len(w.sources) == 0 {
		return fd, err
	}
	from := &w.sources[(w.number+int(i))%len(w.sources)]
	if err = from.BindSource(fd); err != nil {
		err = errors.Join(err, syscall.Close(fd))
	}
	return fd, err
}

// connectFailed counts an attempt that came to nothing.
func (w *worker) connectFailed(c *conn, phase, cause string) {
	w.firstAttemptEnded(c)
	w.tally.Faults[Fault{phase, cause}]++
	if w.quota >= 0 && !w.openLoop && c.resend == 0 {
		w.giveBack(c)
	}
}

func (w *worker) firstAttemptEnded(c *conn) {
	if !c.attempted {
		c.attempted = true
		w.attempted++
	}
}

// expire looks for connects and requests that took too long. It runs ten
// times per timeout, at most a thousand times a second.
func (w *worker) expire() {
	limit := int64(w.Timeout)
	w.expireNs = w.now + min(max(limit/10, 1e6), 1e8)
	for i := range w.conns {
		c := &w.conns[i]
		switch {
		case c.state == connecting && w.now-c.since > limit:
			w.abandon(uint32(i), c, PhaseConnect, causeTimeout)
		case c.state == shaking && w.now-c.since > limit:
			w.abandon(uint32(i), c, PhaseTLS, causeTimeout)
		case c.state == open && c.onWire > 0 && c.speaks == HTTP2:
			w.expireH2(uint32(i), c)
		case c.state == upgrading && w.now-c.since > limit:
			w.abandon(uint32(i), c, PhaseOpen, causeTimeout)
		case c.state == open && c.onWire > 0:
			f := &w.queue(uint32(i))[c.head]
			if f.sent != 0 && w.now-f.sent > limit {
				w.fail(uint32(i), c, PhaseResponse, causeTimeout, causeBehind)
			}
		}
		if w.quota > 0 && c.parked > 0 && c.state == open {
			w.wake(uint32(i), c)
			w.transmit(uint32(i), c)
		}
	}
}

// wake puts requests into the slots of a connection that had none.
func (w *worker) wake(i uint32, c *conn) {
	n := c.parked
	c.parked = 0
	if w.openLoop {
		w.freeSlots(i, c, n)
		return
	}
	w.supply(i, c, n)
}

// abandon gives up a connect, with the requests that an earlier connection had
// lost.
func (w *worker) abandon(i uint32, c *conn, phase, cause string) {
	if c.resend > 0 {
		w.fail(i, c, PhaseResponse, causeClosed, causeClosed)
	} else {
		w.hangUp(i, c)
	}
	w.connectFailed(c, phase, cause)
}

// handle takes one event. Those of an earlier connection are dropped.
func (w *worker) handle(ev *ring.Event) {
	i := ev.Tag.Index()
	c := &w.conns[i]
	if ev.Tag != c.tag(i) {
		return
	}
	switch ev.Kind {
	case ring.Received:
		switch {
		case len(ev.Data) == 0:
			w.over(i, c, ev.Err)
		case w.tls != nil:
			w.tally.Read += uint64(len(ev.Data))
			w.receivedSealed(i, c, ev.Data)
		case c.speaks == HTTP2:
			w.tally.Read += uint64(len(ev.Data))
			w.receivedH2(i, c, ev.Data)
			w.proceed(i, c, ev.Tag)
		default:
			w.tally.Read += uint64(len(ev.Data))
			w.received(i, c, ev.Data)
			if c.reads != asItComes {
				w.readOn(i, c, ev.Tag)
			}
		}
	case ring.Discarded:
		w.discarded(i, c, ev)
	case ring.Connected:
		w.connectEnded(i, c, ev.Err)
	case ring.Sent:
		c.sending = false
		if w.tls != nil {
			w.sendRest(i, c)
		}
		if w.streams != nil {
			w.sendPong(i, c)
		}
		w.transmit(i, c)
	case ring.SendFailed:
		if ev.Err != syscall.EPIPE && ev.Err != syscall.ECONNRESET {
			w.fail(i, c, PhaseSend, sys.ErrnoName(ev.Err), causeDropped)
			return
		}
		// The peer is gone, but what it answered before may still be unread: an
		// early answer to a large request, say. The receive's end follows.
		c.sending, c.sendErr = true, ev.Err
	}
}

// over handles the end of what the peer sends: in order where no is 0 or
// EPIPE, which says that it had closed before we wrote.
func (w *worker) over(i uint32, c *conn, no syscall.Errno) {
	if c.state == shaking {
		w.shakeOver(i, c, no)
		return
	}
	if c.speaks == HTTP2 {
		w.overH2(i, c, no)
		return
	}
	if w.streams != nil {
		w.streamOver(i, c, no)
		return
	}
	phase := PhaseResponse
	if no == 0 && c.sendErr == 0 && c.served == 0 && c.onWire > 0 {
		c.sendErr = w.sendFailure(c.tag(i))
	}
	if no == 0 && c.sendErr != 0 && c.reader.Idle() {
		phase, no = PhaseSend, c.sendErr
	}
	switch {
	case no == 0, no == syscall.EPIPE && (c.served > 0 || phase == PhaseResponse):
		w.ended(i, c)
	case no == syscall.ECONNRESET && c.reader.Idle() && w.limited(c):
		w.lost(i, c)
	default:
		w.fail(i, c, phase, sys.ErrnoName(no), causeDropped)
	}
}

// sendFailure looks for a failed send of a connection in the batch at hand. The
// kernel tells of a reset once: where the send has heard it, the receive sees an
// orderly end, and epoll's receives come first in a batch.
func (w *worker) sendFailure(t ring.Tag) syscall.Errno {
	for i := range w.batch {
		if ev := &w.batch[i]; ev.Tag == t && ev.Kind == ring.SendFailed {
			return ev.Err
		}
	}
	return 0
}

func (w *worker) connectEnded(i uint32, c *conn, no syscall.Errno) {
	if no != 0 {
		w.abandon(i, c, PhaseConnect, sys.ErrnoName(no))
		return
	}
	if toItself(int(c.fd)) {
		w.abandon(i, c, PhaseConnect, causeItself)
		return
	}
	w.read(i, c)
	if w.tls != nil {
		w.shake(i, c)
		return
	}
	w.stands(i, c)
}

// stands takes a connection that is ready for requests.
func (w *worker) stands(i uint32, c *conn) {
	if w.streams != nil && c.state != upgrading {
		w.askStream(i, c)
		return
	}
	w.firstAttemptEnded(c)
	w.pending--
	w.connected++
	c.state = open
	if w.h2 != nil {
		w.speak(i, c)
	}
	if c.parked > 0 {
		w.wake(i, c)
	}
	w.transmit(i, c)
}

// received frames what came in.
func (w *worker) received(i uint32, c *conn, b []byte) {
	if w.streams != nil {
		w.receivedStream(i, c, b)
		return
	}
	var freed int32
	for len(b) > 0 {
		out := c.onWire - c.stamped // what is stamped has not left yet
		if out == 0 {
			w.renew(i, c, freed)
			w.fail(i, c, PhaseResponse, causeExtra, causeDropped)
			return
		}
		if w.script.single && out > 1 {
			if n, k := c.reader.Run(b, &w.learned[0], int(out)); k > 0 {
				if w.Unexpected[c.reader.Status()] {
					w.keepError(c.reader.Status(), b[:n])
				}
				extra := int32(k) == out && n < len(b)
				if extra {
					k--
				}
				w.complete(i, c, int32(k), c.reader.Status())
				freed += int32(k)
				if extra {
					w.overfull(i, c, freed)
					return
				}
				b = b[n:]
				continue
			}
		}
		t := w.script.target[c.oldest]
		n, done, err := c.reader.Next(b, w.script.noBody[t], &w.learned[t])
		if err != nil {
			w.renew(i, c, freed)
			w.fail(i, c, PhaseResponse, err.Error(), causeDropped)
			return
		}
		if w.Unexpected[c.reader.Status()] {
			w.keepError(c.reader.Status(), b[:n])
		}
		b = b[n:]
		if !done {
			if c.reads == asItComes && c.reader.Rest() >= longBody {
				w.meets(c)
			}
			break
		}
		if out == 1 && len(b) > 0 {
			w.overfull(i, c, freed)
			return
		}
		last := w.whole(i, c)
		freed++
		if last {
			w.renew(i, c, freed)
			return
		}
	}
	if freed > 0 {
		w.renew(i, c, freed)
		w.transmit(i, c)
	}
}

// whole takes the answer that is complete, and tells whether the connection ends
// with it.
func (w *worker) whole(i uint32, c *conn) (last bool) {
	closing := c.reader.Closing()
	w.complete(i, c, 1, c.reader.Status())
	if closing && !w.NewConnections {
		w.tally.Closes.note(&w.tally.Closes.Announced, c.served)
	}
	if closing || w.NewConnections {
		w.lost(i, c)
		return true
	}
	return false
}

// overfull fails the last request on the wire, whose response came with bytes
// behind it that no request had asked for: two answers, or a body where there is
// none. What comes later than the response finds no request, or the next one.
func (w *worker) overfull(i uint32, c *conn, freed int32) {
	w.renew(i, c, freed)
	w.fail(i, c, PhaseResponse, causeExtra, causeDropped)
}

// ended handles the peer's orderly close.
func (w *worker) ended(i uint32, c *conn) {
	if c.onWire > 0 {
		done, err := c.reader.EOF()
		if done && w.cutOff(i) {
			done, err = false, tlsconn.ErrTruncated
		}
		if done {
			w.complete(i, c, 1, c.reader.Status())
			w.tally.Closes.note(&w.tally.Closes.Announced, c.served)
			w.lost(i, c)
			w.renew(i, c, 1)
			return
		}
		if err != nil || c.served > 0 && !w.limited(c) {
			cause := causeClosed
			if err != nil {
				cause = err.Error()
			}
			w.fail(i, c, PhaseResponse, cause, causeDropped)
			return
		}
	} else {
		w.closedAfter = c.served
		if c.served > 0 {
			w.tally.Closes.note(&w.tally.Closes.Idle, c.served)
		}
	}
	w.lost(i, c)
}

// limited tells a keep-alive limit from a fault where a connection ends between
// two responses with requests on the wire. Both may look alike: a server that
// closes while a request it has not read is in its queue makes its kernel send
// a reset (net/ipv4/tcp.c __tcp_close, RFC 1122 section 4.2.2.13). But a limit
// ends every connection after the same number of responses, and a fault hits
// at any. The first such end has nothing to be compared with and is taken for a
// limit; an end after another number than the one before it is a fault.
func (w *worker) limited(c *conn) bool {
	if c.served == 0 {
		return false
	}
	w.tally.Closes.note(&w.tally.Closes.InFlight, c.served)
	before := w.cutAfter
	w.cutAfter = c.served
	return before == 0 || c.served == before || c.served == w.closedAfter
}
