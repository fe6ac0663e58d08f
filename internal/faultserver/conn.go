package faultserver

import (
	"bytes"
	"net"
)

// Conn is a connection running its script.
type Conn struct {
	net.Conn          // with TLS, the TLS connection
	raw      net.Conn // as accepted
	server   *Server
	buf      []byte
	from     int // buf[from:have] is received but not consumed
	have     int
	rest     int    // remaining bytes of the current request's body
	greeted  bool   // HTTP/2: the preface has been received
	stream   uint32 // of the latest request
}

// firstBuffer holds a few requests; it grows to the size of a request's head.
const firstBuffer = 4 << 10

// fill receives at least one byte.
func (c *Conn) fill() error {
	if c.from == c.have {
		c.from, c.have = 0, 0
	}
	if c.have == len(c.buf) {
		if c.from > 0 {
			c.have = copy(c.buf, c.buf[c.from:c.have])
			c.from = 0
		} else {
			c.buf = append(c.buf, make([]byte, max(firstBuffer, len(c.buf)))...)
		}
	}
	n, err := c.Read(c.buf[c.have:])
	c.have += n
	c.server.bytes.Add(uint64(n))
	if n > 0 {
		return nil
	}
	return err
}

// head consumes the head of the next request; its body remains to be skipped.
func (c *Conn) head() error {
	for {
		if n, ok := c.takeHead(); ok {
			c.rest = n
			return nil
		}
		if err := c.fill(); err != nil {
			return err
		}
	}
}

// takeHead consumes a complete head, and returns the length of its body.
func (c *Conn) takeHead() (body int, ok bool) {
	b := c.buf[c.from:c.have]
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, false
	}
	c.from += end + 4
	return contentLength(b[:end+2]), true
}

// contentLength returns the Content-Length of a well-formed head, in any case; 0 without one.
func contentLength(head []byte) int {
	const name = "\r\ncontent-length:"
	for i := 0; i+len(name) < len(head); i++ {
		if head[i] != '\r' || !bytes.EqualFold(head[i:i+len(name)], []byte(name)) {
			continue
		}
		n := 0
		for _, d := range head[i+len(name):] {
			if d >= '0' && d <= '9' {
				n = n*10 + int(d-'0')
			} else if d == '\r' {
				return n
			}
		}
	}
	return 0
}

// body consumes the rest of the current request.
func (c *Conn) body() error {
	for {
		n := min(c.rest, c.have-c.from)
		c.from += n
		if c.rest -= n; c.rest == 0 {
			c.server.requests.Add(1)
			return nil
		}
		if err := c.fill(); err != nil {
			return err
		}
	}
}

// request consumes one complete request.
func (c *Conn) request() error {
	if err := c.head(); err != nil {
		return err
	}
	return c.body()
}

// more consumes the complete requests already received, up to limit.
func (c *Conn) more(limit int) (n int) {
	for n < limit {
		from := c.from
		body, ok := c.takeHead()
		if !ok {
			break
		}
		if c.have-c.from < body {
			c.from = from
			break
		}
		c.from += body
		n++
	}
	c.server.requests.Add(uint64(n))
	return n
}

// pass waits while the server is frozen.
func (c *Conn) pass() error {
	gate := c.server.frozen.Load()
	if gate == nil {
		return nil
	}
	select {
	case <-*gate:
		return nil
	case <-c.server.done:
		return errEnd
	}
}

func (c *Conn) write(b []byte) error {
	_, err := c.Conn.Write(b)
	return err
}

// silence waits until the peer closes or the server stops, and discards what it reads.
func (c *Conn) silence() error {
	for {
		if err := c.fill(); err != nil {
			return err
		}
		c.from = c.have
	}
}
