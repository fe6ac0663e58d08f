package eventstream

import "bytes"

// marks reads the marks of an event from its data, a JSON object (RFC 8259), in pieces of any size:
// the members of the object itself, in any order, whatever the rest of it holds. It checks no more
// of the text than it needs to find them.
type marks struct {
	state jsonState
	depth int // of the nested arrays and objects
	back  jsonState
	key   mark
	// text is the current key, number or string, decoded; n is its length, which may be larger.
	text [24]byte
	n    int
	hex  rune // of a \u escape, in as many digits as are left
	left int
	mark Mark
	boot [8]byte
}

// mark is a member that is one.
type mark uint8

const (
	notMark mark = iota
	seqMark
	unixMark
	monotonicMark
	bootMark
)

type jsonState uint8

const (
	beforeObject jsonState = iota
	beforeKey
	inKey
	beforeColon
	beforeValue
	inString // a string that is a value
	inScalar // a number, true, false or null
	nested
	inNestedString
	afterValue
	escaped   // after a backslash
	inUnicode // after \u
	over      // the object has ended, or there is none
)

// begin prepares for the data of an event.
func (m *marks) begin() { m.state, m.depth, m.mark = beforeObject, 0, Mark{} }

// feed reads a piece.
func (m *marks) feed(b []byte) {
	for len(b) > 0 && m.state != over {
		if skipped := m.skip(b); skipped > 0 {
			b = b[skipped:]
			continue
		}
		m.step(b[0])
		b = b[1:]
	}
}

// skip returns how many bytes of a string matter to nothing.
func (m *marks) skip(b []byte) int {
	if m.state != inNestedString && !(m.state == inString && m.key == notMark) {
		return 0
	}
	if end := bytes.IndexAny(b, `"\`); end >= 0 {
		return end
	}
	return len(b)
}

func (m *marks) step(c byte) {
	switch m.state {
	case inKey, inString, inNestedString:
		m.inText(c)
		return
	case escaped, inUnicode:
		m.inEscape(c)
		return
	case nested:
		m.inNested(c)
		return
	case inScalar:
		if c != ',' && c != '}' && !blank(c) {
			m.add(c)
			return
		}
		m.ends()
	}
	if !blank(c) {
		m.between(c)
	}
}

// between handles what stands between the members and within them.
func (m *marks) between(c byte) {
	switch {
	case m.state == beforeObject && c == '{', m.state == afterValue && c == ',':
		m.state = beforeKey
	case m.state == beforeKey && c == '"':
		m.state, m.n = inKey, 0
	case m.state == beforeColon && c == ':':
		m.state, m.n = beforeValue, 0
	case m.state != beforeValue:
		m.state = over // its end, or no JSON
	case c == '"':
		m.state = inString
	case c == '{' || c == '[':
		m.state, m.depth = nested, 1
	default:
		m.state = inScalar
		m.add(c)
	}
}

// inText handles a byte of a string.
func (m *marks) inText(c byte) {
	switch {
	case c == '\\':
		m.back, m.state = m.state, escaped
	case c != '"':
		m.add(c)
	case m.state == inKey:
		m.key, m.state = m.named(), beforeColon
	case m.state == inString:
		m.ends()
	default:
		m.state = nested
	}
}

// inEscape handles a byte of an escape sequence.
func (m *marks) inEscape(c byte) {
	if m.state == escaped {
		if c == 'u' {
			m.state, m.hex, m.left = inUnicode, 0, 4
			return
		}
		if at := bytes.IndexByte([]byte("bfnrt"), c); at >= 0 {
			c = "\b\f\n\r\t"[at]
		}
		m.add(c)
		m.state = m.back
		return
	}
	m.hex = m.hex<<4 | rune(hexDigit(c))
	if m.left--; m.left == 0 {
		m.state = m.back
		m.add(byte(min(m.hex, 0xff))) // no mark has others
	}
}

func hexDigit(c byte) byte {
	if c >= 'A' {
		return (c | 0x20 - 'a' + 10) & 15
	}
	return c & 15
}

// inNested handles a byte of a nested array or object, of which only the end matters.
func (m *marks) inNested(c byte) {
	switch c {
	case '"':
		m.state = inNestedString
	case '{', '[':
		m.depth++
	case '}', ']':
		if m.depth--; m.depth == 0 {
			m.state = afterValue
		}
	}
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func (m *marks) add(c byte) {
	if m.n < len(m.text) {
		m.text[m.n] = c
	}
	m.n++
}

// read returns the current text; nil if it is longer than any mark.
func (m *marks) read() []byte {
	if m.n > len(m.text) {
		return nil
	}
	return m.text[:m.n]
}

// named returns which mark the key is.
func (m *marks) named() mark {
	switch string(m.read()) {
	case "seq":
		return seqMark
	case "unix_ns":
		return unixMark
	case "monotonic_ns":
		return monotonicMark
	case "boot":
		return bootMark
	}
	return notMark
}

// ends handles the end of a value: a number may be a string too.
func (m *marks) ends() {
	m.state = afterValue
	switch m.key {
	case seqMark:
		m.mark.Seq = uint64(wholeNumber(m.read()))
	case unixMark:
		m.mark.UnixNs = wholeNumber(m.read())
	case monotonicMark:
		m.mark.MonotonicNs = wholeNumber(m.read())
	case bootMark:
		m.mark.Boot = nil
		if m.n == len(m.boot) {
			m.mark.Boot = append(m.boot[:0], m.read()...)
		}
	}
}

// wholeNumber parses a number of JSON (17, 17.0, 1.7e1); 0 if it is not a whole one from 0 to 2^63-1.
func wholeNumber(b []byte) (v int64) {
	exponent := int64(0)
	if at := bytes.IndexAny(b, "eE"); at >= 0 {
		exponent = digitsOf(0, bytes.TrimLeft(b[at+1:], "+-"))
		if exponent < 0 || exponent > 99 {
			exponent = 99
		}
		if bytes.HasPrefix(b[at+1:], []byte("-")) {
			exponent = -exponent
		}
		b = b[:at]
	}
	left, right, _ := bytes.Cut(b, []byte("."))
	right = bytes.TrimRight(right, "0")
	v, exponent = digitsOf(digitsOf(0, left), right), exponent-int64(len(right))
	for ; exponent > 0 && v > 0; exponent-- {
		v = digitsOf(v, []byte("0"))
	}
	for ; exponent < 0 && v > 0; exponent++ {
		if v%10 != 0 {
			return 0
		}
		v /= 10
	}
	return max(v, 0)
}

// digitsOf appends decimal digits to a number; -1 if one is none, or the number gets too large.
func digitsOf(v int64, digits []byte) int64 {
	for _, c := range digits {
		d := int64(c) - '0'
		if v < 0 || d < 0 || d > 9 || v > (1<<63-1-d)/10 {
			return -1
		}
		v = v*10 + d
	}
	return v
}
