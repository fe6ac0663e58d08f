package conformance

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"sync"
)

// A Listener is the backend's end: it passes each connection to a function, and closes them all
// when it is closed.
type Listener struct {
	ln      net.Listener
	mu      sync.Mutex
	live    map[net.Conn]struct{}
	running sync.WaitGroup
}

// Listen serves connections to a free loopback port until Close. It may call serve for several
// connections at once, and closes each when serve returns.
func Listen(serve func(net.Conn)) (*Listener, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Listener{ln: ln, live: map[net.Conn]struct{}{}}
	l.running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			l.mu.Lock()
			l.live[c] = struct{}{}
			l.mu.Unlock()
			l.running.Go(func() {
				serve(c)
				c.Close()
				l.mu.Lock()
				delete(l.live, c)
				l.mu.Unlock()
			})
		}
	})
	return l, nil
}

// Address returns the host and port for the proxy to use.
func (l *Listener) Address() string { return l.ln.Addr().String() }

// Close closes all connections, and returns once serve has returned for each.
func (l *Listener) Close() {
	l.ln.Close()
	l.mu.Lock()
	for c := range l.live {
		c.Close()
	}
	l.mu.Unlock()
	l.running.Wait()
}

// RequestEnd returns where the first request in b ends, 0 if it is incomplete.
func RequestEnd(b []byte) int {
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
