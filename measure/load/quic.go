package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ceiling/internal/quicconn"
	"ceiling/internal/sys"
)

// quicWorker is an HTTP/3 worker. quic-go, which implements the protocol, needs a goroutine for
// each thing that waits: so each request in flight has one, its asker, and the worker's own
// goroutine does the accounting. They communicate through channels: orders to the askers, events
// back. That costs an order of magnitude more than the ring's worker, and counts as the generator's
// cost.
//
// The embedded worker has the counts and the schedule; its ring and its connections are unused.
type quicWorker struct {
	worker   worker
	config   *tls.Config
	to       []netip.AddrPort // in turn
	from     []netip.Addr
	requests []quicRequest // by target
	peers    []quicPeer
	slots    quicSlots // pipelining of them for each peer
	idle     []int     // open loop: slots without a request, first in first out
	events   chan quicEvent
	running  sync.WaitGroup // goroutines of connections and askers
	ctx      context.Context
	cancel   context.CancelFunc
	pacer    chan int64 // when to wake, on the monotonic clock
	paced    bool       // it was asked to
	cpu      quicCPU
	Handshakes
}

// quicCPU is the process's CPU time at the last reading, and at the opening of the window.
type quicCPU struct{ lastNs, lastAtNs, windowNs int64 }

// quicRequest is one request of the mix.
type quicRequest struct {
	header *http.Request // without its body
	whole  *http.Request // with the body, if there is one
	body   []byte
}

// States of a quicPeer.
const (
	peerClosed  = iota // to be opened, see reopenAt
	peerDialing        // a handshake is under way
	peerOpen
	peerEnding // takes no more requests: it closes once the last has ended
)

// quicPeer is one connection; reopened, it keeps its number and takes the next generation. The
// worker's goroutine owns it.
type quicPeer struct {
	conn       *quicconn.Conn
	state      uint8
	attempted  bool
	failures   uint8
	generation uint32
	busy       int // askers at work
	served     uint32
	doneNs     int64  // of its last response
	used       bool   // NewConnections: it has had its request
	next       uint32 // position in the script
	reopenAt   int64
	readBytes  uint64 // as the tallies have them
	wroteBytes uint64
}

// States of a quicSlot.
const (
	slotFree    = iota // without a request
	slotWaiting        // with a request that no asker has yet
	slotAsking         // an asker has it
)

// quicSlot holds one request at a time. The worker's goroutine owns it, except for asked.
type quicSlot struct {
	state   uint8
	again   bool // its request was sent before
	counted bool // as sent
	parked  bool // free for lack of a request, or of a connection
	target  uint32
	dueNs   int64
	orderNs int64
	orders  chan uint32 // of targets, to the asker; nil: the connection is closed
	asked   *quicPending
}

// quicSlots are those of a worker, connection by connection.
type quicSlots []quicSlot

// quicPending is what an asker publishes about its current request.
type quicPending struct {
	sentNs  atomic.Int64 // 0: not yet; revoked: never
	expired atomic.Bool
	stop    atomic.Pointer[func()] // cancels the stream
}

// revoked keeps a request that has not left by the end of the run from leaving: the server would
// have one more than was counted.
const revoked = -1

// leave marks the request as sent, or returns false if it was revoked.
func (q *quicPending) leave(atNs int64) bool { return q.sentNs.CompareAndSwap(0, atNs) }

// Kinds of quicEvent.
const (
	quicDialed = iota
	quicClosed // by the server, or by an error
	quicAnswered
	quicPaced
)

// quicEvent goes from another goroutine to the worker's.
type quicEvent struct {
	kind       uint8
	peer       int
	generation uint32
	slot       int
	status     int
	sentNs     int64
	doneNs     int64
	expired    bool
	first      int64     // when the response head came
	events     *arriving // the server-sent events of the response; nil: it has none
	head       []byte    // beginning of an unexpected response's body
	against    string    // the condition that the response does not satisfy, and what it has instead
	found      string
	location   string // of a redirect
	conn       *quicconn.Conn
	err        error
}

// newQUICWorker sets up an HTTP/3 worker.
func newQUICWorker(s *shared, id, first, count int, free chan *Tally, out chan<- delivery) (*quicWorker, error) {
	var to []netip.AddrPort
	for i := range s.To.Addresses {
		at, err := s.To.Addresses[i].AddrPort()
		if err != nil {
			return nil, err
		}
		to = append(to, at)
	}
	w := &quicWorker{
		worker: worker{
			shared: s, id: id, number: first, pipelining: s.Pipelining, tally: newTally(len(s.Mix)), left: &Waiting{}, free: free, out: out,
			openLoop: !s.Rate.IsZero(), quota: -1, granted: -1, tickNs: maxTime, nextDue: maxTime, windowNs: maxTime, endNs: maxTime,
		},
		config: quicconn.ClientConfig(s.TLS), to: to, from: s.SourceIPs,
		peers: make([]quicPeer, count), slots: make(quicSlots, count*s.Pipelining),
		events: make(chan quicEvent, count*(s.Pipelining+2)+1), pacer: make(chan int64, 1),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.worker.tally.Warmup = true
	if !w.worker.openLoop && s.Requests > 0 {
		own := s.Share.Part(s.Requests)
		w.worker.granted = int64(own / uint64(s.Threads))
		if uint64(id) < own%uint64(s.Threads) {
			w.worker.granted++
		}
	}
	for i := range w.peers {
		number := s.Share.Number(uint64(first + i))
		w.peers[i].next = s.script.step(0, int(mix(s.Seed+number)%uint64(len(s.script.target))))
		w.peers[i].reopenAt = int64(s.ConnectRamp) / int64(s.Connections) * int64(number)
	}
	for i := range w.slots {
		w.slots[i].parked = true
	}
	for i := range s.Mix {
		r, err := newQUICRequest(s.Mix[i].Bytes)
		if err != nil {
			return nil, err
		}
		w.requests = append(w.requests, r)
	}
	return w, quicconn.Quiet()
}

// newQUICRequest parses a request in HTTP/1.1 form.
func newQUICRequest(b []byte) (quicRequest, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return quicRequest{}, fmt.Errorf("load: a request for HTTP/3: %w", err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return quicRequest{}, fmt.Errorf("load: a request for HTTP/3: %w", err)
	}
	for _, field := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"} {
		r.Header.Del(field) // RFC 9114, section 4.2
	}
	r.RequestURI, r.URL.Scheme, r.URL.Host = "", "https", r.Host
	if _, given := r.Header["User-Agent"]; !given {
		r.Header["User-Agent"] = nil // keeps out the library's default
	}
	r.Body, r.ContentLength, r.TransferEncoding = nil, int64(len(body)), nil
	q := quicRequest{header: r, body: body}
	if len(body) > 0 {
		q.whole = r
	}
	return q, nil
}

// startQUIC is the goroutine of an HTTP/3 worker.
func (r *coordinator) startQUIC(id, first, count int, free chan *Tally) {
	w, err := newQUICWorker(r.shared, id, first, count, free, r.out)
	over := delivery{worker: id, over: true}
	if err == nil {
		w.loop()
		w.end()
		over.tally, over.report = w.worker.tally, w.report()
	}
	r.out <- over
	if err == nil {
		drainQUIC(w)
		w.shut()
	}
	r.out <- delivery{worker: id, last: true, err: err}
}

// batchMost events are handled between two clock readings.
const batchMost = 256

// loop is the worker's event loop: wait for an event, read the clock, handle.
func (w *quicWorker) loop() {
	if w.worker.openLoop {
		w.running.Go(w.pace)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		w.dial()
		w.order()
		timer.Reset(time.Duration(max(w.until()-w.worker.clock(), 0)))
		w.worker.tally.Waits++
		select {
		case e := <-w.events:
			w.worker.now = w.worker.clock()
			if w.turn() {
				tooLate(e)
				return
			}
			w.batch(e)
		case <-timer.C:
			w.worker.now = w.worker.clock()
			if w.turn() {
				return
			}
		}
		if w.worker.now >= w.worker.expireNs {
			w.expire()
		}
		if w.worker.inFlight == 0 && w.worker.phase >= measuring && w.finished() {
			return
		}
	}
}

// batch handles an event and those already queued.
func (w *quicWorker) batch(e quicEvent) {
	before := w.worker.tally.Completed
	w.handle(&e)
	for range batchMost {
		select {
		case e := <-w.events:
			w.handle(&e)
			continue
		default:
		}
		break
	}
	w.worker.tally.batch(w.worker.clock()-w.worker.now, before)
}

// until returns when the loop must continue without an event.
func (w *quicWorker) until() int64 {
	until := min(w.worker.tickNs, w.worker.expireNs, w.worker.now+int64(100*time.Millisecond))
	if w.worker.phase < starting {
		until = min(until, w.worker.now+int64(2*time.Millisecond))
		if start := w.worker.shared.startNs.Load(); start > 0 {
			until = min(until, start)
		}
	}
	switch w.worker.phase {
	case measuring:
		until = min(until, w.worker.endNs)
	case draining:
		until = min(until, w.worker.drainNs)
	}
	return min(until, w.worker.dialNs)
}

// pace wakes the loop when a request of an open loop is due: Go's timers are only good to a
// millisecond.
func (w *quicWorker) pace() {
	for {
		select {
		case at := <-w.pacer:
			for wait := at - sys.MonotonicNs(); wait > 0; wait = at - sys.MonotonicNs() {
				sys.Nanosleep(wait) // a signal may end it early
			}
			w.events <- quicEvent{kind: quicPaced}
		case <-w.ctx.Done():
			return
		}
	}
}

// order hands requests to askers: in an open loop those that are due.
func (w *quicWorker) order() {
	if !w.worker.openLoop || w.worker.phase < starting {
		return
	}
	w.worker.now = w.worker.clock()
	for w.worker.nextDue <= w.worker.now && len(w.idle) > 0 {
		k := w.idle[0]
		w.idle = w.idle[1:]
		s := &w.slots[k]
		if w.peers[k/w.worker.pipelining].state != peerOpen {
			s.parked = true
			continue
		}
		w.supplyDue(k, w.worker.nextDue)
		w.ask(k)
		w.worker.arrivals.next()
		w.worker.advance()
	}
	if w.worker.nextDue < maxTime && len(w.idle) > 0 && !w.paced {
		w.paced = true
		w.pacer <- sys.MonotonicNs() + min(max(w.worker.nextDue-w.worker.clock(), 0), int64(time.Millisecond)*50)
	}
}

// turn handles the time boundaries, as worker.turn does.
func (w *quicWorker) turn() (done bool) {
	if w.worker.phase == opening && w.worker.attempted == len(w.peers) {
		w.worker.ready()
	}
	if start := w.worker.shared.startNs.Load(); w.worker.phase == waiting && start > 0 && w.worker.now >= start {
		w.begin(start)
	}
	if w.worker.phase >= starting && w.worker.phase < measuring && w.worker.now >= w.worker.windowNs {
		w.openWindow()
	}
	if !w.worker.openLoop && w.worker.now >= w.worker.endNs {
		w.slots.revoke() // the last tally counts what has left
	}
	if w.worker.now >= w.worker.tickNs {
		end := min(w.worker.tickNs, w.worker.endNs)
		for w.worker.tickNs <= w.worker.now {
			w.worker.tickNs += int64(w.worker.shared.Interval)
		}
		select {
		case next := <-w.worker.free:
			w.handOver(end, next)
		default:
		}
	}
	if w.worker.shared.stop.Load() {
		w.worker.lastNs = w.worker.now
		return true
	}
	return w.worker.phase >= measuring && w.finished()
}

// begin starts the load.
func (w *quicWorker) begin(start int64) {
	w.worker.phase, w.worker.downNs, w.worker.quota = warming, w.worker.now, w.worker.granted
	w.worker.windowNs = start + int64(w.worker.shared.Warmup)
	w.worker.endNs = maxTime
	if w.worker.shared.Duration > 0 {
		w.worker.endNs = w.worker.windowNs + int64(w.worker.shared.Duration)
		w.worker.drainNs = w.worker.endNs + int64(w.worker.shared.Drain)
	}
	w.worker.tickNs = w.worker.windowNs - (int64(w.worker.shared.Warmup)-1)/int64(w.worker.shared.Interval)*int64(w.worker.shared.Interval)
	w.worker.tally.StartNs = start
	w.handOver(start, w.worker.spare())
	if w.worker.shared.Warmup == 0 {
		w.openWindow()
	}
	w.worker.firstDueNs = start
	if w.worker.openLoop && w.worker.phase < measuring {
		w.worker.warmSchedule(start)
	}
	w.wakeAll()
	if w.worker.phase == measuring {
		w.worker.carriedNs = w.slots.waited(w.worker.windowNs)
	}
}

// openWindow ends the warm-up.
func (w *quicWorker) openWindow() {
	if w.worker.windowNs > w.worker.tally.StartNs {
		w.handOver(w.worker.windowNs, w.worker.spare())
	}
	w.worker.tickNs = w.worker.windowNs + int64(w.worker.shared.Interval)
	w.worker.phase = measuring
	w.worker.tally.Warmup = false
	w.worker.carried, w.worker.carriedNs = w.worker.inFlight, w.slots.waited(w.worker.windowNs)
	w.worker.doneNs = w.worker.windowNs
	w.cpu.windowNs = cpuUsed(&w.worker.shared.Config)
	if w.worker.openLoop {
		w.worker.countFromNs = w.worker.windowNs
		w.worker.mainSchedule()
	}
}

// finished reports whether the work is done, as worker.finished does.
func (w *quicWorker) finished() bool {
	if w.worker.now >= w.worker.endNs && w.worker.phase == measuring {
		w.worker.phase = draining
		w.worker.lastNs = w.worker.endNs
		if !w.worker.openLoop {
			return true
		}
		w.worker.lateAtEnd = w.worker.behind() + w.slots.unsent()
		if w.worker.endNs > w.worker.tally.StartNs {
			w.handOver(w.worker.endNs, w.worker.spare())
		}
		w.worker.tickNs = maxTime
	}
	answered := w.worker.inFlight == 0 && w.worker.quota <= 0 && (!w.worker.openLoop || w.worker.nextDue == maxTime) && w.slots.unsent() == 0
	switch {
	case w.worker.phase == draining:
		w.worker.lastNs = max(w.worker.endNs, w.worker.doneNs, w.worker.sentNs, w.counting())
		return answered || w.worker.now >= w.worker.drainNs
	case w.worker.shared.Requests > 0 && answered:
		w.worker.lastNs = max(w.worker.windowNs, w.worker.doneNs, w.counting())
		return true
	case w.worker.shared.Duration == 0 && w.worker.connected == 0 &&
		w.worker.now-w.worker.downNs > int64(w.worker.shared.Timeout)+2*maxBackoffNs:
		w.worker.lastNs = w.worker.now
		return true
	}
	return false
}

// counting returns the earliest end of the current tally: a response read before the end of the
// last one may have been counted after it.
func (w *quicWorker) counting() int64 {
	if t := w.worker.tally; t.Completed+t.Failed+t.Sent > 0 {
		return t.StartNs + 1
	}
	return 0
}

// handOver delivers the tally up to endNs, and continues with next.
func (w *quicWorker) handOver(endNs int64, next *Tally) {
	w.close(endNs)
	w.worker.deliver(endNs, next)
}

// close fills in what is known at the end of the tally. It divides the process's CPU time among the
// workers, since its threads serve all of them.
func (w *quicWorker) close(endNs int64) {
	t := w.worker.tally
	if endNs > t.StartNs { // counts need an interval to be counted in
		w.countSent()
		for i := range w.peers {
			w.peers[i].countBytes(t)
		}
	}
	t.EndNs = max(endNs, t.StartNs)
	t.InFlight, t.Connected = uint64(w.worker.inFlight), w.worker.connected
	if w.worker.phase >= starting && w.worker.phase < draining {
		t.Behind = w.worker.behindNow()
	}
	cpu, now := cpuUsed(&w.worker.shared.Config), w.worker.clock()
	t.CPUNs = cpu - w.cpu.lastNs
	if past := now - w.cpu.lastAtNs; past > 0 {
		t.Busy = busyFor(&w.worker.shared.Config, t.CPUNs, past)
	}
	w.cpu.lastNs, w.cpu.lastAtNs = cpu, now
}

// end finishes the window's counts.
func (w *quicWorker) end() {
	if w.worker.lastNs == 0 {
		w.worker.lastNs = w.worker.now
	}
	w.slots.revoke()
	w.close(w.worker.lastNs)
	w.worker.tally.Behind = w.worker.behind()
}

// report returns this worker's report of the window.
func (w *quicWorker) report() *WorkerReport {
	r := &WorkerReport{
		Thread: os.Getpid(), Connections: len(w.peers), Opened: w.worker.opened, RunDelay: -1, ring: ringFacts{engine: EngineQUIC, why: "HTTP/3 is by quic-go"},
		firstNs: w.worker.firstNs, firstDueNs: w.worker.firstDueNs, responses: w.worker.seen.first,
		handshakes: &w.Handshakes,
	}
	if w.worker.phase < measuring {
		return r
	}
	r.carried, r.inFlight, r.lateAtEnd = uint64(w.worker.carried), uint64(w.worker.inFlight), w.worker.lateAtEnd
	switch {
	case w.worker.openLoop:
		behind := w.worker.behind()
		r.asked, r.unsent = w.worker.arrivals.passed(uint64(w.worker.id))+behind, behind+w.slots.unsent()
	case w.worker.quota >= 0:
		r.asked, r.unsent = uint64(w.worker.granted), uint64(w.worker.quota)+w.slots.unsent()
	}
	if !w.worker.openLoop {
		r.atEdges.Edges = &Edges{w.worker.carriedNs, w.slots.waited(w.worker.lastNs)}
	}
	w.slots.unanswered(w.worker.left.of(&w.worker))
	w.worker.addBehind(w.worker.left, w.worker.waitedUntil())
	r.atEdges.Waiting = w.worker.left
	if r.windowNs = w.worker.lastNs - w.worker.windowNs; r.windowNs > 0 {
		r.Busy = busyFor(&w.worker.shared.Config, cpuUsed(&w.worker.shared.Config)-w.cpu.windowNs, r.windowNs)
	}
	return r
}

// EngineQUIC names the engine of HTTP/3.
const EngineQUIC = "quic-go"

// unanswered calls f with each request that a slot has.
func (list quicSlots) unanswered(f func(outstanding)) {
	for i := range list {
		s := &list[i]
		r := outstanding{target: int(s.target), due: s.dueNs}
		switch {
		case s.state == slotFree:
			continue
		case s.state == slotAsking:
			r.sent = max(s.asked.sentNs.Load(), 0)
		case s.again:
			r.sent = s.dueNs
		}
		f(r)
	}
}

// waited returns how long the requests of all slots have waited at atNs, in sum.
func (list quicSlots) waited(atNs int64) (sumNs int64) {
	list.unanswered(func(r outstanding) { sumNs += atNs - r.due })
	return sumNs
}

// revoke keeps what has not left from leaving.
func (list quicSlots) revoke() {
	for i := range list {
		if s := &list[i]; s.state == slotAsking {
			s.asked.sentNs.CompareAndSwap(0, revoked)
		}
	}
}

// unsent counts the requests assigned to a slot that have not left.
func (list quicSlots) unsent() (n uint64) {
	for i := range list {
		if s := &list[i]; s.state != slotFree && !s.counted && !s.again {
			n++
		}
	}
	return n
}

// countSent counts the requests that have left and have no response yet.
func (w *quicWorker) countSent() {
	for i := range w.slots {
		if s := &w.slots[i]; s.state == slotAsking && !s.counted {
			if at := s.asked.sentNs.Load(); at > 0 {
				w.countSentSlot(s, at)
			}
		}
	}
}

// countSentSlot counts a request that left.
func (w *quicWorker) countSentSlot(s *quicSlot, atNs int64) {
	s.counted = true
	w.worker.sentNs = max(w.worker.sentNs, atNs)
	if w.worker.firstNs == 0 || atNs < w.worker.firstNs {
		w.worker.firstNs = atNs
	}
	if s.again {
		w.worker.tally.Resent++
		return
	}
	w.worker.tally.Sent++
	w.worker.inFlight++
	if s.dueNs >= w.worker.countFromNs {
		w.worker.tally.Lag.Record(max(atNs-s.dueNs, 0))
	}
}

// countBytes counts a connection's bytes, above UDP.
func (p *quicPeer) countBytes(t *Tally) {
	if p.conn == nil {
		return
	}
	n := p.conn.QUIC.ConnectionStats()
	t.Read += n.BytesReceived - p.readBytes
	t.Written += n.BytesSent - p.wroteBytes
	p.readBytes, p.wroteBytes = n.BytesReceived, n.BytesSent
}
