package proxy

import (
	"bytes"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
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

// patterns of what may be forwarded: the grammar of RFC 9112 without any tolerances.
type patterns struct{ first, field, chunk *regexp.Regexp }

func grammar() patterns {
	return patterns{
		first: regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+ [!-~]+ HTTP/1\\.[01]$"),
		field: regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\\x00-\\x08\\x0a-\\x1f\\x7f]*$"),
		chunk: regexp.MustCompile(`^[0-9A-Fa-f]{1,15}$`),
	}
}

// Unambiguous checks that a forwarded request can be read in only one way. It is independent of
// this module's parsers.
func Unambiguous(raw []byte) error {
	g := grammar()
	head, body, found := bytes.Cut(raw, []byte("\r\n\r\n"))
	if !found {
		return fmt.Errorf("the head does not end")
	}
	lines := strings.Split(string(head), "\r\n")
	if !g.first.MatchString(lines[0]) {
		return fmt.Errorf("request line %q", lines[0])
	}
	count := map[string]int{}
	for _, line := range lines[1:] {
		if !g.field.MatchString(line) || strings.ContainsAny(line, "\r\n\x00") {
			return fmt.Errorf("field line %q", line)
		}
		name, value, _ := strings.Cut(line, ":")
		name, value = strings.ToLower(name), strings.TrimSpace(value)
		count[strings.ReplaceAll(name, "_", "-")]++
		if name == "transfer-encoding" && value != "chunked" {
			return fmt.Errorf("transfer-encoding %q", value)
		}
	}
	switch {
	case count["content-length"] > 1, count["transfer-encoding"] > 1, count["host"] > 1:
		return fmt.Errorf("a field that frames or routes stands twice")
	case count["content-length"] > 0 && count["transfer-encoding"] > 0:
		return fmt.Errorf("content-length beside transfer-encoding")
	}
	for _, hop := range []string{"keep-alive", "proxy-connection", "te", "trailer", "http2-settings"} {
		if count[hop] > 0 {
			return fmt.Errorf("%s was passed on", hop)
		}
	}
	if count["transfer-encoding"] > 0 {
		return plainChunks(body, g.chunk)
	}
	return nil
}

// plainChunks requires bare sizes, exact ends, and no trailers in the body.
func plainChunks(body []byte, size *regexp.Regexp) error {
	for {
		line, rest, found := bytes.Cut(body, []byte("\r\n"))
		if !found || !size.Match(line) {
			return fmt.Errorf("chunk size %q", line)
		}
		var n int
		if _, err := fmt.Sscanf(string(line), "%x", &n); err != nil {
			return err
		}
		if n == 0 {
			if string(rest) != "\r\n" {
				return fmt.Errorf("behind the last chunk: %q", rest)
			}
			return nil
		}
		if len(rest) < n+2 || string(rest[n:n+2]) != "\r\n" {
			return fmt.Errorf("a chunk of %d bytes does not end", n)
		}
		body = rest[n+2:]
	}
}

// TestUnambiguous: the checker that judges the others is judged here.
func TestUnambiguous(t *testing.T) {
	for raw, good := range map[string]bool{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n":                                                true,
		"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n":                                          false,
		"GET / HTTP/1.2\r\nHost: a\r\n\r\n":                                                false,
		"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n":                                     false,
		"GET / HTTP/1.1\r\nX : b\r\n\r\n":                                                  false,
		"GET / HTTP/1.1\r\nX: b\x00\r\n\r\n":                                               false,
		"P / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx":                  false,
		"P / HTTP/1.1\r\nContent-Length: 1\r\nContent_Length: 1\r\n\r\nx":                  false,
		"P / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": false,
		"P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n":            true,
		"P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;a\r\nx\r\n0\r\n\r\n":          false,
		"P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n":              false,
		"P / HTTP/1.1\r\nTE: trailers\r\n\r\n":                                             false,
	} {
		if err := Unambiguous([]byte(raw)); (err == nil) != good {
			t.Errorf("%q: %v", raw, err)
		}
	}
}
