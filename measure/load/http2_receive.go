package load

import (
	"bytes"
	"syscall"

	"ceiling/internal/hpack"
	"ceiling/internal/http2"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
)

// Causes of HTTP/2 failures that no frame of the server names.
const (
	causeIdleStream   = "frame on a stream that was not opened"
	causeClosedStream = "frame on a stream that has ended"
	causePushed       = "pushed stream, which was not allowed"
	causeOverrun      = "data beyond the window that was announced"
	causeWindow       = "window over 2^31-1"
	causeGreeting     = "no SETTINGS at the beginning"
	causeNotH2        = "the server answers in HTTP/1.1"
	causeMalformed    = "malformed response head"
	causeLength       = "body that does not fit its Content-Length"
	causeNoHead       = "data before a response head"
	causeInterim      = "too many interim responses"
	causeUnread       = "the server asks for answers that it does not read"
	causeCut          = "connection closed inside a frame"
)

// h2head is a known response head: the same bytes mean the same.
type h2head struct {
	block  []byte
	effect hpack.Effect
	status uint16
	length int64 // of the body; -1: not given
	events bool  // its content type is that of server-sent events
}

// headFields are what else a response head has for this run. The zero value is not ready: call begin.
type headFields struct {
	location []byte // of a redirect
	// all of them as HTTP/1.1 writes them, if the run's conditions ask for one
	all     []byte
	keepAll bool
}

// begin clears the fields of the previous head.
func (f *headFields) begin() { f.all, f.location = f.all[:0], f.location[:0] }

// take handles one field.
func (f *headFields) take(field hpack.Field) {
	if f.keepAll {
		f.all = append(append(append(append(f.all, field.Name...), ": "...), field.Value...), "\r\n"...)
	}
	if string(field.Name) == "location" {
		f.location = append(f.location[:0], field.Value...)
	}
}

// learnMost bounds a learned head, in bytes.
const learnMost = 4 << 10

// means reports whether a block means what this one did.
func (k *h2head) means(block []byte, d *hpack.Decoder) bool {
	return len(k.block) > 0 && bytes.Equal(block, k.block) && !(k.effect == hpack.Indexing && d.HasTable())
}

// learn stores a decoded block, if it can be recognized again.
func (k *h2head) learn(block []byte, effect hpack.Effect) {
	k.block, k.effect = k.block[:0], effect
	if len(block) <= learnMost && effect != hpack.Stateful {
		k.block = append(k.block, block...)
	}
}

// receivedH2 handles received bytes, frame by frame. proceed renews the slots it frees and sends
// the replies.
func (w *worker) receivedH2(i uint32, c *conn, b []byte) {
	h := &w.h2.conns[i]
	tag := c.tag(i)
	h.heardNs = w.now
	if h.phase == greeting && bytes.HasPrefix(b, []byte("HTTP/1.")) {
		w.failH2(i, c, PhaseResponse, causeNotH2, causeNotH2)
		return
	}
	for len(b) > 0 && c.tag(i) == tag {
		ev, n, err := h.reader.Next(b)
		b = b[n:]
		if err == nil && ev != nil {
			err = w.event(i, c, h, ev)
		}
		if err != nil {
			w.misbehaved(i, c, h, err)
		}
	}
	if c.tag(i) == tag && len(h.out)-h.begin > oweMost {
		w.misbehaved(i, c, h, &http2.Error{Code: http2.EnhanceYourCalm, Reason: causeUnread})
	}
}

// proceed renews the slots that a batch freed, and sends, unless the connection has ended in the
// batch.
func (w *worker) proceed(i uint32, c *conn, tag ring.Tag) {
	h := &w.h2.conns[i]
	if c.tag(i) != tag || c.state != open {
		return
	}
	if h.phase == leaving && c.onWire == 0 || c.full(w.shared.NewConnections) && c.onWire == 0 {
		w.endH2(i, c)
		return
	}
	if n := h.freed; n > 0 {
		h.freed = 0
		w.renew(i, c, n)
	}
	w.transmit(i, c)
}

// event handles one event.
func (w *worker) event(i uint32, c *conn, h *h2conn, ev *http2.Event) *http2.Error {
	if ev.First {
		w.h2.Received[ev.Type]++
	}
	if h.phase == greeting && ev.Type != http2.SettingsFrame {
		return &http2.Error{Code: http2.ProtocolError, Reason: causeGreeting}
	}
	k := -1
	if ev.Stream != 0 {
		if k = h.find(ev.Stream); k < 0 || h.table[k].sent == 0 {
			if ev.Stream&1 == 0 || ev.Stream >= h.next || k >= 0 {
				return &http2.Error{Code: http2.ProtocolError, Reason: causeIdleStream}
			}
			return w.afterEnd(i, h, ev)
		}
	}
	switch ev.Type {
	case http2.Data:
		return w.data(i, c, h, k, ev)
	case http2.Headers:
		return w.readHeaders(i, c, h, k, ev)
	case http2.ResetStream:
		w.failStream(i, c, h, k, resetCause(ev.Code))
	case http2.SettingsFrame:
		return w.settings(i, c, h, ev)
	case http2.PushPromise:
		return &http2.Error{Code: http2.ProtocolError, Reason: causePushed}
	case http2.Ping:
		if ev.Flags&http2.Ack == 0 {
			w.room(i, h)
			h.out = http2.AppendPing(h.out, ev.Payload, true)
			w.h2.Sent[http2.Ping]++
		} else {
			w.ponged(h, ev.Payload)
		}
	case http2.GoAway:
		w.goAway(i, c, h, ev)
	case http2.WindowUpdate:
		return w.widen(h, k, ev)
	}
	return nil
}

// afterEnd handles a frame on a stream that has ended. Data may come until the server has seen our
// RST_STREAM, and counts; window updates and RST_STREAM may cross the end (section 5.1).
func (w *worker) afterEnd(i uint32, h *h2conn, ev *http2.Event) *http2.Error {
	switch ev.Type {
	case http2.WindowUpdate, http2.ResetStream:
		return nil
	case http2.PushPromise:
		return &http2.Error{Code: http2.ProtocolError, Reason: causePushed}
	}
	if !h.reset {
		return &http2.Error{Code: http2.StreamClosed, Reason: causeClosedStream}
	}
	if ev.Type == http2.Data {
		return w.spend(i, h, ev.Flow)
	}
	return nil
}

// spend counts data against the connection's window, and reopens it.
func (w *worker) spend(i uint32, h *h2conn, flow uint32) *http2.Error {
	if flow == 0 {
		return nil
	}
	if !h.credit.Spend(flow) {
		return &http2.Error{Code: http2.FlowControlError, Reason: causeOverrun}
	}
	if n := h.credit.Return(flow); n > 0 {
		w.room(i, h)
		h.out = http2.AppendWindowUpdate(h.out, 0, n)
		w.h2.Sent[http2.WindowUpdate]++
	}
	return nil
}

// data handles a piece of a response body.
func (w *worker) data(i uint32, c *conn, h *h2conn, k int, ev *http2.Event) *http2.Error {
	s := &h.table[k]
	if err := w.spend(i, h, ev.Flow); err != nil {
		return err
	}
	if s.status == 0 {
		return &http2.Error{Code: http2.ProtocolError, Stream: s.id, Reason: causeNoHead}
	}
	if s.left >= 0 {
		if s.left -= int64(len(ev.Payload)); s.left < 0 {
			return &http2.Error{Code: http2.ProtocolError, Stream: s.id, Reason: causeLength}
		}
	}
	if w.shared.Expect.Unexpected[s.status] {
		w.seen.readPage(pageOf{c.tag(i), s.id}, int(s.status), ev.Payload, ev.End)
	}
	if w.seen.checks != nil {
		w.examine(pageOf{c.tag(i), s.id}, int(s.status), ev.Payload, false)
	}
	if s.events != nil {
		if err := s.events.take(ev.Payload, w.now); err != nil {
			return &http2.Error{Code: http2.Cancel, Stream: s.id, Reason: err.Error()}
		}
	}
	if ev.End {
		return w.responded(i, c, h, k)
	}
	if s.got += ev.Flow; s.got >= receiveWindow/2 {
		w.room(i, h)
		h.out = http2.AppendWindowUpdate(h.out, s.id, s.got)
		w.h2.Sent[http2.WindowUpdate]++
		s.got = 0
	}
	return nil
}

// readHeaders handles a header block: an interim response, a response, or trailers.
func (w *worker) readHeaders(i uint32, c *conn, h *h2conn, k int, ev *http2.Event) *http2.Error {
	s := &h.table[k]
	target := w.shared.script.target[s.at]
	if s.status != 0 {
		return w.trailers(i, c, h, k, ev)
	}
	known := &w.h2.heads[target]
	if w.h2.fields.keepAll || !known.means(ev.Payload, &h.decoder) {
		got, err := readHead(&h.decoder, ev.Payload, &w.h2.fields)
		if err != nil {
			err.Stream = ev.Stream
			if err.Code == http2.CompressionError {
				err.Stream = 0
			}
			return err
		}
		if got.status < 200 {
			if s.interim++; s.interim > interimMost || ev.End || got.status == 101 {
				return &http2.Error{Code: http2.ProtocolError, Stream: s.id, Reason: causeInterim}
			}
			return nil
		}
		if w.shared.script.noBody[target] || got.status == 204 || got.status == 304 {
			got.length = 0 // the length is not that of this response's body (RFC 9110, section 8.6)
		}
		w.seen.keepRedirect(int(got.status), w.h2.fields.location)
		known.learn(ev.Payload, h.decoder.Effect())
		known.status, known.length, known.events = got.status, got.length, got.events
	}
	s.status, s.left, s.first = known.status, known.length, w.now
	if known.events {
		s.events = &arriving{firstNs: w.now}
	}
	w.seen.checks.takeHead(pageOf{c.tag(i), s.id}, w.h2.fields.all)
	h.stall.spent = false
	if ev.End {
		return w.responded(i, c, h, k)
	}
	return nil
}

// readHead decodes a response head (RFC 9113, section 8.3), and keeps its other fields.
func readHead(d *hpack.Decoder, block []byte, fields *headFields) (got h2head, wrong *http2.Error) {
	malformed := func() *http2.Error { return &http2.Error{Code: http2.ProtocolError, Reason: causeMalformed} }
	got.length = -1
	fields.begin()
	regular := false
	d.Begin(block)
	for {
		f, ok, err := d.Next()
		if err != nil {
			return got, &http2.Error{Code: http2.CompressionError, Reason: err.Error()}
		}
		if !ok {
			break
		}
		if len(f.Name) > 0 && f.Name[0] == ':' {
			if string(f.Name) != ":status" || regular || got.status != 0 || len(f.Value) != 3 {
				return got, malformed()
			}
			for _, digit := range f.Value {
				if digit-'0' > 9 {
					return got, malformed()
				}
				got.status = got.status*10 + uint16(digit-'0')
			}
			continue
		}
		if regular = true; !fieldAllowed(f.Name) {
			return got, malformed()
		}
		if string(f.Name) == "content-length" {
			n, valid := contentLength(f.Value)
			if !valid || got.length >= 0 && got.length != n {
				return got, malformed()
			}
			got.length = n
		}
		if string(f.Name) == "content-type" {
			got.events = bytes.HasPrefix(f.Value, []byte("text/event-stream"))
		}
		fields.take(f)
	}
	if got.status < 100 {
		return got, malformed()
	}
	return got, nil
}

// fieldAllowed rejects names that HTTP/2 forbids: those not in lower case, and HTTP/1.1 connection
// fields (section 8.2).
func fieldAllowed(name []byte) bool {
	for _, b := range name {
		if b <= ' ' || b >= 0x7f || b >= 'A' && b <= 'Z' || b == ':' {
			return false
		}
	}
	switch string(name) {
	case "", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return false
	}
	return true
}

func contentLength(b []byte) (n int64, ok bool) {
	for _, digit := range b {
		if digit-'0' > 9 || n > 1<<58 {
			return 0, false
		}
		n = n*10 + int64(digit-'0')
	}
	return n, len(b) > 0
}

// trailers handles trailers, which end a response.
func (w *worker) trailers(i uint32, c *conn, h *h2conn, k int, ev *http2.Event) *http2.Error {
	malformed := func() *http2.Error {
		return &http2.Error{Code: http2.ProtocolError, Stream: ev.Stream, Reason: causeMalformed}
	}
	if !ev.End {
		return malformed()
	}
	h.decoder.Begin(ev.Payload)
	for {
		f, ok, err := h.decoder.Next()
		if err != nil {
			return &http2.Error{Code: http2.CompressionError, Reason: err.Error()}
		}
		if !ok {
			return w.responded(i, c, h, k)
		}
		if !fieldAllowed(f.Name) {
			return malformed()
		}
	}
}

// responded handles a complete response.
func (w *worker) responded(i uint32, c *conn, h *h2conn, k int) *http2.Error {
	s := &h.table[k]
	if s.left > 0 {
		return &http2.Error{Code: http2.ProtocolError, Stream: s.id, Reason: causeLength}
	}
	if w.shared.Expect.Unexpected[s.status] { // without a body, or ended by trailers
		w.seen.readPage(pageOf{c.tag(i), s.id}, int(s.status), nil, true)
	}
	if w.seen.checks != nil {
		w.examine(pageOf{c.tag(i), s.id}, int(s.status), nil, true)
	}
	w.countDone(i, c, h, k)
	return nil
}

// countDone counts an answered request, by status.
func (w *worker) countDone(i uint32, c *conn, h *h2conn, k int) {
	s, t := &h.table[k], w.tally
	status := int(s.status)
	t.Completed++
	t.Statuses[status]++
	if w.shared.Expect.Unexpected[status] {
		t.Bad++
	}
	w.doneNs = w.now
	if s.due >= w.countFromNs {
		t.Response.Record(w.now - s.due)
		t.Early.took(&t.Service, w.now-s.sent, s.first-s.sent, 1)
		s.events.ends(t, s.sent)
	}
	if t.ByTarget != nil {
		b := &t.ByTarget[w.shared.script.target[s.at]]
		b.Completed++
		b.Statuses[status]++
		if s.due >= w.countFromNs {
			b.Response.Record(w.now - s.due)
		}
	}
	if s.body > 0 { // an early response: the server does not want the rest of the request
		w.resetStream(i, h, s.id, http2.Cancel)
	}
	c.served++
	c.since = w.now
	w.offWire(c, h, k)
}

// offWire takes a stream off the wire.
func (w *worker) offWire(c *conn, h *h2conn, k int) {
	w.inFlight--
	c.onWire--
	h.freed++
	h.remove(k)
}

// resetStream resets a stream from this side.
func (w *worker) resetStream(i uint32, h *h2conn, id uint32, code http2.Code) {
	h.reset = true
	w.room(i, h)
	h.out = http2.AppendReset(h.out, id, code)
	w.h2.Sent[http2.ResetStream]++
}

// resetCause names the server's reason for an RST_STREAM.
func resetCause(code http2.Code) string { return "RST_STREAM from the server: " + code.String() }

// failStream counts one request as failed.
func (w *worker) failStream(i uint32, c *conn, h *h2conn, k int, cause string) {
	w.seen.checks.forgetStream(pageOf{c.tag(i), h.table[k].id})
	w.countFailed(&h.table[k], PhaseResponse, cause)
	w.offWire(c, h, k)
}

// countFailed counts a failed request.
func (w *worker) countFailed(s *stream, phase, cause string) {
	t := w.tally
	sent := s.sent
	if sent == 0 {
		sent = s.due
	}
	if s.due >= w.countFromNs {
		t.Response.Record(w.now - s.due)
		t.Early.took(&t.Service, w.now-sent, w.now-sent, 1)
	}
	if t.ByTarget != nil {
		t.ByTarget[w.shared.script.target[s.at]].Failed++
	}
	t.Failed++
	t.Faults[Fault{phase, cause}]++
	w.doneNs = w.now
}

// misbehaved handles a protocol error of the server: it ends the stream or the connection (section
// 5.4).
func (w *worker) misbehaved(i uint32, c *conn, h *h2conn, err *http2.Error) {
	if err.Stream != 0 {
		if k := h.find(err.Stream); k >= 0 && h.table[k].sent != 0 {
			w.resetStream(i, h, err.Stream, err.Code)
			w.failStream(i, c, h, k, err.Error())
		}
		return
	}
	w.room(i, h)
	h.out = http2.AppendGoAway(h.out, 0, err.Code)
	w.h2.Sent[http2.GoAway]++
	w.flush(i, c, h)
	w.failH2(i, c, PhaseResponse, err.Error(), causeDropped)
}

// settings handles the server's SETTINGS.
func (w *worker) settings(i uint32, c *conn, h *h2conn, ev *http2.Event) *http2.Error {
	if ev.Flags&http2.Ack != 0 {
		if h.phase == greeting {
			return &http2.Error{Code: http2.ProtocolError, Reason: causeGreeting}
		}
		return nil
	}
	before := h.peer.InitialWindowSize
	if err := h.peer.Apply(ev.Payload); err != nil {
		return err
	}
	if by := int64(h.peer.InitialWindowSize) - int64(before); by != 0 {
		for k := range h.table {
			if s := &h.table[k]; s.id != 0 && s.body > 0 && !s.window.Grow(by) {
				return &http2.Error{Code: http2.FlowControlError, Reason: causeWindow}
			}
		}
	}
	limit := int32(min(uint32(w.pipelining), h.peer.MaxConcurrentStreams))
	more := limit > h.limit
	h.limit = limit
	w.h2.announced(&h.peer)
	if h.phase == greeting {
		h.phase = serving
	}
	w.room(i, h)
	h.out = http2.AppendSettingsAck(h.out)
	w.h2.Sent[http2.SettingsFrame]++
	if more && c.parked > 0 {
		w.wake(i, c)
	}
	return nil
}

// widen handles a WINDOW_UPDATE.
func (w *worker) widen(h *h2conn, k int, ev *http2.Event) *http2.Error {
	window := &h.window
	if ev.Stream != 0 {
		window = &h.table[k].window
	}
	if !window.Grow(int64(ev.Promised)) {
		return &http2.Error{Code: http2.FlowControlError, Stream: ev.Stream, Reason: causeWindow}
	}
	return nil
}

// goAway handles the server's GOAWAY. Streams after the last that it works on are resent on the
// next connection, which is safe (section 6.8): it has processed no part of them. If it processed
// nothing on the connection they fail instead, so that a server that rejects every connection is
// not asked for ever.
func (w *worker) goAway(i uint32, c *conn, h *h2conn, ev *http2.Event) {
	h.phase, h.code = leaving, ev.Code
	if c.stamped > 0 {
		w.leaveH2(i, c, w.now)
	}
	for id := h.next - 2; id > ev.Promised && id < h.next && c.onWire > 0; id -= 2 {
		switch k := h.find(id); {
		case k < 0:
		case c.served == 0 && ev.Promised == 0:
			w.failStream(i, c, h, k, goAwayCause(ev.Code))
		default:
			w.requeue(i, c, h, k)
		}
	}
}

// goAwayCause names the server's reason for a GOAWAY.
func goAwayCause(code http2.Code) string { return "GOAWAY from the server: " + code.String() }

// requeue takes a stream off the wire, to be resent before all that waits.
func (w *worker) requeue(i uint32, c *conn, h *h2conn, k int) {
	s, q := h.table[k], w.queue(i)
	if c.head--; c.head < 0 {
		c.head = int32(len(q)) - 1
	}
	q[c.head] = flight{due: s.due, n: 1, again: true}
	h.again = append(h.again, 0)
	copy(h.again[1:], h.again)
	h.again[0] = s.at
	c.entries++
	c.waiting++
	c.resend++
	c.onWire--
	h.remove(k)
}

// overH2 handles the end of the server's data.
func (w *worker) overH2(i uint32, c *conn, no syscall.Errno) {
	h := &w.h2.conns[i]
	if no == 0 || no == syscall.EPIPE {
		no = c.sendErr
	}
	if c.onWire == 0 && (no == 0 || no == syscall.EPIPE || h.phase == leaving) {
		w.endH2(i, c)
		return
	}
	cause := causeClosed
	switch {
	case h.phase == leaving && h.code != http2.NoError:
		cause = goAwayCause(h.code)
	case no != 0 && no != syscall.EPIPE:
		cause = sys.ErrnoName(no)
	case !h.reader.Idle():
		cause = causeCut
	}
	w.failH2(i, c, PhaseResponse, cause, causeDropped)
}

// endH2 closes a connection without streams; waiting requests move to the next one.
func (w *worker) endH2(i uint32, c *conn) {
	h := &w.h2.conns[i]
	switch {
	case c.served == 0 && !w.idle() && h.freed == 0:
		w.tally.Faults[Fault{PhaseConnect, causeUnused}]++
	case c.served > 0 && h.phase == leaving:
		w.tally.Closes.note(&w.tally.Closes.Announced, c.served)
	case c.served > 0 && !c.full(w.shared.NewConnections):
		w.tally.Closes.noteIdle(c.served, w.now-c.since)
	}
	freed := h.freed
	h.freed = 0
	w.hangUp(i, c)
	if w.shared.NewConnections != 1 {
		w.tally.Reconnects++
	}
	w.renew(i, c, freed)
}

// failH2 is fail for HTTP/2: it ends every request that is or was on the wire, and the connection.
func (w *worker) failH2(i uint32, c *conn, phase, first, others string) {
	h := &w.h2.conns[i]
	freed := h.freed
	h.freed = 0
	w.renew(i, c, freed)
	if c.stamped > 0 {
		w.leaveH2(i, c, w.now)
	}
	n := c.onWire + c.resend
	if n == 0 {
		w.tally.Faults[Fault{PhaseIdle, first}]++
	}
	for k, oldest := 0, h.oldest(); c.onWire > 0; k++ {
		s := &h.table[k]
		if s.id == 0 {
			continue
		}
		cause := others
		if k == oldest {
			cause = first
		}
		w.countFailed(s, phase, cause)
		s.id = 0
		c.onWire--
	}
	for q := w.queue(i); c.resend > 0; c.resend-- {
		f := &q[c.head]
		lost := stream{due: f.due, at: c.next}
		if len(h.again) > 0 {
			lost.at, h.again = h.again[0], h.again[:copy(h.again, h.again[1:])]
		}
		w.countFailed(&lost, phase, others)
		c.waiting--
		if f.n--; f.n == 0 {
			w.popFlight(c, q)
		}
	}
	w.inFlight -= int64(n)
	w.hangUp(i, c)
	w.renew(i, c, n)
}

// hungUp ends the HTTP/2 state of a connection that is about to be closed.
func (w *worker) hungUp(i uint32, c *conn) {
	h := &w.h2.conns[i]
	w.stalls(i, h, false)
	h.uploads = h.uploads[:0]
	if w.ring.Unsent(c.tag(i)) > 0 {
		h.out = nil // the ring's
	}
	h.begin = len(h.out)
}

// expireH2 looks for streams that timed out. One of several ends alone; if the server has sent
// nothing at all for as long, the connection ends.
func (w *worker) expireH2(i uint32, c *conn) {
	h, limit := &w.h2.conns[i], int64(w.shared.Timeout)
	late := false
	for k := 0; k < len(h.table); {
		s := &h.table[k]
		if s.id == 0 || s.sent == 0 || w.now-s.sent <= limit {
			k++
			continue
		}
		if w.now-h.heardNs > limit {
			w.failH2(i, c, PhaseResponse, CauseTimeout, causeBehind)
			return
		}
		w.resetStream(i, h, s.id, http2.Cancel)
		w.failStream(i, c, h, k, CauseTimeout)
		late = true
	}
	if late {
		w.proceed(i, c, c.tag(i))
	}
}
