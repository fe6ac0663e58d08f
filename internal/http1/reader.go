package http1

// Reader frames the responses of one connection. The zero value is ready. It is
// small (10,000 connections have one each) and holds no memory on the heap
// unless a line of a head is split over two reads. It belongs to the goroutine
// that owns the connection.
type Reader struct {
	body    Body // also cuts the lines of the head
	head    head
	status  uint16
	at      readerAt
	interim uint8 // 1xx responses before this one
	failed  FramingError
}

// readerAt is the next thing expected.
type readerAt uint8

const (
	atStatus readerAt = iota
	atField
	atBody
)

// Next takes the bytes of b that belong to the current response: b is a view of
// the receive buffer, used only during the call. It returns their number and
// whether the response is complete; the bytes after n belong to the next one.
// Interim responses (100, 103) are skipped as part of the final one; 101 is
// final, and the connection speaks another protocol after it.
//
// noBody says that the response answers HEAD. l, if not nil, is searched before
// the head is parsed, and learns heads worth remembering.
//
// The body of server-sent events is not taken together with its head, but piece by piece by Data.
//
// An error is a FramingError and final: the connection must be closed.
func (r *Reader) Next(b []byte, noBody bool, l *Learned) (n int, done bool, err error) {
	if l != nil && !noBody && r.Idle() {
		n, rest, status := l.Match(b)
		if n != 0 {
			r.status, r.head.flags, r.head.odd = uint16(status), 0, 0
			if rest == 0 {
				return n, true, nil
			}
			r.body.rest, r.body.at, r.at = rest, bodyBytes, atBody
			return n, false, nil
		}
	}
	if r.failed != 0 {
		return 0, false, r.failed
	}
	if r.at != atBody {
		n, err = r.readHead(b, noBody, l)
		if err != nil || r.at != atBody || r.EventStream() && !r.body.Ended() {
			return n, false, err
		}
	}
	m, done, err := r.body.Skip(b[n:])
	n += m
	if err != nil {
		r.failed = err.(FramingError)
	} else if done {
		r.finish()
	}
	return n, done, err
}

// Data is Next for the rest of a body whose payload is read: it takes the bytes of b up to the end of
// the first piece of payload, a view of b; empty if there is none in b.
func (r *Reader) Data(b []byte) (data []byte, n int, done bool, err error) {
	if r.failed != 0 {
		return nil, 0, false, r.failed
	}
	data, n, done, err = r.body.Next(b)
	if err != nil {
		r.failed = err.(FramingError)
	} else if done {
		r.finish()
	}
	return data, n, done, err
}

// Run takes complete responses of one status from the start of b, at most max, while each equals a
// learned one, and returns the bytes and responses taken. It is Next for pipelined responses,
// without the full parser: Next handles what it leaves. A reader inside a response takes nothing.
func (r *Reader) Run(b []byte, l *Learned, max int) (n, responses int) {
	if l == nil || !r.Idle() {
		return 0, 0
	}
	for responses < max && n < len(b) {
		m, rest, status := l.Match(b[n:])
		if m == 0 || rest != 0 || responses > 0 && uint16(status) != r.status {
			break
		}
		r.status, r.head.flags, r.head.odd = uint16(status), 0, 0
		n += m
		responses++
		// Identical responses cost one memory comparison each.
		same := l.recentWhole()
		for len(same) > 0 && responses < max && len(b)-n >= len(same) && string(b[n:n+len(same)]) == string(same) {
			n += len(same)
			responses++
		}
	}
	return n, responses
}

// readHead takes lines until the head of a final response is complete, and then
// sets up its body.
func (r *Reader) readHead(b []byte, noBody bool, l *Learned) (n int, err error) {
	lesson := lesson{start: -1}
	if r.Idle() && l != nil && !noBody {
		lesson.start = 0
	}
	for r.at != atBody && n < len(b) {
		if r.at == atStatus && !startsLikeResponse(r.body.lines.partial, b[n:]) {
			return n, r.fail(ErrStatusLine)
		}
		line, used, is := r.body.lines.next(b[n:], MaxHead)
		var e FramingError
		switch {
		case is == lineSplit:
		case is == lineLong:
			e = ErrHeaderTooLarge
		case r.at == atStatus && (is == lineBare || !r.statusLine(line)):
			e = ErrStatusLine
		case r.at == atStatus:
			r.at, r.head.tolerant = atField, true
		case is == lineBare:
			e = ErrHeader
		case len(line) == 0:
			if e = r.endHead(noBody); e == 0 && r.at == atBody {
				lesson.teach(l, r, b, n+used)
			} else {
				lesson.start = -1
			}
		case r.head.foldable && (line[0] == ' ' || line[0] == '\t'):
			// RFC 9112, section 5.2: a folded line continues the value behind a space.
			if r.head.odd |= folded; !validText(line) {
				e = ErrHeader
			}
			lesson.start = -1
		default:
			name, value, ok := splitField(line)
			if !ok {
				e = ErrHeader
				break
			}
			before := r.head.digits
			e = r.head.note(name, value)
			if r.head.digits != before {
				// Both slices end where their array ends, so their capacities differ by the value's
				// offset in the line.
				lesson.from = n + cap(line) - cap(value)
				lesson.to = lesson.from + len(value)
			} else if before != 0 && equalFold(name, "content-length") {
				lesson.start = -1 // two holes for digits: rare, left to the full parser
			}
			if r.head.odd != 0 {
				lesson.start = -1
			}
		}
		if e != 0 {
			return n, r.fail(e)
		}
		n += used
	}
	return n, nil
}

func (r *Reader) fail(e FramingError) error {
	r.body.lines.free()
	r.failed = e
	return e
}

// startsLikeResponse reports whether partial followed by b may begin a status line. It is called
// before the line is complete, so that a peer that speaks another protocol is detected by its first
// bytes and not by a timeout.
func startsLikeResponse(partial, b []byte) bool {
	const want = "HTTP/1."
	if len(partial) == 0 && len(b) >= len(want) {
		return string(b[:len(want)]) == want
	}
	if len(partial) >= len(want) {
		return true
	}
	b = b[:min(len(b), len(want)-len(partial))]
	return string(b) == want[len(partial):len(partial)+len(b)]
}

// statusLine reads HTTP/1.x SP 3DIGIT, then nothing or SP and a reason phrase.
func (r *Reader) statusLine(line []byte) bool {
	if len(line) < len("HTTP/1.1 200") || line[7]-'0' > 9 || line[8] != ' ' {
		return false
	}
	status := 0
	for _, c := range line[9:12] {
		if c-'0' > 9 {
			return false
		}
		status = status*10 + int(c-'0')
	}
	if status < 100 || len(line) > 12 && (line[12] != ' ' || !validText(line[13:])) {
		return false
	}
	r.status = uint16(status)
	r.head = head{}
	if line[7] == '0' {
		r.head.flags = isOld
	}
	return true
}

// endHead decides how the response ends: RFC 9112, section 6.3. After an interim response it
// prepares for the next head.
func (r *Reader) endHead(noBody bool) FramingError {
	if e := r.head.check(); e != 0 {
		return e
	}
	r.body.lines.size = 0
	if r.status < 200 && r.status != 101 {
		if r.interim++; r.interim > MaxInterim {
			return ErrInterim
		}
		r.at = atStatus
		return 0
	}
	body := bodyOf(&r.head, bodyClose)
	if noBody || r.status == 101 || r.status == 204 || r.status == 304 {
		body = Body{}
	}
	if r.status == 101 || body.at == bodyClose || !r.head.keepAlive() {
		r.head.flags |= closing
	}
	r.body, r.at = body, atBody
	r.body.tolerant = true
	return 0
}

func (r *Reader) finish() {
	if r.body.blank {
		r.head.odd |= chunkBlank
	}
	r.body = Body{}
	r.at, r.interim = atStatus, 0
}

// Rest returns how many bytes of a body of known length are still to come.
func (r *Reader) Rest() int64 {
	if r.at != atBody || r.body.at != bodyBytes {
		return 0
	}
	return r.body.rest
}

// Pass skips n bytes of the Rest unread, and reports whether the response is complete.
func (r *Reader) Pass(n int64) (done bool) {
	if r.body.rest -= n; r.body.rest == 0 {
		r.finish()
		return true
	}
	return false
}

// Status returns the status code of the response just completed.
func (r *Reader) Status() int { return int(r.status) }

// Tolerated names the fault of the response just completed that common clients accept, and a strict one
// does not; "": none. No two of them read such a response otherwise.
func (r *Reader) Tolerated() string {
	switch {
	case r.head.odd&chunkBlank != 0:
		return "a blank behind a chunk size"
	case r.head.odd&folded != 0:
		return "a header field folded over two lines"
	case r.head.odd != 0:
		return "a list of equal values in Content-Length"
	}
	return ""
}

// Closing reports whether the connection ends with the response just completed:
// the server said so, or speaks HTTP/1.0 without keep-alive, or switched
// protocols, or marked the end of the body by closing.
func (r *Reader) Closing() bool { return r.head.flags&closing != 0 }

// EventStream reports whether the current response is a body of server-sent events, which may not
// end.
func (r *Reader) EventStream() bool { return r.at == atBody && r.head.flags&isEvents != 0 }

// Idle reports whether the reader is between two responses and holds nothing.
func (r *Reader) Idle() bool {
	return r.at == atStatus && r.interim == 0 && len(r.body.lines.partial) == 0 && r.failed == 0
}

// EOF returns what it means that the peer closed here: done if that completes a body that lasts
// until the close; nothing (false, nil) if the reader was idle; else ErrClosedInHead or
// ErrShortBody, or the error that Next returned.
func (r *Reader) EOF() (done bool, err error) {
	switch {
	case r.failed != 0:
		return false, r.failed
	case r.Idle():
		return false, nil
	case r.at != atBody:
		return false, r.fail(ErrClosedInHead)
	case r.body.at != bodyClose:
		return false, r.fail(ErrShortBody)
	}
	r.finish()
	return true, nil
}

// Reset makes the reader ready for a new connection.
func (r *Reader) Reset() { *r = Reader{} }
