package load

import (
	"sync/atomic"
	"syscall"
	"time"

	"ceiling/internal/http1"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
	"ceiling/internal/tlsconn"
)

// shared is what the workers of a run have in common. It is written before they start, except for
// the two atomics, which the coordinator writes.
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

// worker is one OS thread with its own ring, connections and tally. It shares none of them; it
// hands over a tally through a channel once per interval.
type worker struct {
	shared      *shared
	id          int
	number      int // of the first connection among the share's
	pipelining  int
	ring        *ring.Ring
	learned     []http1.Learned
	conns       []conn
	flights     []flight // pipelining entries per connection
	lagNs       int64    // lag and number of requests not yet in the tally
	lagN        uint64
	ends        ends
	batch       []ring.Event
	rounds      uint64   // waits so far
	fresh       []uint32 // connections whose requests leave with the next Wait
	eager       []uint32 // connections that send once the batch is done
	slots       slotQueue
	reopen      []uint32 // closed connections, unordered
	dialNs      int64    // when the first of them may be retried
	openLoop    bool
	arrivals    arrivals
	nextDue     int64 // next arrival, run's clock
	quota       int64 // requests left to assign to slots; -1: no limit, as before the load
	granted     int64 // initial quota
	countFromNs int64 // latencies of requests due earlier are left out
	inFlight    int64
	carried     int64 // inFlight when the window opened
	carriedNs   int64 // and how long the requests of its slots had waited by then, in sum
	established int   // connected once the first attempts had ended
	connected   int
	downNs      int64 // since when connected has been 0
	pending     int   // connects under way
	opened      int
	attempted   int // first attempts that have ended, in success or failure
	phase       phase
	alone       *alone  // the unloaded requests and their results
	first       *firsts // the first responses of the load; nil: not measured
	now         int64
	windowNs    int64  // when the window opens, run's clock
	endNs       int64  // when it closes; maxTime without a duration
	firstNs     int64  // the first request left; 0 none yet
	firstDueNs  int64  // when that was due
	doneNs      int64  // the last request that completed or failed
	sentNs      int64  // the last time requests were sent
	lastNs      int64  // end of the counted time, once the work is done
	originNs    int64  // zero of the schedule
	lateAtEnd   uint64 // requests due but not sent when the window closed
	drainNs     int64  // deadline of the wait for the last responses
	tickNs      int64
	expireNs    int64
	tally       *Tally
	left        *Waiting // filled in at the end
	free        chan *Tally
	out         chan<- delivery
	delay       *sys.RunDelay
	gathering   gathering
	handedOver  uint64 // completed requests of the tallies handed over
	cpuNs       int64  // thread CPU at the last reading, at cpuAtNs
	cpuAtNs     int64
	windowCPUNs int64
	windowDelay int64
	seen        inspector
	tls         *secure  // nil: plain
	long        bool     // a long body was received: discard.go
	h2          *h2      // nil: no connection may use it
	tunnels     tunnels  // without a proxy: none
	streams     *streams // nil: the connections carry requests
	feeder      *feeder  // nil: the script has the requests
}

// delivery is one interval of one worker.
type delivery struct {
	worker int
	tally  *Tally
	over   bool          // the last tally, of which there may be none
	report *WorkerReport // with that
	last   bool          // the worker has ended
	err    error
	// ready comes without a tally: the first connect attempts have ended, connected of them in
	// success.
	ready     bool
	connected int
}

// phase is a worker's stage. Each follows the one before it; only a closed loop has unloaded requests
// and awaits first responses, and only if configured.
type phase uint8

const (
	opening   phase = iota // the first connect attempts are under way
	probing                // sending unloaded requests, one after the other: lone.go
	waiting                // for the start
	starting               // the load has begun; some connections await their first response
	warming                // every connection has had its first response
	measuring              // the window is open
	draining               // the window has closed: nothing new is sent (drain.go)
)

const maxTime = int64(1) << 62

// maxPending bounds the pending connects, so that our own start does not overflow a short accept
// queue: Linux's default somaxconn was 128 until 5.4.
const maxPending = 64

// refusedNs is how long a connect takes whose SYN was dropped, since the accept queue was full: it goes
// out again after 1 s (net/ipv4/tcp_timer.c, TCP_TIMEOUT_INIT). expire looks every 100 ms.
const refusedNs = int64(900 * time.Millisecond)

func (w *worker) clock() int64 { return int64(time.Since(w.shared.base)) }

// loop is the worker's event loop: submit, wait, read the clock, handle.
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
		if len(w.eager) > 0 { // from a start, a schedule or an expiry: work sends its own
			w.transmitAll()
			before = w.clock()
		}
		if w.feeder != nil {
			w.now = before
			if over, err := w.feeder.turn(w); over || err != nil {
				return err
			}
			before = w.clock()
		}
		w.fill(before)
		w.tally.Waits++
		events, err := w.ring.Wait(w.patience(before))
		if err != nil {
			return err
		}
		w.rounds++
		// The clock is read once per batch, after it is reaped: no event is dated before it was
		// seen.
		w.now = w.clock()
		if w.turn() {
			w.batch = events // not handled: drain does
			return nil
		}
		// The reading after the work also dates what is sent next: a reading costs about a tenth of
		// a response's user time.
		if len(events) > 0 {
			before = w.work(events)
		} else {
			before = w.clock()
		}
		// After the events: responses that arrived while this thread was not running are no
		// timeouts.
		if w.now >= w.expireNs {
			w.expire()
			before = w.clock()
		}
		if w.now >= w.gathering.untilNs {
			w.tryOther()
		}
		// Checked here too: once every response is in, no event would wake the loop.
		if w.inFlight == 0 && w.phase >= measuring && w.finished() {
			return nil
		}
	}
}

// work handles a batch, and returns when it was done.
func (w *worker) work(events []ring.Event) (doneNs int64) {
	w.batch = events
	before := w.tally.Completed
	for i := range events {
		w.handle(&events[i])
	}
	w.batch = nil
	w.transmitAll()
	doneNs = w.clock()
	w.tally.batch(doneNs-w.now, before)
	return doneNs
}

// patience returns how long the next Wait may take.
func (w *worker) patience(now int64) ring.Patience {
	until := min(w.tickNs, w.expireNs, now+int64(100*time.Millisecond))
	if w.phase < starting {
		until = min(until, now+int64(2*time.Millisecond))
		if start := w.shared.startNs.Load(); start > 0 {
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
	if w.feeder != nil {
		until = w.feeder.nextDelayed(until)
	}
	return w.gathering.patienceFor(ring.Patience{Timeout: time.Duration(max(until-now, 0))})
}

// turn handles the time boundaries: the load begins, the window opens or closes, an interval ends.
// It reports whether the work is done.
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
	if w.shared.stop.Load() {
		w.lastNs = w.now
		return true
	}
	return w.phase >= measuring && w.finished()
}

// finished reports whether the window has closed and no response is counted any more. A closed loop
// leaves what is in flight to drain; an open loop waits for it, up to a limit, because those
// requests were due. The counted time then ends with the last response or request, not with the
// wait.
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
	case w.shared.Requests > 0 && w.answered():
		w.lastNs = max(w.windowNs, w.doneNs)
		return true
	case w.shared.Duration == 0 && w.connected == 0 && w.now-w.downNs > int64(w.shared.Timeout)+2*maxBackoffNs:
		w.lastNs = w.now
		return true // no connection is left, and no deadline would end the wait
	}
	return false
}

// answered reports whether everything to be sent was sent and has its response.
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

// lengthNs returns the length of the schedule in the window.
func (w *worker) lengthNs() int64 {
	if w.shared.Duration == 0 {
		return maxTime / 2
	}
	return int64(w.shared.Duration)
}

// prepare does what precedes the load: the first connect attempts, the unloaded requests, the wait for
// the start.
func (w *worker) prepare() {
	if w.phase == opening && w.attempted == len(w.conns) {
		w.established = w.connected // a server may close one after its unloaded request
		w.beAlone()
	}
	if w.phase == probing {
		w.stayAlone()
	}
	if start := w.shared.startNs.Load(); w.phase == waiting && start > 0 && w.now >= start {
		w.begin(start)
	}
}

// ready reports to the coordinator that this worker can start.
func (w *worker) ready() {
	w.phase = waiting
	w.out <- delivery{worker: w.id, ready: true, connected: max(w.connected, w.established)}
}

// begin starts the load.
func (w *worker) begin(start int64) {
	w.phase, w.downNs, w.quota = starting, w.now, w.granted
	w.windowNs = start + int64(w.shared.Warmup)
	w.endNs = maxTime
	if w.shared.Duration > 0 {
		w.endNs = w.windowNs + int64(w.shared.Duration)
		w.drainNs = w.endNs + int64(w.shared.Drain)
	}
	// Intervals end at whole multiples of their length from the window's opening, for every worker,
	// however late it gets here; the first ends after the start.
	w.tickNs = w.windowNs - (int64(w.shared.Warmup)-1)/int64(w.shared.Interval)*int64(w.shared.Interval)
	w.tally.StartNs = start
	w.handOver(start, w.spare()) // the faults while connecting
	if w.shared.Warmup == 0 {
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
			c.parked = int32(w.pipelining) // others may use its share
			continue
		}
		w.supply(uint32(i), c, int32(w.pipelining))
		w.transmit(uint32(i), c)
	}
	if w.phase == measuring { // without a warm-up they come due after the window opens
		w.carriedNs = w.waited(w.windowNs)
	}
}

// openWindow ends the warm-up: it hands over the counts so far as warm-up, and carries the requests
// in flight into the window.
func (w *worker) openWindow() {
	w.cutAt(w.windowNs)
	w.tickNs = w.windowNs + int64(w.shared.Interval)
	w.phase = measuring
	w.tally.Warmup = false
	w.carried, w.carriedNs = w.inFlight, w.waited(w.windowNs)
	w.doneNs = w.windowNs
	if w.h2 != nil {
		w.h2.windowOpens()
	}
	w.windowCPUNs, w.windowDelay = cpuUsed(&w.shared.Config), w.runDelay()
	if w.openLoop {
		w.countFromNs = w.windowNs
		w.mainSchedule()
	}
	if w.feeder != nil {
		w.feeder.startWindow(w.windowNs)
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

// dial opens closed connections that may be retried, up to maxPending.
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

// unneeded reports whether a new connection would have no request: all requested ones have been
// assigned.
func (w *worker) unneeded(c *conn) bool {
	return w.shared.NewConnections > 0 && w.phase >= starting && w.quota == 0 && c.waiting == 0
}

func (w *worker) connect(i uint32, c *conn, now int64) {
	w.opened++
	c.since = now
	var from *ring.Sockaddr
	if n := len(w.shared.sources); n > 0 {
		from = &w.shared.sources[(w.number+int(i))%n]
	}
	fd, err := w.ring.Dial(w.shared.To.turn(w.number+int(i)), from, c.tag(i))
	if err != nil {
		c.reopenAt = now + maxBackoffNs
		w.connectFailed(c, PhaseConnect, sys.ErrnoName(err))
		return
	}
	c.fd, c.state = int32(fd), connecting
	w.pending++
}

// connectFailed counts a failed connect.
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

// expire looks for connects and requests that timed out. It runs ten times per timeout, at most a
// thousand times a second.
func (w *worker) expire() {
	limit := int64(w.shared.Timeout)
	w.expireNs = w.now + min(max(limit/10, 1e6), 1e8)
	late := w.phase == opening && w.now > limit+int64(w.shared.ConnectRamp)
	for i := range w.conns {
		c := &w.conns[i]
		if late && c.state == connecting && w.now-c.since > refusedNs {
			w.attempted, late = len(w.conns), false // the load starts with those that are connected
		}
		switch {
		case c.state == connecting && w.now-c.since > limit:
			w.abandon(uint32(i), c, PhaseConnect, CauseTimeout)
		case c.state == tunnelling && w.now-c.since > limit:
			w.abandon(uint32(i), c, PhaseConnect, CauseTimeout)
		case c.state == shaking && w.now-c.since > limit:
			w.abandon(uint32(i), c, PhaseTLS, CauseTimeout)
		case c.state == open && c.onWire > 0 && c.speaks == HTTP2:
			w.expireH2(uint32(i), c)
		case c.state == upgrading && w.now-c.since > limit:
			w.abandon(uint32(i), c, PhaseOpen, CauseTimeout)
		case c.state == open && c.onWire > 0:
			f := &w.queue(uint32(i))[c.head]
			if f.sent != 0 && w.now-f.sent > limit {
				cause := CauseTimeout
				if c.reader.EventStream() {
					cause = causeEndless
				}
				w.fail(uint32(i), c, PhaseResponse, cause, causeBehind)
			}
		}
		if w.quota > 0 && c.parked > 0 && c.state == open {
			w.wake(uint32(i), c)
			w.transmit(uint32(i), c)
		}
	}
}

// wake puts requests into a connection's parked slots.
func (w *worker) wake(i uint32, c *conn) {
	n := c.parked
	c.parked = 0
	if w.openLoop {
		w.freeSlots(i, c, n)
		return
	}
	w.supply(i, c, n)
}

// abandon gives up a connect, along with the requests that an earlier connection lost.
func (w *worker) abandon(i uint32, c *conn, phase, cause string) {
	if c.resend > 0 {
		w.fail(i, c, PhaseResponse, causeClosed, causeClosed)
	} else {
		w.hangUp(i, c)
	}
	w.connectFailed(c, phase, cause)
}

// handle handles one event. It drops those of an earlier connection.
func (w *worker) handle(ev *ring.Event) {
	i := ev.Tag.Index()
	if int(i) == len(w.conns) {
		return // the source has woken the loop, which looks what it has
	}
	c := &w.conns[i]
	if ev.Tag != c.tag(i) {
		return
	}
	switch ev.Kind {
	case ring.Received:
		if w.phase == probing && len(ev.Data) > 0 {
			w.arrivedAlone(i)
		}
		if len(ev.Data) == 0 {
			w.over(i, c, ev.Err)
			return
		}
		w.tally.Read += uint64(len(ev.Data))
		w.arrived(i, c, ev.Tag, ev.Data)
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
		// The peer has closed, but an earlier response may still be unread: an early one to a large
		// request, say. The end of the receive follows.
		c.sending, c.sendErr = true, ev.Err
	}
}

// arrived handles the bytes that a connection received.
func (w *worker) arrived(i uint32, c *conn, tag ring.Tag, b []byte) {
	switch {
	case c.state == tunnelling:
		w.tunnels.received(w, i, c, b)
	case w.tls != nil:
		w.receivedSealed(i, c, b)
	case c.speaks == HTTP2:
		w.receivedH2(i, c, b)
		w.proceed(i, c, tag)
	default:
		w.received(i, c, b)
		if c.reads != asItComes {
			w.readOn(i, c, tag)
		}
	}
}

// over handles the end of the peer's data: orderly if no is 0, or EPIPE, which means that the peer
// had closed before we wrote.
func (w *worker) over(i uint32, c *conn, no syscall.Errno) {
	switch c.state {
	case tunnelling:
		w.tunnels.over(w, i, c, no)
		return
	case shaking:
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
		c.sendErr = sendFailure(w.batch, c.tag(i))
	}
	if no == 0 && c.sendErr != 0 && c.reader.Idle() {
		phase, no = PhaseSend, c.sendErr
	}
	switch {
	case no == 0, no == syscall.EPIPE && (c.served > 0 || phase == PhaseResponse):
		w.ended(i, c)
	case no == syscall.ECONNRESET && c.reader.Idle() && w.limited(i, c):
		w.lost(i, c)
	default:
		w.fail(i, c, phase, sys.ErrnoName(no), causeDropped)
	}
}

// sendFailure looks for a failed send of a connection in a batch. The kernel reports a
// reset once: if the send got it, the receive sees an orderly end, and epoll's receives come first
// in a batch.
func sendFailure(batch []ring.Event, t ring.Tag) syscall.Errno {
	for i := range batch {
		if ev := &batch[i]; ev.Tag == t && ev.Kind == ring.SendFailed {
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
	if w.ring.SelfConnected(int(c.fd)) {
		w.abandon(i, c, PhaseConnect, causeItself)
		return
	}
	w.read(i, c)
	if len(w.shared.To.Tunnel) > 0 {
		w.tunnels.ask(w, i, c)
		return
	}
	w.reached(i, c)
}

// reached continues with a connection to the server.
func (w *worker) reached(i uint32, c *conn) {
	if w.tls != nil {
		w.shake(i, c)
		return
	}
	w.stands(i, c)
}

// stands puts an established connection to use.
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

// inspect keeps what a response that is not the page says, of a part of it; last: it ends with it.
func (w *worker) inspect(i uint32, c *conn, part []byte, last bool) {
	status := c.reader.Status()
	if w.feeder != nil {
		w.feeder.collect(i, c.oldest, part, last)
	}
	if IsRedirect(status) {
		w.seen.redirected(status, part)
	}
	if w.shared.Expect.Unexpected[status] {
		w.seen.readPage(pageOf{tag: c.tag(i)}, status, part, last)
	}
	if w.seen.checks != nil {
		w.examine(pageOf{tag: c.tag(i)}, status, part, last)
	}
}

// received frames the bytes received.
func (w *worker) received(i uint32, c *conn, b []byte) {
	if w.streams != nil {
		w.receivedStream(i, c, b)
		return
	}
	var freed int32
	for len(b) > 0 {
		out := c.onWire - c.stamped // what is stamped has not left yet
		if out == 0 && c.served > 0 && freed == 0 && timeoutStatus(b) {
			w.endedIdle(c)
			w.lost(i, c)
			return
		}
		if out == 0 {
			w.seen.keepStranger(c, b)
			w.overfull(i, c, freed)
			return
		}
		if w.shared.script.runs && out > 1 {
			if n, k := c.reader.Run(b, &w.learned[0], int(out)); k > 0 {
				w.inspect(i, c, b[:n], true)
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
		t := w.shared.script.target[c.oldest]
		n, done, err := c.frame(b, w.feeder.bodiless(i, c.oldest, w.shared.script.noBody[t]), &w.learned[t], w.now)
		if err != nil {
			if err == http1.ErrStatusLine {
				w.seen.keepStranger(c, b)
			}
			w.renew(i, c, freed)
			w.fail(i, c, PhaseResponse, err.Error(), causeDropped)
			return
		}
		w.inspect(i, c, b[:n], done)
		b = b[n:]
		if !done {
			if len(b) > 0 {
				continue // the head of an event stream, or one of its pieces
			}
			w.meets(c)
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

// timeoutStatus reports whether bytes begin with status 408, which a server may send on an idle
// connection before it closes it (RFC 9110, section 15.5.9).
func timeoutStatus(b []byte) bool {
	return len(b) > len("HTTP/1.1 408") && string(b[:7]) == "HTTP/1." && string(b[8:12]) == " 408"
}

// whole handles a complete response, and reports whether the connection ends with it.
func (w *worker) whole(i uint32, c *conn) (last bool) {
	closing := c.reader.Closing()
	w.complete(i, c, 1, c.reader.Status())
	if closing && w.shared.NewConnections != 1 {
		w.tally.Closes.note(&w.tally.Closes.Announced, c.served)
	}
	if closing || c.full(w.shared.NewConnections) {
		w.lost(i, c)
		return true
	}
	return false
}

// overfull fails the last request on the wire, whose response was followed by bytes that no request
// had asked for: two responses, or a body where none is allowed. Bytes that arrive later than the
// response find no request, or the next one.
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
			w.inspect(i, c, nil, true)
			w.complete(i, c, 1, c.reader.Status())
			w.tally.Closes.note(&w.tally.Closes.Announced, c.served)
			w.lost(i, c)
			w.renew(i, c, 1)
			return
		}
		if err != nil || c.served > 0 && !w.limited(i, c) {
			cause := causeClosed
			if err != nil {
				cause = err.Error()
			}
			w.fail(i, c, PhaseResponse, cause, causeDropped)
			return
		}
	} else {
		w.endedIdle(c)
	}
	w.lost(i, c)
}

// endedIdle notes a connection that the server ended without a request on it.
func (w *worker) endedIdle(c *conn) {
	if w.ends.idleAfter = c.served; c.served > 0 {
		w.ends.idleNs = w.now - c.since
		w.tally.Closes.noteIdle(c.served, w.ends.idleNs)
	}
}

// limited tells a keep-alive limit from a fault when a connection ends between two responses with
// requests on the wire. Both may look alike: if a server closes while its queue holds an unread
// request, its kernel sends a reset (net/ipv4/tcp.c __tcp_close, RFC 1122 section 4.2.2.13). But a
// limit ends every connection after the same number of responses, and a fault after any number. The
// first such end has nothing to compare with and counts as a limit; an end after a different number
// than the previous one is a fault.
func (w *worker) limited(i uint32, c *conn) bool {
	if c.served == 0 {
		return false
	}
	w.tally.Closes.note(&w.tally.Closes.InFlight, c.served)
	return w.ends.limited(c.served, w.queue(i)[c.head].sent-c.since)
}

// ends is what is known of the connections that the server ended.
type ends struct {
	idleAfter uint32 // responses of the last one that was idle
	idleNs    int64  // and how long it had been
	cutAfter  uint32 // responses of the last one with requests on the wire
}

// limited reports whether one more with requests on the wire, after so many responses and that much
// time without a request, had come to a limit of the server's: a number of responses, or a time
// that an idle one stays open, which the requests then crossed.
func (e *ends) limited(served uint32, idleNs int64) bool {
	before := e.cutAfter
	e.cutAfter = served
	return before == 0 || served == before || served == e.idleAfter || e.idleNs >= idleLeast && idleNs >= e.idleNs/10*9
}

// idleLeast is the shortest idle time that a server may close a connection for. Less passes between
// a last response and its end.
const idleLeast = int64(50 * time.Millisecond)
