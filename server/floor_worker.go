//go:build linux

package server

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"ceiling/internal/http1"
	"ceiling/internal/http2"
	"ceiling/internal/ring"
)

const (
	// maxPartial limits what a connection may have sent without a response. Beyond it nothing is
	// received until the client has read its responses, except what the ring had received before:
	// at most its buffers' 2 MiB.
	maxPartial = 64 << 10

	// batchBytes is the approximate output to one connection before others get their turn, and
	// before checking whether the client reads.
	batchBytes = 1 << 20

	// largePiece is the size from which copying a response costs more than sending it separately.
	largePiece = 32 << 10

	// maxLearned limits the size of the request remembered by its bytes.
	maxLearned = 4 << 10

	listenerIndex, wakeIndex, firstIndex = 0, 1, 2
)

// A parcel is a buffer for combined responses. It returns to the worker once they are sent.
type buffer struct{ b []byte }

// A floorConn is a connection.
type floorConn struct {
	fd         int // -1 for none
	generation uint32
	partial    []byte // received, not answered
	body       http1.Body
	inBody     bool        // body is still to be skipped
	begun      bool        // its protocol is known
	http2      *floorHTTP2 // nil for HTTP/1.1

	blocked bool // responses found no room; a Sent event follows when they are out
	paused  bool // not receiving
	eof     bool // no more input
	ending  bool // close once its responses are out
	noted   bool // is in worker.check
	parcels []*buffer
}

// A floorWorker is one thread of the server.
type floorWorker struct {
	ring     *ring.Ring
	answers  *answers
	listener int
	wake     int // becomes readable when the server stops, and closes when it must stop at once
	wakeFrom int // the other end, which the server closes

	conns    []floorConn // by index in the ring
	free     []uint32
	open     int
	stopping bool
	check    []uint32 // connections to check after the next Wait
	checked  []uint32 // the previous check's memory, for reuse
	hurry    bool     // some of check have more to do than to return parcels: the next Wait must not block
	answered uint64   // responses so far
	// told is the published value of answered: as of the last turn.
	told atomic.Uint64

	// The previous request's bytes, and its response: lastAnswer if that is constant, else the
	// next body of lastRoute.
	last       []byte
	lastAnswer reply
	lastRoute  *Route
	known      knownHTTP2

	// Responses for the current connection: in hold, or in out.
	hold    []byte
	out     *buffer
	pending int // bytes of response in this turn
	spare   []*buffer
}

func newFloorWorker(s *site, listener, wake, wakeFrom int) *floorWorker {
	w := &floorWorker{answers: newAnswers(s), listener: listener, wake: wake, wakeFrom: wakeFrom}
	w.conns = make([]floorConn, firstIndex)
	return w
}

// abandon frees a worker that will not run.
func (w *floorWorker) abandon() error {
	return errors.Join(syscall.Close(w.listener), syscall.Close(w.wake), syscall.Close(w.wakeFrom))
}

// run serves until the server stops and the last connection is closed.
func (w *floorWorker) run() (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if w.ring, err = ring.Open(ring.Config{}); err != nil {
		return errors.Join(err, syscall.Close(w.listener), syscall.Close(w.wake))
	}
	defer func() { err = errors.Join(err, w.ring.Shut()) }()
	w.ring.Accept(w.listener, ring.MakeTag(listenerIndex, 0))
	w.ring.Receive(w.wake, ring.MakeTag(wakeIndex, 0))
	for !w.stopping || w.open > 0 {
		patience := ring.Patience{Timeout: time.Second}
		if w.hurry {
			w.hurry, patience.Timeout = false, 0
		}
		events, failure := w.ring.Wait(patience)
		if failure != nil {
			return errors.Join(failure, w.letGo())
		}
		w.answers.clock(time.Now())
		w.lookAgain()
		for i := range events {
			if err == nil {
				err = w.handle(&events[i])
			}
		}
		w.told.Store(w.answered)
		if err != nil && !w.stopping {
			w.end(true)
		}
	}
	w.ring.Close(w.wake, ring.MakeTag(wakeIndex, 0))
	return err
}

// letGo closes everything after an error of the ring.
func (w *floorWorker) letGo() error {
	err := syscall.Close(w.wake)
	if !w.stopping {
		err = errors.Join(err, syscall.Close(w.listener))
	}
	for i := range w.conns[firstIndex:] {
		if fd := w.conns[firstIndex+i].fd; fd >= 0 {
			err = errors.Join(err, syscall.Close(fd))
		}
	}
	return err
}

// handle processes an event. An error is the listener's.
func (w *floorWorker) handle(ev *ring.Event) error {
	i := ev.Tag.Index()
	switch i {
	case listenerIndex:
		return w.accepted(ev)
	case wakeIndex:
		w.end(len(ev.Data) == 0)
		return nil
	}
	c := &w.conns[i]
	if c.fd < 0 || c.generation != ev.Tag.Generation() {
		return nil // closed in the meantime
	}
	switch ev.Kind {
	case ring.Received:
		switch {
		case ev.Err != 0:
			w.close(i, c)
		case len(ev.Data) == 0: // it may have more requests than were answered so far
			c.eof = true
			w.soon(i, c)
		default:
			w.received(i, c, ev.Data)
		}
	case ring.Sent:
		c.blocked = false
		w.goOn(i, c)
	case ring.SendFailed:
		w.close(i, c)
	}
	return nil
}

func (w *floorWorker) accepted(ev *ring.Event) error {
	switch {
	case ev.Err == 0 && w.stopping:
		return syscall.Close(ev.FD)
	case ev.Err == 0:
		i := w.index()
		c := &w.conns[i]
		*c = floorConn{fd: ev.FD, generation: (c.generation + 1) & 0xffffff}
		w.open++
		w.ring.Receive(ev.FD, c.tag(i))
		return nil
	case w.stopping, ring.TransientAccept(ev.Err):
		return nil // the ring retries
	}
	return fmt.Errorf("accept: %w", ev.Err)
}

func (w *floorWorker) index() uint32 {
	if n := len(w.free); n > 0 {
		i := w.free[n-1]
		w.free = w.free[:n-1]
		return i
	}
	w.conns = append(w.conns, floorConn{fd: -1})
	return uint32(len(w.conns) - 1)
}

func (c *floorConn) tag(i uint32) ring.Tag { return ring.MakeTag(i, c.generation) }

// end closes the listener and the connections; those with unsent responses only if atOnce.
func (w *floorWorker) end(atOnce bool) {
	if !w.stopping {
		w.stopping = true
		w.ring.Close(w.listener, ring.MakeTag(listenerIndex, 0))
	}
	for n := range w.conns[firstIndex:] {
		i := uint32(firstIndex + n)
		if c := &w.conns[i]; c.fd >= 0 {
			w.finish(i, c, atOnce)
		}
	}
}

// finish closes the connection once its responses are out.
func (w *floorWorker) finish(i uint32, c *floorConn, atOnce bool) {
	if atOnce {
		w.close(i, c)
		return
	}
	if c.http2 != nil && !c.ending {
		w.leaveHTTP2(i, c, http2.NoError)
		w.flush(i, c)
	}
	c.ending = true
	c.partial = nil
	if !c.blocked {
		w.soon(i, c)
	}
}

func (w *floorWorker) close(i uint32, c *floorConn) {
	w.ring.Close(c.fd, c.tag(i))
	w.open--
	w.free = append(w.free, i)
	*c = floorConn{fd: -1, generation: c.generation} // leave its parcels to the garbage collector: they may still be in use
}

// soon schedules a check of the connection after the next Wait, which must not block.
func (w *floorWorker) soon(i uint32, c *floorConn) {
	w.hurry = true
	w.note(i, c)
}

// note schedules a check of the connection after the next Wait.
func (w *floorWorker) note(i uint32, c *floorConn) {
	if !c.noted {
		c.noted = true
		w.check = append(w.check, i)
	}
}

// lookAgain checks the connections left over from the last turn: it continues those whose
// responses are out, and waits for those that are blocked.
func (w *floorWorker) lookAgain() {
	todo := w.check
	w.check = w.checked[:0]
	for _, i := range todo {
		c := &w.conns[i]
		if c.fd < 0 || !c.noted {
			continue
		}
		c.noted = false
		if !w.blocks(i, c) {
			w.goOn(i, c)
		}
	}
	w.checked = todo
}

// blocks reports whether responses of the connection wait for room, and if so requests a Sent
// event.
func (w *floorWorker) blocks(i uint32, c *floorConn) bool {
	if !c.blocked && w.ring.Unsent(c.tag(i)) > 0 {
		c.blocked = true
		w.ring.SendNotify(c.fd, nil, c.tag(i))
	}
	return c.blocked
}

// goOn continues a connection whose responses are out.
func (w *floorWorker) goOn(i uint32, c *floorConn) {
	w.spare = append(w.spare, c.parcels...)
	clear(c.parcels)
	c.parcels = c.parcels[:0]
	if c.ending {
		w.close(i, c)
		return
	}
	if len(c.partial) > 0 || c.http2 != nil && len(c.http2.waiting) > 0 {
		w.received(i, c, nil)
	}
	if c.paused && len(c.partial) < maxPartial {
		c.paused = false
		w.ring.Receive(c.fd, c.tag(i))
	}
	if c.eof && !c.noted && !c.ending {
		w.finish(i, c, false)
	}
}

// received answers what it can and keeps the rest.
func (w *floorWorker) received(i uint32, c *floorConn, data []byte) {
	switch {
	case c.ending:
		return
	case w.blocks(i, c) || c.noted && len(c.partial) > 0: // its turn is over, or it does not read
		c.partial = append(c.partial, data...)
		if len(c.partial) >= maxPartial && !c.paused {
			c.paused = true
			w.ring.Pause(c.tag(i))
		}
		return
	case len(c.partial) > 0:
		c.partial = append(c.partial, data...)
		rest := w.answer(i, c, c.partial)
		c.partial = c.partial[:copy(c.partial, rest)]
	default:
		if rest := w.answer(i, c, data); len(rest) > 0 {
			c.partial = append(c.partial, rest...)
		}
	}
	if len(c.partial) == 0 && cap(c.partial) > maxPartial {
		c.partial = nil
	}
	w.dispatch(i, c)
}

// answer answers the requests at the start of b and returns the rest.
func (w *floorWorker) answer(i uint32, c *floorConn, b []byte) []byte {
	if !c.begun {
		yes, wait := speaksHTTP2(b)
		switch {
		case wait:
			return b
		case yes:
			w.greetHTTP2(i, c)
			b = b[len(http2.Preface):]
		}
		c.begun = true
	}
	if c.http2 != nil {
		w.release(i, c)
		return w.answerHTTP2(i, c, b)
	}
	for len(b) > 0 && !c.ending {
		if w.pending >= batchBytes {
			w.soon(i, c)
			return b
		}
		if c.inBody {
			n, done, err := c.body.Skip(b)
			b, c.inBody = b[n:], !done
			if err != nil {
				w.refuse(i, c)
			}
			continue
		}
		if len(w.last) > 0 && bytes.HasPrefix(b, w.last) {
			b = w.again(i, c, b)
			continue
		}
		n := w.parse(i, c, b)
		if n == 0 {
			return b
		}
		b = b[n:]
	}
	return nil
}

// again answers repetitions of the previous request.
func (w *floorWorker) again(i uint32, c *floorConn, b []byte) []byte {
	if !w.lastAnswer.constant {
		ans := w.answers.of(w.lastRoute)
		w.put(i, c, &ans, w.lastRoute)
		return b[len(w.last):]
	}
	p := w.answers.page(&w.lastAnswer, w.lastRoute)
	times, most := 1, len(p.bytes)/p.one
	b = b[len(w.last):]
	for times < most && bytes.HasPrefix(b, w.last) {
		b = b[len(w.last):]
		times++
	}
	w.answered += uint64(times)
	w.emit(i, c, p.bytes[:times*p.one])
	return b
}

// parse answers the request at the start of b and returns the length of its head, 0 if it is
// incomplete or if no more is to be read from the connection.
func (w *floorWorker) parse(i uint32, c *floorConn, b []byte) int {
	q, n, err := http1.ParseRequest(b)
	if err != nil {
		w.refuse(i, c)
	}
	if n == 0 {
		return 0
	}
	ans, route := w.answers.to(&q)
	c.body = q.Body()
	_, done, _ := c.body.Skip(nil) // without bytes it only reports whether a body follows
	c.inBody = !done
	if c.inBody && q.ExpectContinue {
		w.emit(i, c, []byte("HTTP/1.1 100 Continue\r\n\r\n"))
	}
	c.ending = !q.KeepAlive
	w.put(i, c, &ans, route)
	if done && n <= maxLearned && ans.connection == "" && !ans.headOnly && (route != nil || ans.lasting) {
		w.last, w.lastRoute, w.lastAnswer = append(w.last[:0], b[:n]...), route, ans
	}
	return n
}

// refuse answers a malformed request, after which the input cannot be parsed.
func (w *floorWorker) refuse(i uint32, c *floorConn) {
	ans := plain("400 Bad Request")
	ans.connection = "close"
	c.ending = true
	w.put(i, c, &ans, nil)
}

// put adds a response.
func (w *floorWorker) put(i uint32, c *floorConn, ans *reply, route *Route) {
	w.answered++
	if p := w.answers.page(ans, route); p != nil {
		w.emit(i, c, p.bytes[:p.one])
		return
	}
	w.gather(i, c)
	before := len(w.out.b)
	w.out.b = ans.append(w.out.b, w.answers.date)
	w.pending += len(w.out.b) - before
}

// emit adds immutable bytes. If there is nothing else to send, it sends them without copying.
func (w *floorWorker) emit(i uint32, c *floorConn, b []byte) {
	w.pending += len(b)
	switch {
	case w.hold == nil && w.out == nil:
		w.hold = b
	case len(b) >= largePiece:
		w.flush(i, c)
		w.hold = b
	default:
		w.gather(i, c)
		w.out.b = append(w.out.b, b...)
		if len(w.out.b) >= copiesBytes {
			w.flush(i, c)
		}
	}
}

// gather makes room in out, after the bytes already collected.
func (w *floorWorker) gather(i uint32, c *floorConn) {
	if len(w.hold) >= largePiece {
		w.flush(i, c)
	}
	if w.out == nil {
		if n := len(w.spare); n > 0 {
			w.out, w.spare = w.spare[n-1], w.spare[:n-1]
			w.out.b = w.out.b[:0]
		} else {
			w.out = new(buffer)
		}
	}
	w.out.b = append(w.out.b, w.hold...)
	w.hold = nil
}

// flush sends the collected output.
func (w *floorWorker) flush(i uint32, c *floorConn) {
	if w.hold != nil {
		w.ring.Send(c.fd, w.hold, c.tag(i))
		w.hold = nil
	}
	if w.out != nil {
		w.ring.Send(c.fd, w.out.b, c.tag(i))
		c.parcels = append(c.parcels, w.out)
		w.out = nil
		w.note(i, c)
	}
}

// dispatch ends the connection's turn.
func (w *floorWorker) dispatch(i uint32, c *floorConn) {
	w.flush(i, c)
	w.pending = 0
	if c.ending {
		w.soon(i, c)
	}
}
