package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	"ceiling/proxy/config"
)

// Beside has the TLS certificates and serves clients that the loops cannot serve, which it hands
// over through Connect: proxy/secure.
type Beside interface {
	// Prepare adds what it needs to a configuration; call it before New and each Reload.
	Prepare(*config.Config)
	// Ready checks a configuration for a reload, and returns what activates it.
	Ready(*config.Config) (install func(), err error)
	// Run serves with the proxy's Run nested inside.
	Run(ctx context.Context, connect func(Origin) (net.Conn, error), serve func(context.Context) error) error
	// TLS is the handshake configuration, which is tlsconn.Shared.
	TLS() *tls.Config
	// ForLoop reports whether the loop with its ClientHello should serve a client with TLS 1.3.
	// It is called on the loop's thread, like the methods down to Take, and must not block.
	ForLoop(*tls.ClientHelloInfo) bool
	// Made, Failed, Left and Evicted report on the loops' clients: a completed handshake, a
	// failed one, the end of a client with a completed one, and an eviction to make room.
	Made(version uint16, resumed bool)
	Failed(error)
	Left()
	Evicted()
	// Take serves a client that is not for a loop; begun is what was already read from it. It
	// calls taken once it has room for it.
	Take(fd int, from Origin, begun []byte, taken func())
	// Count adds its counts to a snapshot.
	Count(*Snapshot)
	// Close frees a Beside that will not run.
	Close() error
}

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

// RunAll is Run together with Beside, if there is one.
func (p *Proxy) RunAll(ctx context.Context) error {
	if b := p.options.Beside; b != nil {
		return b.Run(ctx, p.Connect, p.Run)
	}
	return p.Run(ctx)
}

// ReloadAll is Reload together with Beside: both change, or neither.
func (p *Proxy) ReloadAll(c *config.Config) error {
	b := p.options.Beside
	if b == nil {
		if len(c.TLS.Listen) > 0 {
			return errors.New("reload: tls.listen appears, which needs a new start")
		}
		return p.Reload(c)
	}
	b.Prepare(c)
	install, err := b.Ready(c)
	if err != nil {
		return err
	}
	if err := p.Reload(c); err != nil {
		return err
	}
	install()
	return nil
}
