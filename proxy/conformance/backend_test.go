package conformance

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Backend answers every request with the case's response, and records what it
// received, request by request.
type Backend struct {
	*Listener
	mu       sync.Mutex
	changed  *sync.Cond
	requests [][]byte
	whole    []bool
	partial  int // connections within a request
	response string
	close    bool
}

const plainOK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// NewBackend listens on a free port of the loopback.
func NewBackend() (*Backend, error) {
	b := &Backend{response: plainOK}
	b.changed = sync.NewCond(&b.mu)
	var err error
	b.Listener, err = Listen(b.serve)
	return b, err
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
			end := RequestEnd(got)
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
