package faultserver

import (
	"bytes"
	"net"
)

// Conn is a connection under its script.
type Conn struct {
	net.Conn          // with TLS its connection
	raw      net.Conn // as it was accepted
	server   *Server
	buf      []byte
	from     int // buf[from:have] was received and not taken
	have     int
	rest     int    // bytes of the current request's body still to come
	greeted  bool   // HTTP/2: the preface has come
	stream   uint32 // of the request that came last
}

// firstBuffer holds a few requests; it grows to what a request's head needs.
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

// head takes the head of the next request; its body is to be skipped after it.
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

// takeHead takes a head that is there whole, and tells the length of its body.
func (c *Conn) takeHead() (body int, ok bool) {
	b := c.buf[c.from:c.have]
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, false
	}
	c.from += end + 4
	return contentLength(b[:end+2]), true
}

// contentLength of a head that is known to be well formed, in any case; 0
// without one.
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

// body takes the rest of the current request.
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

// request takes one whole request.
func (c *Conn) request() error {
	if err := c.head(); err != nil {
		return err
	}
	return c.body()
}

// more takes the whole requests that are there already, up to limit.
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

// silence waits until the peer closes or the server ends, and reads nothing
// that is worth counting.
func (c *Conn) silence() error {
	for {
		if err := c.fill(); err != nil {
			return err
		}
		c.from = c.have
	}
}
