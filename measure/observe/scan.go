package observe

import "strconv"

// A cursor walks through the text of a kernel file. It never allocates; a
// method that finds something else than it was asked for says so and stays
// where it was.
type cursor struct {
	p []byte
	i int
}

// line returns the next line without its newline, and false at the end.
func (c *cursor) line() ([]byte, bool) {
	if c.i >= len(c.p) {
		return nil, false
	}
	start := c.i
	for c.i < len(c.p) && c.p[c.i] != '\n' {
		c.i++
	}
	line := c.p[start:c.i]
	c.i++
	return line, true
}

func (c *cursor) blanks() {
	for c.i < len(c.p) && (c.p[c.i] == ' ' || c.p[c.i] == '\t') {
		c.i++
	}
}

// word returns the next run of bytes that are not blank, empty at the end.
func (c *cursor) word() []byte {
	c.blanks()
	start := c.i
	for c.i < len(c.p) && c.p[c.i] != ' ' && c.p[c.i] != '\t' && c.p[c.i] != '\n' {
		c.i++
	}
	return c.p[start:c.i]
}

// uint reads the next word as a decimal number. A number too large for 64 bits
// is not a number.
func (c *cursor) uint() (uint64, bool) {
	c.blanks()
	start := c.i
	v, n := leadingDecimal(c.p[c.i:])
	c.i += n
	if n == 0 || !c.boundary() {
		c.i = start
		return 0, false
	}
	return v, true
}

// int reads the next word as a decimal number with an optional minus sign.
func (c *cursor) int() (int64, bool) {
	c.blanks()
	start := c.i
	negative := c.i < len(c.p) && c.p[c.i] == '-'
	if negative {
		c.i++
	}
	v, n := leadingDecimal(c.p[c.i:])
	c.i += n
	if n == 0 || !c.boundary() || v > 1<<63-1 {
		c.i = start
		return 0, false
	}
	if negative {
		return -int64(v), true
	}
	return int64(v), true
}

// hex reads the next word as a hexadecimal number without a prefix.
func (c *cursor) hex() (uint64, bool) {
	c.blanks()
	start := c.i
	v, n := leadingHex(c.p[c.i:])
	c.i += n
	if n == 0 || !c.boundary() {
		c.i = start
		return 0, false
	}
	return v, true
}

// skip passes over n words.
func (c *cursor) skip(n int) {
	for ; n > 0; n-- {
		c.word()
	}
}

func (c *cursor) boundary() bool {
	return c.i >= len(c.p) || c.p[c.i] == ' ' || c.p[c.i] == '\t' || c.p[c.i] == '\n'
}

// leadingDecimal reads the digits that p begins with; n is their number, 0
// when there are none or when they exceed 64 bits.
func leadingDecimal(p []byte) (v uint64, n int) {
	for n < len(p) && p[n]-'0' <= 9 {
		d := uint64(p[n] - '0')
		if v > (1<<64-1-d)/10 {
			return 0, 0
		}
		v = v*10 + d
		n++
	}
	return v, n
}

// leadingHex reads the hexadecimal digits that p begins with, likewise.
func leadingHex(p []byte) (v uint64, n int) {
	for n < len(p) {
		d, ok := hexDigit(p[n])
		if !ok {
			break
		}
		if v>>60 != 0 {
			return 0, 0
		}
		v = v<<4 | uint64(d)
		n++
	}
	return v, n
}

func hexDigit(b byte) (byte, bool) {
	switch {
	case b-'0' <= 9:
		return b - '0', true
	case b-'a' <= 5:
		return b - 'a' + 10, true
	case b-'A' <= 5:
		return b - 'A' + 10, true
	}
	return 0, false
}

func appendDecimal(p []byte, n int) []byte {
	return strconv.AppendInt(p, int64(n), 10)
}

// hasPrefix is bytes.HasPrefix for a string.
func hasPrefix(p []byte, prefix string) bool {
	return len(p) >= len(prefix) && string(p[:len(prefix)]) == prefix
}
