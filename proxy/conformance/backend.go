package conformance

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Backend answers every request with the case's response, and records what it
// received, request by request.
type Backend struct {
	ln net.Listener

	mu       sync.Mutex
	changed  *sync.Cond
	requests [][]byte
	whole    []bool
	partial  int // connections within a request
	response string
	close    bool
	live     map[net.Conn]struct{}
	running  sync.WaitGroup
}

const plainOK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// NewBackend listens on a free port of the loopback.
func NewBackend() (*Backend, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &Backend{ln: ln, live: map[net.Conn]struct{}{}, response: plainOK}
	b.changed = sync.NewCond(&b.mu)
	b.running.Go(b.accept)
	return b, nil
}

// Address to give the proxy.
func (b *Backend) Address() string { return b.ln.Addr().String() }

// Close ends all connections.
func (b *Backend) Close() {
	b.ln.Close()
	b.mu.Lock()
	for c := range b.live {
		c.Close()
	}
	b.mu.Unlock()
	b.running.Wait()
}

// script makes ready for a case.
func (b *Backend) script(c *Case) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests, b.whole = nil, nil
	b.response, b.close = c.Response, c.Close
	if b.response == "" {
		b.response = plainOK
	}
}

// settle waits until no connection is within a request: a proxy that gives one up
// closes the connection.
func (b *Backend) settle() error {
	late := time.AfterFunc(patience, func() { b.mu.Lock(); b.changed.Broadcast(); b.mu.Unlock() })
	defer late.Stop()
	end := time.Now().Add(patience)
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.partial > 0 {
		if time.Now().After(end) {
			return errors.New("the proxy keeps a connection to the backend open within a request that it gave up")
		}
		b.changed.Wait()
	}
	return nil
}

// take returns what was recorded.
func (b *Backend) take() ([][]byte, []bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests, b.whole
}

func (b *Backend) accept() {
	for {
		c, err := b.ln.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.live[c] = struct{}{}
		b.mu.Unlock()
		b.running.Go(func() {
			b.serve(c)
			c.Close()
			b.mu.Lock()
			delete(b.live, c)
			b.mu.Unlock()
		})
	}
}

// serve reads requests with a reader that is as simple as can be: what it takes
// for one request is what the proxy's framing says.
func (b *Backend) serve(c net.Conn) {
	var got []byte
	buf := make([]byte, 64<<10)
	within := false
	mark := func(now bool) {
		if now != within {
			within = now
			b.partial += map[bool]int{true: 1, false: -1}[now]
			b.changed.Broadcast()
		}
	}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(got) > 0 {
			b.requests, b.whole = append(b.requests, got), append(b.whole, false)
		}
		mark(false)
	}()
	for {
		n, err := c.Read(buf)
		got = append(got, buf[:n]...)
		for {
			end := requestEnd(got)
			b.mu.Lock()
			if end == 0 {
				mark(len(got) > 0)
				b.mu.Unlock()
				break
			}
			b.requests, b.whole = append(b.requests, got[:end:end]), append(b.whole, true)
			got = got[end:]
			answer, last := b.response, b.close
			mark(len(got) > 0)
			b.mu.Unlock()
			if _, err := io.WriteString(c, answer); err != nil || last {
				got = nil
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// requestEnd is where the first request in b ends, 0 when it is not complete.
func requestEnd(b []byte) int {
	head := bytes.Index(b, []byte("\r\n\r\n"))
	if head < 0 {
		return 0
	}
	at := head + 4
	for line := range strings.SplitSeq(string(b[:head]), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "transfer-encoding":
			return chunkedEnd(b, at)
		case "content-length":
			n, err := strconv.Atoi(value)
			if err != nil || len(b) < at+n {
				return 0
			}
			return at + n
		}
	}
	return at
}

func chunkedEnd(b []byte, at int) int {
	for {
		i := bytes.Index(b[at:], []byte("\r\n"))
		if i < 0 {
			return 0
		}
		n, err := strconv.ParseUint(string(b[at:at+i]), 16, 31)
		if err != nil {
			return 0
		}
		at += i + 2
		if n == 0 {
			if end := bytes.Index(b[at-2:], []byte("\r\n\r\n")); end >= 0 {
				return at - 2 + end + 4
			}
			return 0
		}
		if at += int(n) + 2; at > len(b) {
			return 0
		}
	}
}
