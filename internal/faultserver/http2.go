package faultserver

import "encoding/binary"

const (
	h2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	h2Header  = 9
	h2Headers = 1
	h2End     = 1 // END_STREAM
)

// Streams consumes HTTP/2 frames, starting with the preface, until n requests are complete. It
// does not interpret the frames.
func Streams(n int) Step {
	return func(c *Conn) error {
		for left := n; left > 0; {
			kind, flags, stream, err := c.frame()
			if err != nil {
				return err
			}
			if kind <= h2Headers && flags&h2End != 0 {
				c.server.requests.Add(1)
				c.stream = stream
				left--
			}
		}
		return nil
	}
}

// frame consumes one frame.
func (c *Conn) frame() (kind, flags byte, stream uint32, err error) {
	need := func(n int) []byte {
		for err == nil && c.have-c.from < n {
			err = c.fill()
		}
		if err != nil {
			return nil
		}
		return c.buf[c.from : c.from+n]
	}
	if !c.greeted {
		if b := need(len(h2Preface)); b == nil || string(b) != h2Preface {
			return 0, 0, 0, errEnd
		}
		c.greeted = true
		c.from += len(h2Preface)
	}
	b := need(h2Header)
	if b == nil {
		return 0, 0, 0, err
	}
	kind, flags, stream = b[3], b[4], binary.BigEndian.Uint32(b[5:])
	whole := h2Header + int(b[0])<<16 + int(b[1])<<8 + int(b[2])
	if need(whole) != nil {
		c.from += whole
	}
	return kind, flags, stream, err
}

// Frames sends make's output for the stream of the latest request.
func Frames(make func(stream uint32) []byte) Step {
	return func(c *Conn) error { return c.write(make(c.stream)) }
}
