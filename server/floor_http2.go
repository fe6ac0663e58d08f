//go:build linux

package server

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"ceiling/internal/hpack"
	"ceiling/internal/http1"
	"ceiling/internal/http2"
)

// HTTP/2 by prior knowledge (RFC 9113, section 3.3), as cheap as the floor's HTTP/1.1: a request
// whose header block equals the previous one costs one comparison, its response is a copy with
// the stream's number filled in, and responses to requests that arrive together leave in one
// send.

const (
	// floorStreams is the limit of open streams: those whose responses wait for flow control.
	floorStreams = 1000
	// floorWindow is the window for request bodies, which are discarded.
	floorWindow = 1 << 20
	// headerTable is the initial table size of a client's header blocks, which we never change.
	headerTable = 4096
)

// floorHTTP2 is the HTTP/2 of one connection.
type floorHTTP2 struct {
	reader  http2.Reader
	decoder hpack.Decoder
	peer    http2.Settings // the client's announced settings
	window  http2.Window   // the connection's send window
	credit  http2.Credit   // the client's send window
	last    uint32         // the highest stream
	waiting []floorStream  // responses that wait for flow control, in request order
}

// A floorStream is the rest of a response that waits for flow control.
type floorStream struct {
	id     uint32
	window http2.Window
	rest   []byte
	reset  bool // the request is incomplete: its stream is reset after the response
}

// A floorBlock is the header block of a response with that length, type and status, in the second
// of its date.
type floorBlock struct {
	bytes  []byte
	second int64
}

// knownHTTP2 is the previous header block's bytes, and its response.
type knownHTTP2 struct {
	block  []byte
	answer reply
	route  *Route
	// whole is the response with its frames, for stream 0, if it is constant and fits into one
	// DATA frame of any client; dataAt is the start of the second frame, second is that of its
	// date.
	whole  []byte
	dataAt int
	second int64
}

// speaksHTTP2 reports whether b begins with HTTP/2's preface, or is too short to tell.
func speaksHTTP2(b []byte) (yes, wait bool) {
	n := min(len(b), len(http2.Preface))
	same := string(b[:n]) == http2.Preface[:n]
	return same && n == len(http2.Preface), same && n < len(http2.Preface)
}

// greetHTTP2 starts HTTP/2 with a client that has sent the preface.
func (w *floorWorker) greetHTTP2(i uint32, c *floorConn) {
	h := &floorHTTP2{peer: http2.DefaultSettings(), window: http2.DefaultWindow, credit: http2.NewCredit(floorWindow)}
	h.decoder.SetLimit(headerTable)
	c.http2 = h
	w.gather(i, c)
	w.out.b = http2.AppendSettings(w.out.b, http2.Setting{ID: http2.MaxConcurrentStreams, Value: floorStreams})
	w.out.b = http2.AppendWindowUpdate(w.out.b, 0, floorWindow-http2.DefaultWindow)
}

// answerHTTP2 processes the frames at the start of b and returns the rest when the connection's
// turn is over.
func (w *floorWorker) answerHTTP2(i uint32, c *floorConn, b []byte) []byte {
	h := c.http2
	for !c.ending {
		if w.pending >= batchBytes {
			w.soon(i, c)
			return b
		}
		ev, n, wrong := h.reader.Next(b)
		b = b[n:]
		if wrong == nil && ev != nil {
			wrong = w.frame(i, c, ev)
		}
		switch {
		case wrong != nil && wrong.Stream != 0:
			w.gather(i, c)
			w.out.b = http2.AppendReset(w.out.b, wrong.Stream, wrong.Code)
			h.forget(wrong.Stream)
		case wrong != nil:
			w.leaveHTTP2(i, c, wrong.Code)
		case n == 0 || len(b) == 0:
			return b
		}
	}
	return nil
}

// leaveHTTP2 sends GOAWAY with the last stream, and closes the connection.
func (w *floorWorker) leaveHTTP2(i uint32, c *floorConn, code http2.Code) {
	c.ending = true
	w.gather(i, c)
	w.out.b = http2.AppendGoAway(w.out.b, c.http2.last, code)
}

// frame processes one frame.
func (w *floorWorker) frame(i uint32, c *floorConn, ev *http2.Event) *http2.Error {
	h := c.http2
	fault := func(code http2.Code, reason string) *http2.Error { return &http2.Error{Code: code, Reason: reason} }
	switch ev.Type {
	case http2.Headers:
		return w.request(i, c, ev)
	case http2.Data:
		if ev.Stream > h.last {
			return fault(http2.ProtocolError, "DATA on an idle stream")
		}
		if !h.credit.Spend(ev.Flow) {
			return fault(http2.FlowControlError, "more than the window")
		}
		if more := h.credit.Return(ev.Flow); more > 0 {
			w.gather(i, c)
			w.out.b = http2.AppendWindowUpdate(w.out.b, 0, more)
		}
	case http2.SettingsFrame:
		if ev.Flags&http2.Ack != 0 {
			return nil
		}
		before := int64(h.peer.InitialWindowSize)
		if wrong := h.peer.Apply(ev.Payload); wrong != nil {
			return wrong
		}
		for k := range h.waiting {
			if !h.waiting[k].window.Grow(int64(h.peer.InitialWindowSize) - before) {
				return fault(http2.FlowControlError, "window over 2^31-1")
			}
		}
		w.gather(i, c)
		w.out.b = http2.AppendSettingsAck(w.out.b)
		w.release(i, c)
	case http2.Ping:
		if ev.Flags&http2.Ack == 0 {
			w.gather(i, c)
			w.out.b = http2.AppendPing(w.out.b, ev.Payload, true)
		}
	case http2.WindowUpdate:
		if ev.Stream > h.last {
			return fault(http2.ProtocolError, "WINDOW_UPDATE on an idle stream")
		}
		window := &h.window
		if ev.Stream != 0 {
			s := h.find(ev.Stream)
			if s == nil {
				return nil // already answered
			}
			window = &s.window
		}
		if !window.Grow(int64(ev.Promised)) {
			return &http2.Error{Code: http2.FlowControlError, Stream: ev.Stream, Reason: "window over 2^31-1"}
		}
		w.release(i, c)
	case http2.ResetStream:
		h.forget(ev.Stream)
	case http2.PushPromise:
		return fault(http2.ProtocolError, "pushed by a client")
	}
	return nil
}

// find returns a response that waits for flow control.
func (h *floorHTTP2) find(id uint32) *floorStream {
	for k := range h.waiting {
		if h.waiting[k].id == id {
			return &h.waiting[k]
		}
	}
	return nil
}

// forget drops a response that is no longer wanted.
func (h *floorHTTP2) forget(id uint32) {
	if s := h.find(id); s != nil {
		s.rest, s.reset, s.id = nil, false, 0 // the next release removes it
	}
}

// request answers a header block.
func (w *floorWorker) request(i uint32, c *floorConn, ev *http2.Event) *http2.Error {
	h, k := c.http2, &w.known
	if ev.Stream <= h.last || ev.Stream%2 == 0 { // trailers of an answered request, or a server stream
		if ev.Stream%2 == 0 {
			return &http2.Error{Code: http2.ProtocolError, Reason: "stream with an even number"}
		}
		_, _, wrong := h.fields(ev.Payload)
		return wrong
	}
	h.last = ev.Stream
	if len(h.waiting) >= floorStreams {
		return &http2.Error{Code: http2.EnhanceYourCalm, Reason: "more streams than allowed"}
	}
	if ev.End && len(k.block) > 0 && bytes.Equal(ev.Payload, k.block) {
		w.againHTTP2(i, c, ev.Stream)
		return nil
	}
	method, target, wrong := h.fields(ev.Payload)
	if wrong != nil {
		return wrong
	}
	q := http1.Request{Method: method, Target: target, Minor: 1, KeepAlive: true}
	ans, route := w.answers.to(&q)
	w.putHTTP2(i, c, &ans, route, ev.Stream, !ev.End)
	if ev.End && len(ev.Payload) <= maxLearned && h.decoder.Effect() == hpack.Stateless && !ans.headOnly && (route != nil || ans.lasting) {
		*k = knownHTTP2{block: append(k.block[:0], ev.Payload...), answer: ans, route: route, whole: k.whole[:0]}
	}
	return nil
}

// fields decodes a complete header block. The two strings are copies.
func (h *floorHTTP2) fields(block []byte) (method, target []byte, wrong *http2.Error) {
	h.decoder.Begin(block)
	for {
		f, ok, err := h.decoder.Next()
		switch {
		case err != nil:
			return nil, nil, &http2.Error{Code: http2.CompressionError, Reason: "header block"}
		case !ok:
			return method, target, nil
		case string(f.Name) == ":method":
			method = bytes.Clone(f.Value)
		case string(f.Name) == ":path":
			target = bytes.Clone(f.Value)
		}
	}
}

// againHTTP2 answers a repetition of the previous request.
func (w *floorWorker) againHTTP2(i uint32, c *floorConn, id uint32) {
	h, k := c.http2, &w.known
	n := len(k.answer.body)
	if !k.answer.constant {
		ans := w.answers.of(k.route)
		w.putHTTP2(i, c, &ans, k.route, id, false)
		return
	}
	if n == 0 || n > http2.DefaultFrame || n > int(min(h.window, http2.Window(h.peer.InitialWindowSize))) || len(h.waiting) > 0 {
		w.putHTTP2(i, c, &k.answer, k.route, id, false)
		return
	}
	if k.second != w.answers.second || len(k.whole) == 0 {
		k.whole = http2.AppendBlock(k.whole[:0], 0, w.answers.block(&k.answer, k.route), false, http2.DefaultFrame)
		k.dataAt, k.second = len(k.whole), w.answers.second
		k.whole = append(http2.AppendHeader(k.whole, n, http2.Data, http2.EndStream, 0), k.answer.body...)
	}
	h.window.Take(n)
	w.gather(i, c)
	at := len(w.out.b)
	w.out.b = append(w.out.b, k.whole...)
	binary.BigEndian.PutUint32(w.out.b[at+streamAt:], id)
	binary.BigEndian.PutUint32(w.out.b[at+k.dataAt+streamAt:], id)
	w.answered++
	w.pending += len(k.whole)
	w.keepShort(i, c)
}

// streamAt is the offset of the stream's number in a frame header.
const streamAt = 5

// keepShort sends the collected output if it is large.
func (w *floorWorker) keepShort(i uint32, c *floorConn) {
	if len(w.out.b) >= copiesBytes {
		w.flush(i, c)
	}
}

// putHTTP2 responds on a stream. reset means that the request is incomplete and is not waited for
// (section 8.1).
func (w *floorWorker) putHTTP2(i uint32, c *floorConn, ans *reply, route *Route, id uint32, reset bool) {
	h := c.http2
	w.answered++
	w.gather(i, c)
	before := len(w.out.b)
	none := ans.headOnly || len(ans.body) == 0
	w.out.b = http2.AppendBlock(w.out.b, id, w.answers.block(ans, route), none, http2.DefaultFrame)
	switch {
	case !none:
		h.waiting = append(h.waiting, floorStream{id: id, window: http2.Window(h.peer.InitialWindowSize), rest: ans.body, reset: reset})
	case reset:
		w.out.b = http2.AppendReset(w.out.b, id, http2.NoError)
	}
	w.pending += len(w.out.b) - before
	w.release(i, c)
}

// release sends waiting responses as far as flow control allows, until the turn is over.
func (w *floorWorker) release(i uint32, c *floorConn) {
	h := c.http2
	kept := h.waiting[:0]
	for k := range h.waiting {
		s := &h.waiting[k]
		for len(s.rest) > 0 {
			if w.pending >= batchBytes {
				w.soon(i, c)
				break
			}
			n := min(len(s.rest), int(h.peer.MaxFrameSize), copiesBytes, max(int(s.window), 0), max(int(h.window), 0))
			if n == 0 {
				break
			}
			s.window.Take(n)
			h.window.Take(n)
			w.gather(i, c)
			flags := uint8(0)
			if n == len(s.rest) {
				flags = http2.EndStream
			}
			w.out.b = append(http2.AppendHeader(w.out.b, n, http2.Data, flags, s.id), s.rest[:n]...)
			s.rest = s.rest[n:]
			w.pending += http2.HeaderBytes + n
			w.keepShort(i, c)
		}
		switch {
		case len(s.rest) > 0:
			kept = append(kept, *s)
		case s.reset:
			w.gather(i, c)
			w.out.b = http2.AppendReset(w.out.b, s.id, http2.NoError)
		}
	}
	clear(h.waiting[len(kept):])
	h.waiting = kept
}

// block returns the header block of a response, cached for cached responses.
func (a *answers) block(ans *reply, route *Route) []byte {
	if !ans.lasting || ans.headOnly {
		return ans.appendBlock(nil, a.date)
	}
	key := pageKey{&ans.body[0], len(ans.body), route}
	k := a.blocks[key]
	if k == nil {
		if len(a.blocks) >= maxPages {
			clear(a.blocks)
		}
		k = new(floorBlock)
		a.blocks[key] = k
	}
	if k.second != a.second {
		k.bytes, k.second = ans.appendBlock(k.bytes[:0], a.date), a.second
	}
	return k.bytes
}

// appendBlock appends the response head as a header block.
func (a *reply) appendBlock(b []byte, date string) []byte {
	b = hpack.AppendField(b, ":status", a.status[:len("200")], false)
	b = hpack.AppendField(b, "date", date, false)
	b = hpack.AppendField(b, "content-type", a.contentType, false)
	if a.encoding != "" {
		b = hpack.AppendField(b, "content-encoding", a.encoding, false)
	}
	if a.allow {
		b = hpack.AppendField(b, "allow", "GET, HEAD", false)
	}
	return hpack.AppendField(b, "content-length", strconv.Itoa(len(a.body)), false)
}
