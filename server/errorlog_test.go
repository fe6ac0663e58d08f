//go:build linux

package server

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"ceiling/internal/authority"
)

// lockedText is what several goroutines write.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// TestComplaintsEnd: a server says some times that clients do not speak TLS with it, and not each time.
func TestComplaintsEnd(t *testing.T) {
	_, pair, err := authority.Site("of a test", authority.Leaf{Names: []string{"localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSite(0)
	if err != nil {
		t.Fatal(err)
	}
	var out lockedText
	s.log = newComplaints(&out)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- run(ctx, mountNetHTTP(s), s, ln, func() error { return nil }) }()
	for range 3 * complaintsMost {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") // its end says that it was dealt with
		_, _ = io.ReadAll(c)
		c.Close()
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if text := out.text.String(); strings.Count(text, "\n") != complaintsMost+1 || !strings.Contains(text, "not printed") {
		t.Errorf("%s", text)
	}
}
