package main

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The counting server counts arriving requests in bins of binWidth. One goroutine per connection,
// one read and one write per request: 3 µs of CPU, so that 10,000/s leave its cores idle and it
// sees arrivals undelayed.
const (
	binWidth = 10 * time.Millisecond
	binCount = 6000 // a minute
)

type counter struct {
	ln    net.Listener
	start time.Time
	bins  [binCount]atomic.Int64
	// head is the length of the first request for /simple, bytes. Others may come earlier:
	// ceiling checks whether the server offers profiles.
	head  chan int
	wait  sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil after close
}

func newCounter() (*counter, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &counter{ln: ln, start: time.Now(), head: make(chan int, 1), conns: map[net.Conn]struct{}{}}
	c.wait.Go(c.accept)
	return c, nil
}

func (c *counter) url() string { return "http://" + c.ln.Addr().String() + "/simple" }

func (c *counter) accept() {
	for {
		conn, err := c.ln.Accept()
		if err != nil {
			return // closed
		}
		c.mu.Lock()
		open := c.conns != nil
		if open {
			c.conns[conn] = struct{}{}
		}
		c.mu.Unlock()
		if !open {
			closeQuietly(conn)
			return
		}
		c.wait.Go(func() { c.answer(conn) })
	}
}

// closeQuietly closes a connection whose peer may be gone.
func closeQuietly(conn net.Conn) { _ = conn.Close() }

const counterAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\nConnection: keep-alive\r\n\r\n{\"message\":\"hi\"}"

func (c *counter) answer(conn net.Conn) {
	defer func() {
		closeQuietly(conn)
		c.mu.Lock()
		delete(c.conns, conn)
		c.mu.Unlock()
	}()
	buf := make([]byte, 16<<10)
	kept := 0
	for {
		n, err := conn.Read(buf[kept:])
		if err != nil {
			return
		}
		heads, rest, first := countHeads(buf[:kept+n])
		if heads > 0 {
			c.note(heads, buf[:first])
			if _, err := conn.Write(bytes.Repeat([]byte(counterAnswer), heads)); err != nil {
				return
			}
		}
		kept = copy(buf, buf[rest:kept+n])
		if kept == len(buf) {
			return // none of our tools sends a head this long
		}
	}
}

// note counts requests that have just arrived, given the first one.
func (c *counter) note(heads int, first []byte) {
	if bin := time.Since(c.start) / binWidth; bin < binCount {
		c.bins[bin].Add(int64(heads))
	}
	if !bytes.HasPrefix(first, []byte("GET /simple ")) {
		return
	}
	select {
	case c.head <- len(first):
	default:
	}
}

// countHeads counts the complete request heads at the start of data, none of which has a body.
// rest is the offset of the next one, first the length of the first.
func countHeads(data []byte) (heads, rest, first int) {
	end := []byte("\r\n\r\n")
	for {
		i := bytes.Index(data[rest:], end)
		if i < 0 {
			return heads, rest, first
		}
		rest += i + len(end)
		if heads == 0 {
			first = rest
		}
		heads++
	}
}

// arrivals returns the bins from trim after the first request to trim before the last: a tool's
// start and end are not its pacing.
func (c *counter) arrivals(trim time.Duration) []int64 {
	counts := make([]int64, binCount)
	first, last := -1, -1
	for i := range counts {
		counts[i] = c.bins[i].Load()
		if counts[i] > 0 {
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	cut := int(trim / binWidth)
	if first < 0 || last-cut <= first+cut {
		return nil
	}
	return counts[first+cut : last-cut]
}

// close stops the server and everything it started.
func (c *counter) close() error {
	err := c.ln.Close()
	c.mu.Lock()
	for conn := range c.conns {
		closeQuietly(conn)
	}
	c.conns = nil
	c.mu.Unlock()
	c.wait.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
