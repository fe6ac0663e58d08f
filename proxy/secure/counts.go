package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"ceiling/proxy"
)

// counts has what the loops cannot see. A handshake takes a hundred times as long as the lock.
type counts struct {
	mu                   sync.Mutex
	handshakes, failures map[string]uint64

	clients, http2, streams           atomic.Int64
	http2Total, streamsTotal, evicted atomic.Uint64
}

func newCounts() *counts {
	return &counts{
		handshakes: map[string]uint64{"1.2 full": 0, "1.2 resumed": 0, "1.3 full": 0, "1.3 resumed": 0},
		failures:   map[string]uint64{timedOut: 0, clientGone: 0, notTLS: 0, clientRefused: 0, noCertificate: 0, noAgreement: 0, badPreface: 0},
	}
}

// Causes of failures.
const (
	timedOut      = "timeout"
	clientGone    = "client gone"
	notTLS        = "not TLS"
	clientRefused = "client refused" // most likely our certificate
	noCertificate = "no certificate"
	noAgreement   = "no agreement" // on a version, a suite, a protocol
	badPreface    = "PROXY header"
)

// failed counts a handshake by its error.
func (c *counts) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures[causeOf(err)]++
}

func causeOf(err error) string {
	var record tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.Is(err, proxy.ErrPreface):
		return badPreface
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return timedOut
	case errors.As(err, &record):
		return notTLS
	case errors.Is(err, errNoCertificate):
		return noCertificate
	case errors.As(err, &op) && op.Op == "remote error": // an alert (crypto/tls conn.go)
		return clientRefused
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, net.ErrClosed):
		return clientGone
	}
	return noAgreement
}

func (c *counts) made(version uint16, resumed bool) {
	key := "1.3"
	if version != tls.VersionTLS13 {
		key = "1.2"
	}
	if resumed {
		key += " resumed"
	} else {
		key += " full"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handshakes[key]++
}

// Made counts a completed handshake in a loop.
func (s *Server) Made(version uint16, resumed bool) {
	s.counts.made(version, resumed)
	s.counts.clients.Add(1)
}

// Failed counts a failed handshake there.
func (s *Server) Failed(err error) { s.counts.failed(err) }

// Left counts the end of a client whose handshake was Made.
func (s *Server) Left() { s.counts.clients.Add(-1) }

// Evicted counts an idle client closed to make room.
func (s *Server) Evicted() { s.counts.evicted.Add(1) }

// Count adds the counts to a snapshot of the proxy.
func (s *Server) Count(to *proxy.Snapshot) {
	c := s.counts
	one := &proxy.Secure{
		Clients: int(c.clients.Load()), HTTP2: int(c.http2.Load()), Streams: int(c.streams.Load()),
		HTTP2Total: c.http2Total.Load(), StreamsTotal: c.streamsTotal.Load(), Evicted: c.evicted.Load(),
		Handshakes: map[string]uint64{}, Failures: map[string]uint64{},
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, n := range c.handshakes {
		one.Handshakes[k] = n
	}
	for k, n := range c.failures {
		one.Failures[k] = n
	}
	to.Secure = one
}
