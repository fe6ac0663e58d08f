package http1

import (
	"bytes"
	"encoding/binary"
)

// tokenChars holds c at position c when c may stand in a token (RFC 9110,
// section 5.6.2) and a blank when not. A constant string is read-only data and
// a byte needs no bounds check in it.
const tokenChars = "" +
	"                                " + // 00–1f
	" ! #$%&'  *+ -. 0123456789      " + // 20–3f
	" ABCDEFGHIJKLMNOPQRSTUVWXYZ   ^_" + // 40–5f
	"`abcdefghijklmnopqrstuvwxyz | ~ " + // 60–7f
	"                                " +
	"                                " +
	"                                " +
	"                                "

func isToken(c byte) bool { return tokenChars[c] != ' ' }

// splitField splits a field line without its CRLF. It rejects what RFC 9112, section 5, rejects: an
// empty name, blanks before the colon, a folded line (its first byte is a blank, so its name is
// empty), control bytes.
func splitField(line []byte) (name, value []byte, ok bool) {
	return splitLenient(line, false)
}

// splitLenient is splitField, but in a destination's line control bytes other than CR and NUL become
// spaces, in place: RFC 9110, section 5.5. Other proxies retain them, and clients may reject them.
func splitLenient(line []byte, lenient bool) (name, value []byte, ok bool) {
	name, value, ok = cutField(line)
	switch {
	case !ok || validText(value):
		return name, value, ok
	case !lenient || bytes.IndexByte(value, 0) >= 0 || bytes.IndexByte(value, '\r') >= 0:
		return nil, nil, false
	}
	for i, c := range value {
		if c < ' ' || c == 0x7f {
			value[i] = ' '
		}
	}
	return name, trim(value), true
}

// cutField is splitField for a value of any bytes.
func cutField(line []byte) (name, value []byte, ok bool) {
	i := 0
	for i < len(line) && isToken(line[i]) {
		i++
	}
	if i == 0 || i == len(line) || line[i] != ':' {
		return nil, nil, false
	}
	return line[:i], trim(line[i+1:]), true
}

// trim removes optional white space (SP and HTAB) around a field value.
func trim(v []byte) []byte {
	for len(v) > 0 && (v[0] == ' ' || v[0] == '\t') {
		v = v[1:]
	}
	for len(v) > 0 && (v[len(v)-1] == ' ' || v[len(v)-1] == '\t') {
		v = v[:len(v)-1]
	}
	return v
}

// validText reports whether v has no control bytes apart from HTAB: RFC 9110, section 5.5. It
// checks eight bytes at a time; byte by byte it would be half the cost of a head.
func validText(v []byte) bool {
	const (
		ones  = 0x0101010101010101
		highs = 0x80 * ones
	)
	for len(v) >= 8 {
		x := binary.LittleEndian.Uint64(v)
		del := x ^ 0x7f*ones
		// A byte borrows from its high bit if it is below the subtrahend; bytes from 80 on are
		// masked out. A borrow can only propagate after a real hit, so "any" is exact.
		if (x-0x20*ones)&^x&highs|(del-ones)&^del&highs != 0 && !plainText(v[:8]) {
			return false
		}
		v = v[8:]
	}
	return plainText(v)
}

func plainText(v []byte) bool {
	for _, c := range v {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// equalFold compares a name with one in lower-case letters and hyphens. name
// must be a token, or at least free of control bytes: they would fold onto
// punctuation.
func equalFold(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if c|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// head is what a message head says about the end of the message and of the connection.
type head struct {
	length int64 // Content-Length
	digits uint8 // its number of digits; 0: no such field
	flags  flags
	// tolerant heads are those of a load's responses, and odd is what was tolerated: see Reader.Tolerated.
	tolerant bool
	odd      odd
	// foldable: the last field has no say in where the message ends, so that its value may be folded.
	foldable bool
}

// odd is a set of faults that common clients accept.
type odd uint8

const (
	lengthList odd = 1 << iota // Content-Length: 5, 5
	chunkBlank                 // a blank behind a chunk size
	folded                     // a field over two lines, obs-fold
)

type flags uint8

const (
	isOld     flags = 1 << iota // HTTP/1.0
	isChunked                   // Transfer-Encoding: chunked
	saysClose                   // Connection: close
	saysKeep                    // Connection: keep-alive
	closing                     // Reader: the connection ends with this message
	isEvents                    // Content-Type: text/event-stream
	isLenient                   // a destination's response, see Lines
)

// note handles one field.
func (h *head) note(name, value []byte) FramingError {
	h.foldable = h.tolerant
	switch len(name) {
	case len("connection"):
		if equalFold(name, "connection") {
			h.foldable = false
			h.connection(value)
		}
	case len("content-type"):
		if kind := "text/event-stream"; equalFold(name, "content-type") && len(value) >= len(kind) && equalFold(value[:len(kind)], kind) {
			h.flags |= isEvents
		}
	case len("content-length"):
		if equalFold(name, "content-length") {
			h.foldable = false
			return h.contentLength(value)
		}
	case len("transfer-encoding"):
		if equalFold(name, "transfer-encoding") {
			h.foldable = false
			return h.transferEncoding(value)
		}
	}
	return 0
}

func (h *head) connection(value []byte) {
	for len(value) > 0 {
		end := 0
		for end < len(value) && value[end] != ',' {
			end++
		}
		switch option := trim(value[:end]); {
		case equalFold(option, "close"):
			h.flags |= saysClose
		case equalFold(option, "keep-alive"):
			h.flags |= saysKeep
		}
		value = value[min(end+1, len(value)):]
	}
}

// contentLength accepts 1 to mostDigits digits, and of a destination any zeros before them. A
// repeated field must have the same text (RFC 9112, section 6.3, lets us treat identical ones as
// one); equal value and equal number of digits is the same text. A list in one field is that in a
// tolerant head alone.
func (h *head) contentLength(value []byte) FramingError {
	for first, rest, list := bytes.Cut(value, []byte(",")); list && h.tolerant; first, rest, list = bytes.Cut(value, []byte(",")) {
		if e := h.contentLength(trim(first)); e != 0 {
			return e
		}
		value, h.odd = trim(rest), h.odd|lengthList
	}
	for h.flags&isLenient != 0 && len(value) > mostDigits && value[0] == '0' {
		value = value[1:]
	}
	length, n := decimal(value)
	if n == 0 || n != len(value) {
		return ErrContentLength
	}
	if h.digits != 0 && (h.length != length || int(h.digits) != n) {
		return ErrContentLengths
	}
	h.length, h.digits = length, uint8(n)
	return 0
}

// mostDigits of a decimal number cannot overflow.
const mostDigits = 18

// decimal parses the digits at the start of b, at most mostDigits, and returns their number.
func decimal(b []byte) (value int64, digits int) {
	for digits < len(b) && digits < mostDigits {
		d := b[digits] - '0'
		if d > 9 {
			break
		}
		value = value*10 + int64(d)
		digits++
	}
	return value, digits
}

// transferEncoding accepts one field with the one coding that every recipient must know. Older
// peers ignore the field, so in HTTP/1.0 two readers would see different ends: RFC 9112, section
// 6.1, calls such framing faulty.
func (h *head) transferEncoding(value []byte) FramingError {
	switch {
	case h.flags&(isOld|isLenient) == isOld:
		return ErrTransferEncodingOld
	case h.flags&isChunked != 0 || !equalFold(value, "chunked"):
		return ErrTransferEncoding
	}
	h.flags |= isChunked
	return 0
}

// check does the checks that need all fields.
func (h *head) check() FramingError {
	if h.flags&isLenient != 0 && h.flags&isChunked != 0 {
		if h.digits != 0 || h.flags&isOld != 0 { // the chunks count (RFC 9112, section 6.3), and nothing may follow
			h.flags |= saysClose
		}
		h.digits, h.length = 0, 0
		return 0
	}
	if h.digits != 0 && h.flags&isChunked != 0 {
		return ErrLengthAndEncoding
	}
	return 0
}

// keepAlive reports whether the connection may carry another message: RFC 9112,
// section 9.3.
func (h *head) keepAlive() bool {
	if h.flags&saysClose != 0 {
		return false
	}
	return h.flags&isOld == 0 || h.flags&saysKeep != 0
}
