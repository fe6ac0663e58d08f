package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"ceiling/internal/condition"
	"ceiling/internal/quicconn"
)

// dial opens closed connections that may be retried, within bounds.
func (w *quicWorker) dial() {
	w.worker.dialNs = maxTime
	if w.worker.pending >= maxPending || w.worker.shared.stop.Load() {
		return
	}
	now := w.worker.clock()
	for i := range w.peers {
		p := &w.peers[i]
		if p.state != peerClosed || p.busy > 0 || w.unneededPeer(i) {
			continue
		}
		if p.reopenAt > now || w.worker.pending >= maxPending {
			w.worker.dialNs = min(w.worker.dialNs, max(p.reopenAt, now+int64(time.Millisecond)))
			continue
		}
		w.connect(i, p)
	}
}

// unneededPeer reports whether a new connection would have no request.
func (w *quicWorker) unneededPeer(i int) bool {
	if w.worker.shared.NewConnections == 0 || w.worker.phase < starting || w.worker.quota != 0 {
		return false
	}
	return !slices.ContainsFunc(w.slotsOf(i), func(s quicSlot) bool { return s.state == slotWaiting })
}

func (w *quicWorker) slotsOf(i int) []quicSlot {
	return w.slots[i*w.worker.pipelining : (i+1)*w.worker.pipelining]
}

func (w *quicWorker) connect(i int, p *quicPeer) {
	p.state = peerDialing
	p.generation++
	w.worker.pending++
	w.worker.opened++
	var from netip.Addr
	if len(w.from) > 0 {
		from = w.from[(w.worker.number+i)%len(w.from)]
	}
	generation := p.generation
	w.running.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, w.worker.shared.Timeout)
		defer cancel()
		e := quicEvent{kind: quicDialed, peer: i, generation: generation, sentNs: w.worker.clock()}
		e.conn, e.err = quicconn.Dial(ctx, w.to[(w.worker.number+i)%len(w.to)], from, w.config)
		e.doneNs = w.worker.clock()
		w.events <- e
		if e.err != nil {
			return
		}
		over := e.conn.QUIC.Context()
		<-over.Done()
		w.events <- quicEvent{kind: quicClosed, peer: i, generation: generation, err: context.Cause(over)}
	})
}

// handle handles one event. It drops those of an earlier connection except for responses: a
// connection is not reopened before its askers are done.
func (w *quicWorker) handle(e *quicEvent) {
	switch e.kind {
	case quicPaced:
		w.paced = false
	case quicDialed:
		w.dialed(e)
	case quicClosed:
		if p := &w.peers[e.peer]; e.generation == p.generation && (p.state == peerOpen || p.state == peerEnding) {
			w.closedBy(e.peer, p, e.err)
		}
	case quicAnswered:
		w.replied(e)
	}
}

func (w *quicWorker) dialed(e *quicEvent) {
	p := &w.peers[e.peer]
	w.worker.pending--
	if !p.attempted {
		p.attempted = true
		w.worker.attempted++
	}
	if e.err != nil {
		w.dialFailed(e.peer, p, e.err)
		return
	}
	took := &w.Setup
	if w.worker.phase >= measuring {
		took = &w.Handshakes.Window
	}
	took.Record(e.doneNs - e.sentNs)
	w.Agreed = e.conn.Agreed()
	p.conn, p.state, p.served, p.used, p.readBytes, p.wroteBytes = e.conn, peerOpen, 0, false, 0, 0
	w.worker.connected++
	for k := e.peer * w.worker.pipelining; k < (e.peer+1)*w.worker.pipelining; k++ {
		s := &w.slots[k]
		s.orders, s.asked = make(chan uint32, 1), &quicPending{}
		a := &quicExchange{
			shared: w.worker.shared, ctx: w.ctx, requests: w.requests, events: w.events, conn: e.conn, shown: s.asked,
			from: quicEvent{kind: quicAnswered, peer: e.peer, generation: e.generation, slot: k},
		}
		orders := s.orders
		w.running.Go(func() { a.all(orders) })
		w.wakeSlot(k)
	}
}

func (w *quicWorker) dialFailed(i int, p *quicPeer, err error) {
	p.state, p.failures = peerClosed, min(p.failures+1, 9)
	p.reopenAt = w.worker.now + backoffNs<<(p.failures-1)
	phase := PhaseConnect
	var transport *quic.TransportError
	if errors.As(err, &transport) && transport.ErrorCode.IsCryptoError() {
		phase = PhaseTLS
	}
	w.worker.tally.Faults[Fault{phase, quicconn.Explain(err)}]++
	list := w.slotsOf(i)
	for k := range list {
		s := &list[k]
		switch {
		case s.state == slotWaiting && s.again: // the server refused it, and is gone
			w.failSlot(s, PhaseResponse, causeClosed, w.worker.now, 0)
			w.renewSlot(i*w.worker.pipelining+k, w.worker.now)
		case s.state == slotWaiting && w.worker.quota >= 0 && !w.worker.openLoop:
			w.worker.quota++ // for the others to send
			s.state, s.parked = slotFree, true
		}
	}
}

// closedBy handles the end of a connection. Its askers' requests come back as their replies.
func (w *quicWorker) closedBy(i int, p *quicPeer, err error) {
	if p.state == peerOpen && p.busy == 0 && w.worker.shared.NewConnections == 0 {
		if p.served > 0 {
			w.worker.tally.Closes.noteIdle(p.served, w.worker.now-p.doneNs)
		}
		if !graceful(err) {
			w.worker.tally.Faults[Fault{PhaseIdle, quicconn.Explain(err)}]++
		}
	}
	w.hangUpPeer(i, p)
}

// graceful reports whether an idle connection ended in order: by the server, or because either side
// let it time out (RFC 9000, section 10).
func graceful(err error) bool {
	var application *quic.ApplicationError
	var transport *quic.TransportError
	var idle *quic.IdleTimeoutError
	return errors.As(err, &application) && application.ErrorCode == quic.ApplicationErrorCode(http3.ErrCodeNoError) ||
		errors.As(err, &transport) && transport.ErrorCode == quic.NoError || errors.As(err, &idle)
}

// hangUpPeer closes a connection; it will be reopened.
func (w *quicWorker) hangUpPeer(i int, p *quicPeer) {
	p.countBytes(w.worker.tally)
	_ = p.conn.Close() // it may have ended
	if w.worker.connected--; w.worker.connected == 0 {
		w.worker.downNs = w.worker.now
	}
	list := w.slotsOf(i)
	for k := range list {
		close(list[k].orders)
		list[k].orders = nil
	}
	p.failures++
	if p.served > 0 {
		p.failures = 0
	}
	p.failures = min(p.failures, 9)
	p.conn, p.state, p.reopenAt = nil, peerClosed, w.worker.now
	if p.failures > 0 {
		p.reopenAt += backoffNs << (p.failures - 1)
	}
	if w.worker.phase >= starting && w.worker.shared.NewConnections == 0 {
		w.worker.tally.Reconnects++
	}
}

// wakeAll gives every slot its first request.
func (w *quicWorker) wakeAll() {
	for k := range w.slots {
		w.wakeSlot(k)
	}
}

// wakeSlot gives a slot a request if its connection is established, or continues with the one it
// has.
func (w *quicWorker) wakeSlot(k int) {
	s := &w.slots[k]
	switch {
	case w.worker.phase < starting:
	case s.state == slotWaiting:
		w.ask(k)
	case s.state != slotFree || !s.parked:
	case w.worker.openLoop:
		if w.peers[k/w.worker.pipelining].state == peerOpen {
			s.parked = false
			w.idle = append(w.idle, k)
		}
	case w.worker.quota >= 0 && w.peers[k/w.worker.pipelining].state != peerOpen: // others may use its share
	default:
		w.supplySlot(k, w.startOr(w.worker.now))
	}
}

// startOr returns the start of the load until the first requests are handed out, afterwards now.
func (w *quicWorker) startOr(now int64) int64 {
	if w.worker.firstNs == 0 && w.worker.phase == warming {
		return w.worker.shared.startNs.Load()
	}
	return now
}

// supplySlot gives a free slot of a closed loop a request, if any is left.
func (w *quicWorker) supplySlot(k int, dueNs int64) {
	s := &w.slots[k]
	s.parked = w.worker.quota == 0
	if s.parked {
		return
	}
	if w.worker.quota > 0 {
		w.worker.quota--
	}
	w.supplyDue(k, dueNs)
	w.ask(k)
}

func (w *quicWorker) supplyDue(k int, dueNs int64) {
	s, p := &w.slots[k], &w.peers[k/w.worker.pipelining]
	s.state, s.again, s.counted, s.parked, s.dueNs = slotWaiting, false, false, false, dueNs
	s.target = w.worker.shared.script.target[p.next]
	p.next = w.worker.shared.script.step(p.next, 1)
}

// ask hands a waiting request to the slot's asker, if its connection may take it.
func (w *quicWorker) ask(k int) {
	s, p := &w.slots[k], &w.peers[k/w.worker.pipelining]
	if s.state != slotWaiting || p.state != peerOpen || w.worker.shared.NewConnections > 0 && p.used {
		return
	}
	p.used = true
	p.busy++
	s.state, s.counted, s.orderNs = slotAsking, false, w.worker.now
	s.asked.sentNs.Store(0)
	s.asked.expired.Store(false)
	s.orders <- s.target
}

// renewSlot gives a slot its next request: in a closed loop it is due at once.
func (w *quicWorker) renewSlot(k int, doneNs int64) {
	s := &w.slots[k]
	s.state = slotFree
	if w.worker.openLoop {
		s.parked = true
		w.wakeSlot(k)
		return
	}
	if w.worker.quota >= 0 && w.worker.phase < measuring {
		w.worker.quota++
	}
	w.supplySlot(k, doneNs)
}

// replied handles the outcome of a request.
func (w *quicWorker) replied(e *quicEvent) {
	if !w.worker.openLoop && e.doneNs > w.worker.endNs {
		return // still in flight when the window closed
	}
	s, p := &w.slots[e.slot], &w.peers[e.peer]
	p.busy--
	if !s.counted && e.sentNs != 0 {
		w.countSentSlot(s, e.sentNs)
	}
	switch {
	case e.err == nil:
		w.completeSlot(s, p, e)
		w.renewAfter(e, p)
	case e.sentNs == 0 && !(e.expired && errors.Is(e.err, context.Canceled)), quicconn.Rejected(e.err) && !e.expired:
		// It never left, or the server has not processed it.
		s.state, s.again = slotWaiting, s.again || e.sentNs != 0
		w.retire(e.peer, p)
	default:
		cause := quicconn.Explain(e.err)
		if e.expired {
			cause = CauseTimeout
		}
		if e.sentNs == 0 { // no stream was granted in time
			w.countSentSlot(s, e.doneNs)
			cause = causeNoStream
		}
		w.failSlot(s, PhaseResponse, cause, e.doneNs, e.sentNs)
		w.renewAfter(e, p)
	}
	if p.state == peerEnding && p.busy == 0 {
		w.hangUpPeer(e.peer, p)
	}
}

// causeNoStream is a request for which the server granted no stream within the timeout.
const causeNoStream = "no stream granted (MAX_STREAMS)"

// renewAfter frees the slot of a response, whose connection may end with it.
func (w *quicWorker) renewAfter(e *quicEvent, p *quicPeer) {
	if w.worker.shared.NewConnections > 0 {
		w.retire(e.peer, p)
	}
	w.renewSlot(e.slot, e.doneNs)
}

// retire ends a connection once its requests have ended.
func (w *quicWorker) retire(i int, p *quicPeer) {
	if p.state != peerOpen {
		return
	}
	if w.worker.shared.NewConnections == 0 {
		w.worker.tally.Closes.note(&w.worker.tally.Closes.Announced, p.served)
	}
	p.state = peerEnding
	if p.busy == 0 {
		w.hangUpPeer(i, p)
	}
}

func (w *quicWorker) completeSlot(s *quicSlot, p *quicPeer, e *quicEvent) {
	t := w.worker.tally
	t.Completed++
	t.Statuses[e.status]++
	if w.worker.shared.Expect.Unexpected[e.status] {
		t.Bad++
		if w.worker.seen.lacksError(e.status, "") {
			w.worker.seen.first.Errors = append(w.worker.seen.first.Errors, ErrorResponse{Status: e.status, Line: pageText(e.head)})
		}
	} else if e.against != "" {
		w.worker.wrong(e.status, e.against, e.found)
	}
	w.worker.seen.keepRedirect(e.status, []byte(e.location))
	p.served++
	p.doneNs = e.doneNs
	w.worker.inFlight--
	w.worker.doneNs = max(w.worker.doneNs, e.doneNs)
	counted := s.dueNs >= w.worker.countFromNs
	if counted {
		t.Response.Record(e.doneNs - s.dueNs)
		t.Early.took(&t.Service, e.doneNs-e.sentNs, e.first-e.sentNs, 1)
		e.events.ends(t, e.sentNs)
	}
	if t.ByTarget != nil {
		b := &t.ByTarget[s.target]
		b.Completed++
		b.Statuses[e.status]++
		if counted {
			b.Response.Record(e.doneNs - s.dueNs)
		}
	}
}

// failSlot ends a sent request, with its cause.
func (w *quicWorker) failSlot(s *quicSlot, phase, cause string, doneNs, sentNs int64) {
	t := w.worker.tally
	t.Failed++
	t.Faults[Fault{phase, cause}]++
	w.worker.inFlight--
	w.worker.doneNs = max(w.worker.doneNs, doneNs)
	if sentNs == 0 {
		sentNs = s.dueNs
	}
	if s.dueNs >= w.worker.countFromNs {
		t.Response.Record(doneNs - s.dueNs)
		t.Early.took(&t.Service, doneNs-sentNs, doneNs-sentNs, 1)
	}
	if t.ByTarget != nil {
		t.ByTarget[s.target].Failed++
	}
}

// expire gives up requests that timed out, as worker.expire does, and gives slots without a request
// what others returned.
func (w *quicWorker) expire() {
	limit := int64(w.worker.shared.Timeout)
	w.worker.expireNs = w.worker.now + min(max(limit/10, 1e6), 1e8)
	for k := range w.slots {
		s := &w.slots[k]
		switch s.state {
		case slotAsking:
			since := s.asked.sentNs.Load()
			if since == 0 {
				since = s.orderNs
			}
			if w.worker.now-since <= limit || s.asked.expired.Load() {
				continue
			}
			s.asked.expired.Store(true)
			if stop := s.asked.stop.Load(); stop != nil {
				(*stop)()
			}
		case slotFree:
			if w.worker.quota > 0 && s.parked && w.peers[k/w.worker.pipelining].state == peerOpen {
				w.wakeSlot(k)
			}
		}
	}
}

// tooLate handles an event that arrives after the run.
func tooLate(e quicEvent) {
	if e.kind == quicDialed && e.conn != nil {
		_ = e.conn.Close() // nothing was asked on it
	}
}

// drainQUIC waits for the responses to what is in flight, as drain does.
func drainQUIC(w *quicWorker) {
	if w.worker.openLoop || w.worker.phase != draining {
		return
	}
	left := 0
	w.slots.unanswered(func(r outstanding) {
		if r.sent > 0 {
			left++
		}
	})
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for left > 0 && w.worker.clock() < w.worker.drainNs && !w.worker.shared.stop.Load() {
		select {
		case e := <-w.events:
			if e.kind == quicAnswered && e.sentNs > 0 {
				left--
			}
			tooLate(e)
		case <-look.C:
		}
	}
}

// shut ends all connections and waits for every goroutine.
func (w *quicWorker) shut() {
	w.cancel()
	w.worker.tally = newTally(len(w.worker.shared.Mix)) // the last one has left
	for i := range w.peers {
		if p := &w.peers[i]; p.conn != nil {
			w.hangUpPeer(i, p)
		}
	}
	ended := make(chan struct{})
	go func() {
		w.running.Wait()
		close(ended)
	}()
	for {
		select {
		case e := <-w.events:
			tooLate(e)
		case <-ended:
			return
		}
	}
}

// readMost is how many bytes of a response are read at a time.
const readMost = 32 << 10

// quicExchange is the goroutine of one slot, for the life of its connection.
type quicExchange struct {
	*shared
	ctx      context.Context
	requests []quicRequest
	events   chan<- quicEvent
	conn     *quicconn.Conn
	shown    *quicPending
	from     quicEvent
	buffer   [readMost]byte
}

func (a *quicExchange) clock() int64 { return int64(time.Since(a.base)) }

// all does the requests, one after the other, until the connection closes.
func (a *quicExchange) all(orders <-chan uint32) {
	for target := range orders {
		e := a.from
		e.err = a.exchange(&e, &a.requests[target])
		a.shown.stop.Store(nil)
		e.doneNs, e.sentNs, e.expired = a.clock(), a.shown.sentNs.Load(), a.shown.expired.Load()
		a.events <- e
	}
}

// exchange does one request, and reads its response to the end.
func (a *quicExchange) exchange(e *quicEvent, r *quicRequest) error {
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	stop := func() { cancel() }
	a.shown.stop.Store(&stop)
	if a.shown.expired.Load() {
		return context.Canceled
	}
	if r.whole != nil {
		return a.exchangeBody(ctx, e, r)
	}
	stream, err := a.conn.HTTP.OpenRequestStream(ctx)
	if err != nil {
		return err
	}
	quit := func() {
		stream.CancelRead(quic.StreamErrorCode(http3.ErrCodeRequestCanceled))
		stream.CancelWrite(quic.StreamErrorCode(http3.ErrCodeRequestCanceled))
	}
	a.shown.stop.Store(&quit)
	if a.shown.expired.Load() {
		quit()
	}
	if !a.shown.leave(a.clock()) {
		quit()
		return context.Canceled
	}
	if err := stream.SendRequestHeader(r.header); err != nil {
		return err
	}
	// Close fails on a stream whose sending side is over, which a server may request once it has
	// answered; the response counts all the same (RFC 9114, section 4.1).
	_ = stream.Close()
	for {
		answer, err := stream.ReadResponse()
		if err != nil {
			quit()
			return err
		}
		if answer.StatusCode >= 200 {
			e.status, e.location = answer.StatusCode, answer.Header.Get("Location")
			return a.drain(e, answer)
		}
	}
}

// exchangeBody does a request with a body, for which the library has only one call.
func (a *quicExchange) exchangeBody(ctx context.Context, e *quicEvent, r *quicRequest) error {
	whole := r.whole.WithContext(ctx)
	whole.Body = io.NopCloser(bytes.NewReader(r.body))
	if !a.shown.leave(a.clock()) {
		return context.Canceled
	}
	answer, err := a.conn.HTTP.RoundTrip(whole)
	if err != nil {
		if strings.Contains(err.Error(), "graceful shutdown") { // the server has not begun it
			a.shown.sentNs.Store(0)
		}
		return err
	}
	e.status, e.location = answer.StatusCode, answer.Header.Get("Location")
	err = a.drain(e, answer)
	_ = answer.Body.Close() // read to its end, or broken
	return err
}

// drain reads a body to its end. It keeps its beginning if the status is unexpected, and holds the
// response to the conditions if not.
func (a *quicExchange) drain(e *quicEvent, answer *http.Response) error {
	if e.status >= len(a.Expect.Unexpected) {
		return errStatus
	}
	e.first = a.clock()
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		e.events = &arriving{firstNs: e.first}
	}
	var whole []byte
	unexpected := a.Expect.Unexpected[e.status]
	for {
		n, err := answer.Body.Read(a.buffer[:])
		if e.events != nil {
			if err := e.events.take(a.buffer[:n], a.clock()); err != nil {
				return err
			}
		}
		switch {
		case unexpected:
			e.head = append(e.head, a.buffer[:min(n, pageMost-len(e.head))]...)
		case len(a.Expect.Checks) > 0:
			whole = append(whole, a.buffer[:n]...)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if !unexpected && len(a.Expect.Checks) > 0 {
		var head bytes.Buffer
		_ = answer.Header.Write(&head) // to memory
		e.against, e.found = contradicts(a.Expect.Checks, &condition.Response{Head: head.Bytes(), Body: whole})
	}
	return nil
}

var errStatus = errors.New("an invalid status")
