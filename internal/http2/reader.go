package http2

import "encoding/binary"

// Event is a frame, or a piece of a DATA frame. Its bytes are views of the input to Next, or of
// memory that is valid until the next call.
type Event struct {
	Type   Type
	Flags  uint8
	Stream uint32
	// Payload without padding: for HEADERS and PUSH_PROMISE the whole header block, whatever frames
	// it came in; for DATA the available part.
	Payload []byte
	// First piece of a frame; true for any frame but DATA.
	First bool
	// Flow is what a DATA frame takes from the windows, including padding (section 6.1): all of the
	// frame with its first piece, then 0.
	Flow uint32
	// End reports whether the sender has ended the stream: END_STREAM, with the last piece of the
	// frame.
	End bool
	// Promised is the stream of a PUSH_PROMISE; the last stream of a GOAWAY; the
	// increment of a WINDOW_UPDATE.
	Promised uint32
	// Code of RST_STREAM and GOAWAY.
	Code Code
}

// Reader parses frames. The zero value applies the default limits, as for a peer that was sent no
// others.
type Reader struct {
	// FrameMost is the longest frame allowed, as announced; 0: DefaultFrame.
	FrameMost uint32
	// BlockMost bounds a header block on the wire; 0: DefaultBlock.
	BlockMost int
	// FloodMost is how many frames that carry nothing (SETTINGS, PING, PRIORITY, pieces of a header
	// block, DATA without data) may come without a header block or data between them, beyond those
	// that Forgive allows; 0: DefaultFlood.
	FloodMost int

	event   Event
	body    uint32 // of a DATA frame, still to come
	padding uint32 // after it
	flow    uint32 // of it, not yet reported
	inData  bool
	begins  bool  // nothing of it has been reported
	block   bool  // a CONTINUATION must follow
	begun   Event // the frame that it follows
	flood   int
	partial []byte // a frame whose rest is pending
	joined  []byte // a header block in several frames
	failed  *Error
}

const (
	// DefaultBlock is 256 KiB: four times the largest heads in use.
	DefaultBlock = 1 << 18
	// DefaultFlood is 1,000 frames: a header block of 256 KiB comes in 17.
	DefaultFlood = 1000
)

// Next takes the bytes of b that belong to the next event: n of them. ev is nil if more bytes are
// needed. An error with a Stream concerns only that stream, and reading may continue; any other is
// final. The caller checks what an event says about streams.
func (r *Reader) Next(b []byte) (ev *Event, n int, err *Error) {
	if r.failed != nil {
		return nil, len(b), r.failed
	}
	if r.inData {
		return r.data(b, 0)
	}
	frame, n := r.whole(b)
	if frame == nil {
		return nil, n, r.failed
	}
	ev, err = r.frame(frame)
	if err == nil && r.inData {
		return r.data(b[n:], n)
	}
	if err != nil && err.Stream == 0 {
		r.failed = err
	}
	return ev, n, err
}

// whole returns the frame at the start of b, including earlier pieces of it; for DATA only its
// header and padding length, because the rest is passed on as it arrives. nil: more bytes are
// needed.
func (r *Reader) whole(b []byte) (frame []byte, n int) {
	if len(r.partial) == 0 && len(b) >= HeaderBytes {
		need := r.need(b)
		if r.failed != nil {
			return nil, len(b)
		}
		if len(b) >= need {
			return b[:need], need
		}
	}
	for {
		need := HeaderBytes
		if len(r.partial) >= HeaderBytes {
			if need = r.need(r.partial); r.failed != nil {
				return nil, len(b)
			}
		}
		if more := need - len(r.partial); more > 0 {
			more = min(more, len(b)-n)
			r.partial = append(r.partial, b[n:n+more]...)
			n += more
		}
		if len(r.partial) < need {
			return nil, n
		}
		if need > HeaderBytes || r.need(r.partial) == HeaderBytes {
			frame, r.partial = r.partial, r.partial[:0]
			return frame, n
		}
	}
}

// need returns how many bytes of the frame that begins with b must be available.
func (r *Reader) need(b []byte) int {
	length := uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	most := r.FrameMost
	if most == 0 {
		most = DefaultFrame
	}
	if length > most {
		r.failed = fault(FrameSizeError, "frame longer than announced")
		return 0
	}
	if Type(b[3]) == Data {
		if b[4]&Padded != 0 && length > 0 {
			return HeaderBytes + 1
		}
		return HeaderBytes
	}
	return HeaderBytes + int(length)
}

// data passes on what b has of a DATA frame, of which taken bytes were its header.
func (r *Reader) data(b []byte, taken int) (ev *Event, n int, err *Error) {
	have := min(r.body, uint32(len(b)))
	r.body -= have
	pad := min(r.padding, uint32(len(b))-have)
	r.padding -= pad
	n = taken + int(have+pad)
	r.inData = r.body+r.padding > 0
	if have == 0 && r.inData {
		return nil, n, nil
	}
	if have > 0 {
		r.flood = 0
	}
	e := &r.event
	e.Payload, e.Flow, e.First, r.flow, r.begins = b[:have], r.flow, r.begins, 0, false
	e.End = !r.inData && e.Flags&EndStream != 0
	return e, n, nil
}

// frame handles one whole frame, or the beginning of DATA.
func (r *Reader) frame(b []byte) (*Event, *Error) {
	e := &r.event
	length := uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	*e = Event{First: true, Type: Type(b[3]), Flags: b[4], Stream: binary.BigEndian.Uint32(b[5:]) & MaxStream, Payload: b[HeaderBytes:]}
	if r.block != (e.Type == Continuation) {
		return nil, fault(ProtocolError, "CONTINUATION out of place")
	}
	switch e.Type {
	case Headers, PushPromise, WindowUpdate, ResetStream:
		// One head per stream, and one end; windows grow with the data sent.
	default:
		if r.flood++; r.flood > r.floodMost() {
			return nil, fault(EnhanceYourCalm, "too many frames that carry nothing")
		}
	}
	switch e.Type {
	case Data, Headers, Priority, ResetStream, Continuation, PushPromise:
		if e.Stream == 0 {
			return nil, fault(ProtocolError, "frame of a stream without one")
		}
	case SettingsFrame, Ping, GoAway:
		if e.Stream != 0 {
			return nil, fault(ProtocolError, "frame of the connection on a stream")
		}
	}
	switch e.Type {
	case Data:
		return nil, r.beginData(length)
	case Headers, PushPromise:
		return r.beginBlock()
	case Continuation:
		return r.goOn()
	case Priority:
		if length != 5 {
			return nil, &Error{FrameSizeError, e.Stream, "PRIORITY of a wrong length"}
		}
		return nil, r.dependsOn(e.Payload)
	case ResetStream:
		if length != 4 {
			return nil, fault(FrameSizeError, "RST_STREAM of a wrong length")
		}
		e.Code = Code(binary.BigEndian.Uint32(e.Payload))
	case SettingsFrame:
		if e.Flags&Ack != 0 && length != 0 || length%6 != 0 {
			return nil, fault(FrameSizeError, "SETTINGS of a wrong length")
		}
	case Ping:
		if length != 8 {
			return nil, fault(FrameSizeError, "PING of a wrong length")
		}
	case GoAway:
		if length < 8 {
			return nil, fault(FrameSizeError, "GOAWAY of a wrong length")
		}
		e.Promised = binary.BigEndian.Uint32(e.Payload) & MaxStream
		e.Code = Code(binary.BigEndian.Uint32(e.Payload[4:]))
	case WindowUpdate:
		if length != 4 {
			return nil, fault(FrameSizeError, "WINDOW_UPDATE of a wrong length")
		}
		if e.Promised = binary.BigEndian.Uint32(e.Payload) & MaxStream; e.Promised == 0 {
			return nil, &Error{ProtocolError, e.Stream, "WINDOW_UPDATE of 0"}
		}
	default:
		return nil, nil // section 5.5: unknown types are ignored
	}
	return e, nil
}

// Forgive allows the peer one more frame that carries nothing, for a DATA frame that was sent to
// it: gRPC answers each with at most one PING, to measure the connection's bandwidth-delay product,
// and sends nothing else while a long response arrives.
func (r *Reader) Forgive() { r.flood = max(r.flood-1, 0) }

func (r *Reader) floodMost() int {
	if r.FloodMost == 0 {
		return DefaultFlood
	}
	return r.FloodMost
}

// beginData sets up the rest of a DATA frame, after its padding length.
func (r *Reader) beginData(length uint32) *Error {
	e := &r.event
	r.flow, r.body, r.padding, r.inData, r.begins = length, length, 0, true, true
	if e.Flags&Padded != 0 {
		if length == 0 {
			return fault(FrameSizeError, "padded frame without a length of padding")
		}
		r.padding = uint32(e.Payload[0])
		if r.padding >= length {
			return fault(ProtocolError, "padding longer than its frame")
		}
		r.body -= 1 + r.padding
	}
	return nil
}

// beginBlock handles a header block, or its beginning.
func (r *Reader) beginBlock() (*Event, *Error) {
	e := &r.event
	if e.Flags&Padded != 0 {
		if len(e.Payload) == 0 {
			return nil, fault(FrameSizeError, "padded frame without a length of padding")
		}
		pad := int(e.Payload[0])
		if pad >= len(e.Payload) {
			return nil, fault(ProtocolError, "padding longer than its frame")
		}
		e.Payload = e.Payload[1 : len(e.Payload)-pad]
	}
	var wrong *Error
	switch {
	case e.Type == PushPromise:
		if len(e.Payload) < 4 {
			return nil, fault(FrameSizeError, "PUSH_PROMISE of a wrong length")
		}
		e.Promised = binary.BigEndian.Uint32(e.Payload) & MaxStream
		e.Payload = e.Payload[4:]
	case e.Flags&Prioritied != 0:
		if len(e.Payload) < 5 {
			return nil, fault(FrameSizeError, "HEADERS too short for a priority")
		}
		wrong = r.dependsOn(e.Payload)
		e.Payload = e.Payload[5:]
	}
	if wrong != nil {
		// A stream error by section 5.3.1 of RFC 7540; but the block would have to be decoded all
		// the same, for the decoder's state, and no peer sends this.
		return nil, fault(wrong.Code, wrong.Reason)
	}
	e.End = e.Type == Headers && e.Flags&EndStream != 0
	if e.Flags&EndHeaders == 0 {
		r.block, r.begun = true, *e
		r.joined = append(r.joined[:0], e.Payload...)
		return nil, r.bounded(len(r.joined))
	}
	r.flood = 0
	return e, r.bounded(len(e.Payload))
}

// goOn handles a CONTINUATION.
func (r *Reader) goOn() (*Event, *Error) {
	e := &r.event
	if e.Stream != r.begun.Stream {
		return nil, fault(ProtocolError, "CONTINUATION out of place")
	}
	r.joined = append(r.joined, e.Payload...)
	if err := r.bounded(len(r.joined)); err != nil || e.Flags&EndHeaders == 0 {
		return nil, err
	}
	*e, r.block, r.flood = r.begun, false, 0
	e.Flags |= EndHeaders
	e.Payload = r.joined
	return e, nil
}

func (r *Reader) bounded(block int) *Error {
	most := r.BlockMost
	if most == 0 {
		most = DefaultBlock
	}
	if block > most {
		return fault(EnhanceYourCalm, "header block too long")
	}
	return nil
}

// dependsOn checks a priority, of which only this is still of use (section 5.3.2).
func (r *Reader) dependsOn(b []byte) *Error {
	if binary.BigEndian.Uint32(b)&MaxStream == r.event.Stream {
		return &Error{ProtocolError, r.event.Stream, "stream that depends on itself"}
	}
	return nil
}

// Unfinished reports whether the rest of a frame other than DATA, or of a header block, is pending.
func (r *Reader) Unfinished() bool { return r.block || len(r.partial) > 0 }

// keptBytes is how much memory a reader keeps for frames in pieces.
const keptBytes = 4 << 10

// Shrink releases the memory of large frames and header blocks that came in pieces. The payload of
// the last event becomes invalid.
func (r *Reader) Shrink() {
	r.event.Payload = nil
	if cap(r.partial) > keptBytes && len(r.partial) == 0 {
		r.partial = nil
	}
	if !r.block {
		r.begun = Event{}
		if cap(r.joined) > keptBytes {
			r.joined = nil
		}
	}
}

// Idle reports whether the reader is between two frames and two header blocks.
func (r *Reader) Idle() bool { return !r.inData && !r.block && len(r.partial) == 0 && r.failed == nil }
