package websocket

import (
	"encoding/binary"
	"unicode/utf8"
)

// Event is what ended a piece of a server's bytes.
type Event uint8

// Events.
const (
	// None: part of a message, or nothing of interest to the caller.
	None Event = iota
	// Message: the piece ends a message; a short message is a single piece.
	Message
	// Ping requires a pong with its Control payload. Pong is unsolicited: we send no pings.
	Ping
	Pong
	// Close: the server closes the connection, with CloseCode.
	Close
)

// Reader parses what a server sends. The zero value is ready. Its only heap memory is the payload
// of a control frame split over two reads.
type Reader struct {
	head    [10]byte // of a frame, as far as received
	have    uint8
	at      readerAt
	op      byte // of the current frame
	final   bool
	within  byte // opcode of the fragmented message in progress; 0: none
	tail    text // of a text message
	failed  ProtocolError
	rest    uint64 // remaining payload of the frame
	size    uint64 // of the message so far
	control []byte
	code    uint16
}

type readerAt uint8

const (
	atHead readerAt = iota
	atPayload
)

// Next consumes bytes from the start of b, which it uses only during the call: up to the end of a
// frame or of b. piece is message payload, a slice of b; n is the number of bytes consumed. An
// error is a ProtocolError and final.
func (r *Reader) Next(b []byte) (piece []byte, n int, is Event, err error) {
	if r.failed != 0 {
		return nil, 0, None, r.failed
	}
	if r.at == atHead {
		used, whole, e := r.readHead(b)
		if e != 0 {
			return nil, used, None, r.fail(e)
		}
		if n = used; !whole {
			return nil, n, None, nil
		}
		r.at = atPayload
	}
	step := int(min(r.rest, uint64(len(b)-n)))
	piece = b[n : n+step]
	n += step
	r.rest -= uint64(step)
	if r.op >= opClose {
		is, e := r.readControl(piece)
		if e != 0 {
			return nil, n, None, r.fail(e)
		}
		return nil, n, is, nil
	}
	if r.within == opText && !r.tail.take(piece) {
		return nil, n, None, r.fail(ErrText)
	}
	if r.rest > 0 {
		return piece, n, None, nil
	}
	r.at = atHead
	if !r.final {
		return piece, n, None, nil
	}
	if r.within == opText && !r.tail.whole() {
		return nil, n, None, r.fail(ErrText)
	}
	r.within, r.size = 0, 0
	return piece, n, Message, nil
}

func (r *Reader) fail(e ProtocolError) error {
	r.failed = e
	return e
}

// readHead consumes the head of a frame, which has 2, 4 or 10 bytes.
func (r *Reader) readHead(b []byte) (n int, whole bool, e ProtocolError) {
	need := 2
	for {
		if r.have >= 2 {
			// The first two are checked as soon as they arrive, to detect a server with another
			// protocol at once.
			if need, e = r.checkHead(); e != 0 {
				return n, false, e
			}
		}
		if int(r.have) == need {
			break
		}
		used := copy(r.head[r.have:need], b[n:])
		if n += used; used == 0 {
			return n, false, 0
		}
		r.have += uint8(used)
		if int(r.have) < need {
			return n, false, 0
		}
	}
	r.have = 0
	return n, true, r.takeHead()
}

// checkHead validates the first two bytes, and returns the length of the head.
func (r *Reader) checkHead() (need int, e ProtocolError) {
	first, second := r.head[0], r.head[1]
	op, length := first&0x0f, second&0x7f
	switch {
	case first&0x70 != 0:
		return 0, ErrReserved
	case op > opBinary && op < opClose || op > opPong:
		return 0, ErrOpcode
	case second&0x80 != 0:
		return 0, ErrMasked
	case op >= opClose && first&0x80 == 0:
		return 0, ErrControlFragment
	case op >= opClose && length > maxControl:
		return 0, ErrControlLength
	case op == opContinuation && r.within == 0:
		return 0, ErrContinuation
	case (op == opText || op == opBinary) && r.within != 0:
		return 0, ErrInterleaved
	}
	switch length {
	case 126:
		return 4, 0
	case 127:
		return 10, 0
	}
	return 2, 0
}

// takeHead begins the frame of a complete head.
func (r *Reader) takeHead() ProtocolError {
	r.op, r.final = r.head[0]&0x0f, r.head[0]&0x80 != 0
	switch length := r.head[1] & 0x7f; length {
	case 126:
		if r.rest = uint64(binary.BigEndian.Uint16(r.head[2:])); r.rest < 126 {
			return ErrLength
		}
	case 127:
		if r.rest = binary.BigEndian.Uint64(r.head[2:]); r.rest < 1<<16 || r.rest > 1<<63-1 {
			return ErrLength
		}
	default:
		r.rest = uint64(length)
	}
	switch r.op {
	case opText, opBinary:
		r.within, r.size, r.tail = r.op, 0, text{}
	case opClose, opPing, opPong:
		r.control = r.control[:0]
		return 0
	}
	if r.size += r.rest; r.size > MaxMessage || r.rest > MaxMessage {
		return ErrTooLarge
	}
	return 0
}

// readControl consumes a piece of a control frame's payload.
func (r *Reader) readControl(piece []byte) (Event, ProtocolError) {
	r.control = append(r.control, piece...)
	if r.rest > 0 {
		return None, 0
	}
	r.at = atHead
	switch r.op {
	case opPing:
		return Ping, 0
	case opPong:
		return Pong, 0
	}
	r.code = closeNoStatus
	if len(r.control) == 0 {
		return Close, 0
	}
	if len(r.control) == 1 || !utf8.Valid(r.control[2:]) {
		return None, ErrClosePayload
	}
	if r.code = binary.BigEndian.Uint16(r.control); !mayClose(r.code) {
		return None, ErrCloseCode
	}
	return Close, 0
}

// mayClose reports whether a code is valid in a close frame (section 7.4).
func mayClose(code uint16) bool {
	switch {
	case code < closeLeast, code > closeMost, code > closeLastOfIETF && code < closePrivate:
		return false
	case code == 1004, code == closeNoStatus, code == 1006:
		return false
	}
	return true
}

// Control returns the payload of the last control frame, valid until the next call of Next.
func (r *Reader) Control() []byte { return r.control }

// CloseCode returns the server's close code; 1005 if none.
func (r *Reader) CloseCode() uint16 { return r.code }

// Idle reports whether the reader is between two messages.
func (r *Reader) Idle() bool { return r.at == atHead && r.have == 0 && r.within == 0 && r.failed == 0 }

// Reset prepares the reader for a new connection.
func (r *Reader) Reset() { *r = Reader{control: r.control[:0]} }

// text validates UTF-8 incrementally: it holds the bytes of a split character.
type text struct {
	part [utf8.UTFMax]byte
	n    uint8
}

// take reports whether the input so far may be valid UTF-8.
func (t *text) take(b []byte) bool {
	for t.n > 0 && len(b) > 0 {
		t.part[t.n] = b[0]
		t.n++
		b = b[1:]
		if utf8.FullRune(t.part[:t.n]) {
			if !utf8.Valid(t.part[:t.n]) {
				return false
			}
			t.n = 0
		}
	}
	if utf8.Valid(b) {
		return true
	}
	// Only its last character may be incomplete.
	for k := 1; k <= min(len(b), utf8.UTFMax-1); k++ {
		if c := b[len(b)-k]; utf8.RuneStart(c) {
			end := b[len(b)-k:]
			if utf8.FullRune(end) || !utf8.Valid(b[:len(b)-k]) {
				return false
			}
			t.n = uint8(copy(t.part[:], end))
			return true
		}
	}
	return false
}

// whole reports whether the text does not end within a character.
func (t *text) whole() bool { return t.n == 0 }
