package http1

import "bytes"

// Body finds the end of one message body. The zero value is a body of no bytes.
type Body struct {
	lines lines
	rest  int64 // bytes of the body, or of the chunk, still to come
	at    bodyAt
	into  *[]byte // see Collect
	// lenient bodies are a destination's, framed again before anyone else reads them: see Lines.
	lenient bool
	// tolerant bodies are those of a load's responses; blank: a chunk size had a blank behind it.
	tolerant, blank bool
}

// OpenBody returns a body that lasts until its owner says that it has ended.
func OpenBody() Body { return Body{at: bodyClose} }

// Collect makes Next append the trailer fields of a chunked body to dst as they arrive, each line
// with its CRLF. nil stops it: a look-ahead with a copy of a Body must not collect twice.
func (f *Body) Collect(dst *[]byte) { f.into = dst }

// bodyAt is the next thing expected.
type bodyAt uint8

const (
	bodyEnd   bodyAt = iota // nothing: the message is complete
	bodyBytes               // rest bytes of a body of known length
	bodyClose               // anything until the peer closes
	chunkLine               // a chunk size, its extensions, CRLF
	chunkData               // rest bytes of a chunk
	chunkTail               // the CRLF after a chunk
	trailers                // trailer fields and the final empty line
)

// bodyOf returns the body that a head announces. A message without length and encoding has none (a
// request) or lasts until the peer closes (a response).
func bodyOf(h *head, otherwise bodyAt) Body {
	switch {
	case h.flags&isChunked != 0:
		return Body{at: chunkLine}
	case h.digits != 0 && h.length == 0:
		return Body{}
	case h.digits != 0:
		return Body{rest: h.length, at: bodyBytes}
	}
	return Body{at: otherwise}
}

// Skip takes the bytes of b that belong to the body and reports whether the body is complete. On an
// error (a FramingError) n ends before the offending line.
func (f *Body) Skip(b []byte) (n int, done bool, err error) {
	for f.at != bodyEnd {
		if n == len(b) {
			return n, false, nil
		}
		switch f.at {
		case bodyBytes, chunkData:
			step := min(f.rest, int64(len(b)-n))
			n += int(step)
			if f.rest -= step; f.rest > 0 {
				return n, false, nil
			}
			if f.at == chunkData {
				f.at = chunkTail
			} else {
				f.at = bodyEnd
			}
		case bodyClose:
			return len(b), false, nil
		default:
			used, e := f.line(b[n:])
			if e != 0 {
				return n, false, e
			}
			n += used
		}
	}
	f.lines.free()
	return n, true, nil
}

// Next is Skip for a caller that passes the body on: it takes the bytes of b up to the end of the
// first piece of payload, a view of b without the chunked coding. Without payload in b data is
// empty.
func (f *Body) Next(b []byte) (data []byte, n int, done bool, err error) {
	for f.at != bodyEnd && n < len(b) {
		switch f.at {
		case bodyBytes, chunkData:
			step := int(min(f.rest, int64(len(b)-n)))
			data = b[n : n+step]
			n += step
			if f.rest -= int64(step); f.rest == 0 && f.at == chunkData {
				f.at = chunkTail
			} else if f.rest == 0 {
				f.at = bodyEnd
			}
			return data, n, f.at == bodyEnd, nil
		case bodyClose:
			return b[n:], len(b), false, nil
		default:
			used, e := f.line(b[n:])
			if e != 0 {
				return nil, n, false, e
			}
			n += used
		}
	}
	if f.at == bodyEnd {
		f.lines.free()
	}
	return nil, n, f.at == bodyEnd, nil
}

// Ended reports whether the body is complete.
func (f *Body) Ended() bool { return f.at == bodyEnd }

// UntilClose reports whether only the peer's close ends the body.
func (f *Body) UntilClose() bool { return f.at == bodyClose }

// line handles one line of the chunked coding: RFC 9112, section 7.1.
func (f *Body) line(b []byte) (n int, e FramingError) {
	limit, long, bad := MaxChunkLine, ErrChunk, ErrChunk
	if f.at == trailers {
		limit, long, bad = MaxTrailer, ErrTrailerTooLarge, ErrTrailer
	}
	line, n, is := f.lines.next(b, limit)
	switch is {
	case lineSplit:
		return n, 0
	case lineLong:
		return n, long
	case lineBare:
		if !f.lenient {
			return n, bad
		}
	}
	switch f.at {
	case chunkLine:
		f.lines.size = 0
		if size := bytes.TrimRight(line, " \t"); f.tolerant && len(size) < len(line) && bytes.IndexByte(size, ';') < 0 {
			line, f.blank = size, true
		}
		size, ok := chunkSize(line, f.lenient)
		if !ok {
			return n, ErrChunk
		}
		f.rest, f.at = size, chunkData
		if size == 0 {
			f.at = trailers
		}
	case chunkTail:
		f.lines.size = 0
		if len(line) != 0 {
			return n, ErrChunk
		}
		f.at = chunkLine
	case trailers:
		if len(line) == 0 {
			f.at = bodyEnd
			break
		}
		if _, _, ok := splitLenient(line, f.lenient); !ok {
			return n, ErrTrailer
		}
		if f.into != nil {
			*f.into = append(append(*f.into, line...), "\r\n"...)
		}
	}
	return n, 0
}

// chunkSize parses 1 to 15 hexadecimal digits (so it cannot overflow), then nothing or an
// extension, before which there may be blanks (RFC 9112, section 7.1.1). It rejects signs, 0x and
// other blanks: implementations have disagreed about each. A lenient size may have more zeros in
// front, blanks behind it, and any extension.
func chunkSize(line []byte, lenient bool) (size int64, ok bool) {
	i := 0
	for lenient && len(line) > 1 && line[0] == '0' && alphanumeric(line[1]) && line[1]|0x20 != 'x' {
		line = line[1:]
	}
	for ; i < len(line); i++ {
		c := line[i]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			rest := bytes.TrimLeft(line[i:], " \t")
			if lenient {
				return size, i > 0 && (len(rest) == 0 || rest[0] == ';')
			}
			return size, i > 0 && len(rest) > 0 && rest[0] == ';' && validText(rest)
		}
		if i == 15 {
			return 0, false
		}
		size = size<<4 | int64(c)
	}
	return size, i > 0
}
