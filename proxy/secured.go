package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"syscall"

	"ceiling/proxy/secure"
)

// Secure has the statistics of clients with TLS. The keys of the maps describe their values.
type Secure struct {
	// Currently open: Clients with a completed handshake, HTTP2 of these, and Streams of those.
	Clients int `json:"clients"`
	HTTP2   int `json:"http2"`
	Streams int `json:"streams"`
	// Handshakes completed: "1.3 full", "1.3 resumed", "1.2 full", "1.2 resumed".
	Handshakes map[string]uint64 `json:"handshakes"`
	// Failures of handshakes, by cause.
	Failures map[string]uint64 `json:"failures"`
	// HTTP2Total and StreamsTotal count all that were opened.
	HTTP2Total   uint64 `json:"http2_total"`
	StreamsTotal uint64 `json:"streams_total"`
	// Evicted counts idle clients closed to make room.
	Evicted uint64 `json:"idle_evicted"`
}

// add adds another process's statistics.
func (s *Secure) add(o *Secure) {
	s.Clients, s.HTTP2, s.Streams = s.Clients+o.Clients, s.HTTP2+o.HTTP2, s.Streams+o.Streams
	s.HTTP2Total, s.StreamsTotal = s.HTTP2Total+o.HTTP2Total, s.StreamsTotal+o.StreamsTotal
	s.Evicted += o.Evicted
	for k, n := range o.Handshakes {
		s.Handshakes[k] += n
	}
	for k, n := range o.Failures {
		s.Failures[k] += n
	}
}

// appendPrometheus appends the text format.
func (s *Secure) appendPrometheus(b []byte, prefix string) []byte {
	one := func(kind, name, help string, n any) {
		b = fmt.Appendf(b, "# HELP %[1]s%[2]s %[3]s\n# TYPE %[1]s%[2]s %[4]s\n%[1]s%[2]s %[5]d\n", prefix, name, help, kind, n)
	}
	one("gauge", "tls_clients", "of the clients, those with TLS", s.Clients)
	one("gauge", "http2_clients", "of these, those with HTTP/2", s.HTTP2)
	one("gauge", "http2_streams", "requests that clients with HTTP/2 have under way", s.Streams)
	one("counter", "http2_connections_total", "clients with HTTP/2", s.HTTP2Total)
	one("counter", "http2_streams_total", "their requests", s.StreamsTotal)
	one("counter", "tls_idle_clients_evicted_total", "idle clients with TLS closed to make room for others", s.Evicted)
	b = fmt.Appendf(b, "# HELP %[1]stls_handshakes_total handshakes made\n# TYPE %[1]stls_handshakes_total counter\n", prefix)
	for _, k := range slices.Sorted(maps.Keys(s.Handshakes)) {
		version, kind := k[:3], k[4:]
		b = fmt.Appendf(b, "%stls_handshakes_total{version=%q,kind=%q} %d\n", prefix, version, kind, s.Handshakes[k])
	}
	b = fmt.Appendf(b, "# HELP %[1]stls_handshake_failures_total handshakes that failed\n# TYPE %[1]stls_handshake_failures_total counter\n",
		prefix)
	for _, k := range slices.Sorted(maps.Keys(s.Failures)) {
		b = fmt.Appendf(b, "%stls_handshake_failures_total{cause=%q} %d\n", prefix, k, s.Failures[k])
	}
	return b
}

// secured counts a loop's clients with TLS.
type secured struct {
	clients    int // with a completed handshake
	evicted    uint64
	handshakes [4]uint64 // by version and kind
	failures   [len(causes)]uint64
}

// What secured counts.
var (
	kinds  = [4]string{"1.2 full", "1.2 resumed", "1.3 full", "1.3 resumed"} // read-only
	causes = [...]string{"timeout", "client gone", "not TLS", "client refused", "no certificate", "no agreement",
		"PROXY header"} // read-only
)

// cause is an index of causes.
type cause uint8

const (
	timedOut cause = iota
	clientGone
	notTLS
	clientRefused // most likely our certificate
	noCertificate
	noAgreement // on a version, a suite, a protocol
	badPreface
)

// made counts a completed handshake.
func (s *secured) made(version uint16, resumed bool) {
	s.clients++
	kind := 0
	if version == tls.VersionTLS13 {
		kind += 2
	}
	if resumed {
		kind++
	}
	s.handshakes[kind]++
}

// failed counts a handshake by its error.
func (s *secured) failed(err error) { s.failures[causeOf(err)]++ }

func causeOf(err error) cause {
	var record tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return timedOut
	case errors.As(err, &record):
		return notTLS
	case errors.Is(err, secure.ErrNoCertificate):
		return noCertificate
	case errors.As(err, &op) && op.Op == "remote error": // an alert (crypto/tls conn.go)
		return clientRefused
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, net.ErrClosed):
		return clientGone
	}
	return noAgreement
}

func (s *secured) add(o *secured) {
	s.clients += o.clients
	s.evicted += o.evicted
	for i, n := range o.handshakes {
		s.handshakes[i] += n
	}
	for i, n := range o.failures {
		s.failures[i] += n
	}
}

// sessions counts the clients with HTTP/2 and their requests: current and total.
type sessions struct {
	open, streams       int
	total, streamsTotal uint64
}

func (s *sessions) add(o sessions) {
	s.open, s.streams = s.open+o.open, s.streams+o.streams
	s.total, s.streamsTotal = s.total+o.total, s.streamsTotal+o.streamsTotal
}

// report is what a snapshot has of it.
func (s *secured) report(h2 *sessions) *Secure {
	r := &Secure{Clients: s.clients, Evicted: s.evicted, HTTP2: h2.open, HTTP2Total: h2.total, Streams: h2.streams,
		StreamsTotal: h2.streamsTotal, Handshakes: map[string]uint64{}, Failures: map[string]uint64{}}
	for i, n := range s.handshakes {
		r.Handshakes[kinds[i]] = n
	}
	for i, n := range s.failures {
		r.Failures[causes[i]] = n
	}
	return r
}
