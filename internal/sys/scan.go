package sys

import "bytes"

// A Cursor walks through the text of a kernel file. It never allocates; a method that finds
// something else than expected returns false and does not move.
type Cursor struct {
	Text []byte
	At   int // the next byte
}

// Line returns the next line without its newline, and false at the end.
func (c *Cursor) Line() ([]byte, bool) {
	if c.At >= len(c.Text) {
		return nil, false
	}
	line := c.Text[c.At:]
	if n := bytes.IndexByte(line, '\n'); n >= 0 {
		line = line[:n]
	}
	c.At += len(line) + 1
	return line, true
}

// Blanks skips blanks.
func (c *Cursor) Blanks() {
	for c.At < len(c.Text) && (c.Text[c.At] == ' ' || c.Text[c.At] == '\t') {
		c.At++
	}
}

// Word returns the next run of non-blank bytes, empty at the end.
func (c *Cursor) Word() []byte {
	c.Blanks()
	start := c.At
	for c.At < len(c.Text) && c.Text[c.At] != ' ' && c.Text[c.At] != '\t' && c.Text[c.At] != '\n' {
		c.At++
	}
	return c.Text[start:c.At]
}

// Uint parses the next word as a decimal number. A number too large for 64 bits does not count as
// one.
func (c *Cursor) Uint() (uint64, bool) {
	c.Blanks()
	start := c.At
	v, n := LeadingDecimal(c.Text[c.At:])
	c.At += n
	if n == 0 || !c.boundary() {
		c.At = start
		return 0, false
	}
	return v, true
}

// Int reads the next word as a decimal number with an optional minus sign.
func (c *Cursor) Int() (int64, bool) {
	c.Blanks()
	start := c.At
	negative := c.At < len(c.Text) && c.Text[c.At] == '-'
	if negative {
		c.At++
	}
	v, n := LeadingDecimal(c.Text[c.At:])
	c.At += n
	if n == 0 || !c.boundary() || v > 1<<63-1 {
		c.At = start
		return 0, false
	}
	if negative {
		return -int64(v), true
	}
	return int64(v), true
}

// Hex reads the next word as a hexadecimal number without a prefix.
func (c *Cursor) Hex() (uint64, bool) {
	c.Blanks()
	start := c.At
	v, n := LeadingHex(c.Text[c.At:])
	c.At += n
	if n == 0 || !c.boundary() {
		c.At = start
		return 0, false
	}
	return v, true
}

// Skip skips n words.
func (c *Cursor) Skip(n int) {
	for ; n > 0; n-- {
		c.Word()
	}
}

func (c *Cursor) boundary() bool {
	return c.At >= len(c.Text) || c.Text[c.At] == ' ' || c.Text[c.At] == '\t' || c.Text[c.At] == '\n'
}

// LeadingDecimal parses the digits that p begins with; n is their number, 0 if there are none or
// they exceed 64 bits.
func LeadingDecimal(p []byte) (v uint64, n int) {
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

// LeadingHex parses the hexadecimal digits that p begins with, in the same way.
func LeadingHex(p []byte) (v uint64, n int) {
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
