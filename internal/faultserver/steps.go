package faultserver

import (
	"crypto/tls"
	"net"
	"strconv"
)

// Request waits for n complete requests.
func Request(n int) Step {
	return func(c *Conn) error {
		for range n {
			if err := c.request(); err != nil {
				return err
			}
		}
		return nil
	}
}

// Head waits for the head of a request and leaves its body for Body.
func Head() Step { return (*Conn).head }

// Body waits for the body of the request that Head began.
func Body() Step { return (*Conn).body }

// Write sends b with one system call.
func Write(b string) Step {
	whole := []byte(b)
	return func(c *Conn) error {
		if err := c.pass(); err != nil {
			return err
		}
		return c.write(whole)
	}
}

// Drip sends b in pieces of n bytes, each with its own system call; the kernel
// may still deliver several at once.
func Drip(b string, n int) Step {
	whole := []byte(b)
	return func(c *Conn) error {
		if err := c.pass(); err != nil {
			return err
		}
		for rest := whole; len(rest) > 0; rest = rest[min(n, len(rest)):] {
			if err := c.write(rest[:min(n, len(rest))]); err != nil {
				return err
			}
		}
		return nil
	}
}

// Answer answers each request with b, as long as the peer continues. Requests that arrive
// together are answered together.
func Answer(b string) Step { return answer(b, 0) }

// AnswerTimes is Answer for n requests.
func AnswerTimes(n int, b string) Step { return answer(b, n) }

// atOnce limits the responses in one write.
const atOnce = 128

// answer serves until limit requests are done; 0 for no limit.
func answer(b string, limit int) Step {
	times := max(1, min(atOnce, 64<<10/max(1, len(b))))
	many := make([]byte, 0, times*len(b))
	for range times {
		many = append(many, b...)
	}
	return func(c *Conn) error {
		for done := 0; limit == 0 || done < limit; {
			if err := c.request(); err != nil {
				return err
			}
			most := times
			if limit > 0 {
				most = min(most, limit-done)
			}
			n := 1 + c.more(most-1)
			if err := c.pass(); err != nil {
				return err
			}
			if err := c.write(many[:n*len(b)]); err != nil {
				return err
			}
			c.server.answers.Add(uint64(n))
			done += n
		}
		return nil
	}
}

// Loop repeats the steps until one ends the script.
func Loop(steps ...Step) Step {
	return func(c *Conn) error {
		for {
			for _, step := range steps {
				if err := step(c); err != nil {
					return err
				}
			}
		}
	}
}

// Times runs the steps n times.
func Times(n int, steps ...Step) Step {
	return func(c *Conn) error {
		for range n {
			for _, step := range steps {
				if err := step(c); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// Endless sends b repeatedly until the peer disconnects.
func Endless(b string) Step {
	whole := []byte(b)
	return func(c *Conn) error {
		for {
			if err := c.write(whole); err != nil {
				return err
			}
		}
	}
}

// TLS performs a handshake as a server; everything later is inside. Bytes counts plaintext.
func TLS(config *tls.Config) Step {
	return func(c *Conn) error {
		secure := tls.Server(c.raw, config)
		c.Conn = secure
		return secure.Handshake()
	}
}

// Raw sends b outside TLS.
func Raw(b string) Step {
	return func(c *Conn) error {
		_, err := c.raw.Write([]byte(b))
		return err
	}
}

// HalfClose closes the sending direction, with TLS by a close_notify; reading continues.
func HalfClose() Step {
	return func(c *Conn) error {
		if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
			return h.CloseWrite()
		}
		return errEnd
	}
}

// Close ends the script: the connection is closed in order, unless unread data makes the kernel
// reset it.
func Close() Step { return func(*Conn) error { return errEnd } }

// Reset ends the connection with a reset (SO_LINGER 0).
func Reset() Step {
	return func(c *Conn) error {
		abort(c.raw)
		return errEnd
	}
}

// Stall does nothing, and reads, until the peer closes.
func Stall() Step { return (*Conn).silence }

// Deaf does nothing and does not read either, until the server ends.
func Deaf() Step {
	return func(c *Conn) error {
		<-c.server.done
		return errEnd
	}
}

// SmallBuffers limits the kernel's buffers for the connection to about 128 KiB each way, so that
// a peer that sends much must wait. Less than two loopback segments (64 KiB each) would make TCP
// wait for its timers.
func SmallBuffers() Step {
	return func(c *Conn) error {
		t, ok := c.Conn.(*net.TCPConn)
		if !ok {
			return nil
		}
		if err := t.SetReadBuffer(128 << 10); err != nil {
			return err
		}
		return t.SetWriteBuffer(128 << 10)
	}
}

// OK returns a response with status 200 and a body.
func OK(body string) string { return Response("200 OK", "", body) }

// Response returns a complete response with a Content-Length; fields are complete lines with
// their CRLF.
func Response(status, fields, body string) string {
	return "HTTP/1.1 " + status + "\r\n" + fields + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}
