//go:build linux

package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"ceiling/internal/authority"
	"ceiling/internal/needs"
	"ceiling/internal/quicconn"
	"ceiling/internal/sys"
)

// quicServer counts the requests of HTTP/3 that it gets.
type quicServer struct {
	address  string
	requests atomic.Uint64
	accepted atomic.Uint64
	http     *http3.Server
}

// quicKey finds the connection of a request.
type quicKey struct{}

// serveQUIC runs one until the test ends. It answers n bytes to /n/…, and 404 to
// /missing.
func serveQUIC(t testing.TB, config *tls.Config, change func(*quicServer, *quic.Config), answer http.HandlerFunc) *quicServer {
	t.Helper()
	if err := quicconn.Quiet(); err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &quicServer{address: socket.LocalAddr().String()}
	if answer == nil {
		answer = answerAll
	}
	s.http = &http3.Server{
		TLSConfig: http3.ConfigureTLSConfig(config), QUICConfig: &quic.Config{},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.requests.Add(1)
			answer(w, r)
		}),
		ConnContext: func(ctx context.Context, c *quic.Conn) context.Context {
			s.accepted.Add(1)
			return context.WithValue(ctx, quicKey{}, c)
		},
	}
	if change != nil {
		change(s, s.http.QUICConfig)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.http.Serve(socket) // until it is closed
	}()
	t.Cleanup(func() {
		_ = s.http.Close()
		_ = socket.Close()
		<-done
	})
	return s
}

func answerAll(w http.ResponseWriter, r *http.Request) {
	var n int
	_, _ = io.Copy(io.Discard, r.Body) // as long as it comes
	if r.URL.Path == "/missing" {
		http.Error(w, "nothing here", http.StatusNotFound)
		return
	}
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil {
		n = 5
	}
	_, _ = w.Write([]byte(strings.Repeat("x", n))) // the client may be gone
}

func quicConfig(t testing.TB, n uint64, change func(*quicServer, *quic.Config), answer http.HandlerFunc) (*quicServer, Config) {
	t.Helper()
	server, client := trust(t, usual(), nil)
	s := serveQUIC(t, server, change, answer)
	client.Protocols = nil
	return s, Config{
		To: addressOf(t, s.address), Mix: get(), Connections: 4, Threads: 2, Pipelining: 1, Requests: n,
		Timeout: 10 * time.Second, Seed: 1, Sockets: Sockets{TLS: client, Protocol: HTTP3},
	}
}

// TestQUICCounts: the server has as many requests as were sent.
func TestQUICCounts(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	const n = 300
	request := func(text string) []byte { return []byte(text + " HTTP/1.1\r\nHost: server.test\r\n\r\n") }
	for name, change := range map[string]func(*Config){
		"one at a time":   func(*Config) {},
		"streams":         func(c *Config) { c.Pipelining = 20 },
		"new connections": func(c *Config) { c.NewConnections, c.Requests = 1, 40 },
		"long":            func(c *Config) { c.Mix[0].Bytes, c.Requests = request("GET /200000"), 50 },
		"body": func(c *Config) {
			c.Mix[0].Bytes = fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n%s", strings.Repeat("b", 100_000))
			c.Requests = 50
		},
		"mix": func(c *Config) {
			c.Mix = []Request{{Bytes: request("GET /"), Weight: 3}, {Bytes: request("GET /missing"), Weight: 1},
				{Bytes: request("HEAD /9"), NoBody: true, Weight: 1}}
		},
		"open loop": func(c *Config) {
			c.Rate, c.Requests, c.Duration, c.Pipelining, c.Drain = perS(200), 0, 500*time.Millisecond, 20, 10*time.Second
		},
		"poisson": func(c *Config) {
			c.Rate, c.Requests, c.Duration, c.Pipelining, c.Drain = perS(200), 0, 300*time.Millisecond, 20, 10*time.Second
			c.Poisson = true
		},
		"ramp": func(c *Config) { c.ConnectRamp = 100 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := quicConfig(t, n, nil, nil)
			change(&c)
			r := runs(t, c)
			want := c.Requests
			if want == 0 {
				want = r.Asked
			}
			clean(t, r, want)
			if s.requests.Load() != r.Total.Sent || r.Total.InFlight != 0 || r.Unsent != 0 || r.Asked != want {
				t.Errorf("the server had %d requests, sent %d, in flight %d, unsent %d, asked %d of %d", s.requests.Load(), r.Total.Sent,
					r.Total.InFlight, r.Unsent, r.Asked, want)
			}
			h := r.Handshakes
			if h.Setup.Count()+h.Window.Count() != s.accepted.Load() || h.Agreed.Version != tls.VersionTLS13 || h.Agreed.Protocol != "h3" {
				t.Errorf("%d and %d handshakes, the server had %d connections; %+v", h.Setup.Count(), h.Window.Count(), s.accepted.Load(), h.Agreed)
			}
			if c.NewConnections > 0 && h.Window.Count() < c.Requests-uint64(c.Connections) {
				t.Errorf("%d handshakes in the window", h.Window.Count())
			}
			if name == "mix" && (r.Total.ByTarget[1].Statuses[404] == 0 || len(r.Errors) != 1 || r.Errors[0].Line != "nothing here") {
				t.Errorf("%+v %+v", r.Total.ByTarget[1].Statuses, r.Errors)
			}
			if r.Total.Read == 0 || r.Total.Written == 0 {
				t.Errorf("read %d, written %d bytes", r.Total.Read, r.Total.Written)
			}
		})
	}
}

// TestQUICRevoked: a request that had not left at the end of the run never does, and one that had
// is not called back.
func TestQUICRevoked(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no body": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "body": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nb",
	} {
		t.Run(name, func(t *testing.T) {
			s, c := quicConfig(t, 0, nil, nil)
			to, err := c.To.turn(0).AddrPort()
			if err != nil {
				t.Fatal(err)
			}
			conn, err := quicconn.Dial(t.Context(), to, netip.Addr{}, quicconn.ClientConfig(c.TLS))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			r, err := newQUICRequest([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			c.Expect.Unexpected = errorStatuses()
			exchange := func(shown *quicPending) error {
				a := quicExchange{shared: &shared{Config: c, base: time.Now()}, ctx: t.Context(), conn: conn, shown: shown}
				return a.exchange(&quicEvent{}, &r)
			}
			slots := quicSlots{{state: slotAsking, asked: &quicPending{}}}
			slots.revoke()
			if err := exchange(slots[0].asked); !errors.Is(err, context.Canceled) {
				t.Errorf("revoked: %v", err)
			}
			slots[0].asked = &quicPending{}
			if err := exchange(slots[0].asked); err != nil || s.requests.Load() != 1 {
				t.Errorf("%v, the server had %d requests, want the second alone", err, s.requests.Load())
			}
			left := slots[0].asked.sentNs.Load()
			slots.revoke()
			if at := slots[0].asked.sentNs.Load(); left <= 0 || at != left {
				t.Errorf("sent at %d ns, after the end at %d", left, at)
			}
		})
	}
}

// TestQUICForATime: a closed loop that time ends, with a warm-up before it, balances
// by Little's law, and the server has what was completed or was in flight.
func TestQUICForATime(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	s, c := quicConfig(t, 0, nil, nil)
	c.Warmup, c.Duration, c.Pipelining = 150*time.Millisecond, 400*time.Millisecond, 5
	var warm uint64
	r := start(t.Context(), t, c, &watcher{onRow: func(row *Tally) {
		if row.Warmup {
			warm += row.Sent
		}
	}})
	had := s.requests.Load()
	if n := &r.Total; n.Failed != 0 || n.Completed == 0 || had > warm+n.Sent || had+n.InFlight < warm+n.Sent {
		t.Errorf("the server had %d requests; sent %d and %d, failed %d, in flight %d", had, warm, n.Sent, n.Failed, n.InFlight)
	}
	if w := r.Workers[0]; w.Busy <= 0 || w.Busy > 1 {
		t.Errorf("busy %v", w.Busy)
	}
}

// TestQUICEndsInBetween: what ends a connection or a request after the handshake has a
// name, fails the requests that were under way and no other, and the run goes on.
func TestQUICEndsInBetween(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	for name, k := range map[string]struct {
		every  uint64 // of so many requests one is answered so
		closes bool   // with requests on the connection that the server has not begun with
		quic   func(*quicServer, *quic.Config)
		answer func(w http.ResponseWriter, r *http.Request, s *quicServer)
		phase  string
		cause  string // "" none
	}{
		"stalls": {every: 10, closes: true, phase: PhaseResponse, cause: CauseTimeout,
			answer: func(_ http.ResponseWriter, r *http.Request, _ *quicServer) { <-r.Context().Done() }},
		"resets the stream": {every: 10, phase: PhaseResponse, cause: "HTTP/3 error from the server: H3_INTERNAL_ERROR",
			answer: func(http.ResponseWriter, *http.Request, *quicServer) { panic(http.ErrAbortHandler) }},
		"short body": {every: 10, phase: PhaseResponse, cause: "HTTP/3 error from the server: H3_INTERNAL_ERROR",
			answer: func(w http.ResponseWriter, _ *http.Request, _ *quicServer) {
				w.Header().Set("Content-Length", "10")
				_, _ = w.Write([]byte("ab"))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}},
		"closes the connection": {every: 10, closes: true, phase: PhaseResponse, cause: "HTTP/3 error from the server: H3_EXCESSIVE_LOAD",
			answer: func(_ http.ResponseWriter, r *http.Request, _ *quicServer) {
				_ = r.Context().Value(quicKey{}).(*quic.Conn).CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeExcessiveLoad), "")
			}},
		"refuses": {every: 10, answer: func(w http.ResponseWriter, _ *http.Request, _ *quicServer) {
			s, _ := w.(http3.HTTPStreamer).HTTPStream() // it has not been written to
			s.CancelRead(quic.StreamErrorCode(http3.ErrCodeRequestRejected))
			s.CancelWrite(quic.StreamErrorCode(http3.ErrCodeRequestRejected))
		}},
		"few streams": {quic: func(_ *quicServer, c *quic.Config) { c.MaxIncomingStreams = 1 }},
		"goes idle": {every: 50, closes: true, quic: func(_ *quicServer, c *quic.Config) { c.MaxIdleTimeout = 300 * time.Millisecond }, phase: PhaseResponse,
			cause: quicconn.CauseIdle, answer: func(_ http.ResponseWriter, r *http.Request, _ *quicServer) { <-r.Context().Done() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 100
			var s *quicServer
			var c Config
			s, c = quicConfig(t, n, k.quic, func(w http.ResponseWriter, r *http.Request) {
				if k.every > 0 && s.requests.Load()%k.every == 0 {
					k.answer(w, r, s)
					return
				}
				answerAll(w, r)
			})
			c.Pipelining = 3
			if k.cause == CauseTimeout {
				c.Timeout = 500 * time.Millisecond
			}
			r := runs(t, c)
			got, had := &r.Total, s.requests.Load()
			if got.Sent != n || got.Completed+got.Failed != n || got.InFlight != 0 || had > got.Sent+got.Resent ||
				had < got.Completed || !k.closes && had != got.Sent+got.Resent {
				t.Errorf("sent %d, again %d, completed %d, failed %d, in flight %d; the server had %d", got.Sent, got.Resent, got.Completed,
					got.Failed, got.InFlight, had)
			}
			failed := got.Faults[Fault{k.phase, k.cause}]
			if (k.cause != "") != (got.Failed > 0) || failed != got.Failed || name == "refuses" && got.Resent == 0 {
				t.Errorf("%d failed, %d sent again: %v", got.Failed, got.Resent, got.Faults)
			}
		})
	}
}

// TestQUICServerGone: a server that is gone in the middle of a run is noticed by the
// first packet that its host refuses, and a run that time ends goes on to its end.
func TestQUICServerGone(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	for name, stop := range map[string]func(*quicServer, net.PacketConn){
		"gone":    func(_ *quicServer, on net.PacketConn) { on.Close() },
		"says so": func(s *quicServer, on net.PacketConn) { s.http.Close(); on.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := trust(t, usual(), nil)
			socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &quicServer{}
			s.http = &http3.Server{TLSConfig: http3.ConfigureTLSConfig(server), Handler: http.HandlerFunc(answerAll)}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = s.http.Serve(socket) // until it is closed
			}()
			c := Config{
				To: addressOf(t, socket.LocalAddr().String()), Mix: get(), Connections: 4, Threads: 2, Pipelining: 2,
				Duration: time.Second, Timeout: 10 * time.Second, Seed: 1, Sockets: Sockets{TLS: client, Protocol: HTTP3},
			}
			stopped := false
			w := &watcher{onRow: func(row *Tally) {
				if !stopped && row.Completed > 0 {
					stopped = true
					stop(s, socket)
				}
			}}
			r := start(t.Context(), t, c, w)
			if n := &r.Total; n.Failed == 0 || n.Completed == 0 || n.Faults[Fault{PhaseConnect, "ECONNREFUSED"}] == 0 {
				t.Errorf("completed %d, failed %d: %v", n.Completed, n.Failed, n.Faults)
			}
			_ = s.http.Close()
			_ = socket.Close()
			<-done
		})
	}
}

// TestQUICPinned: the CPUs of a run are those of the whole process, until it ends.
func TestQUICPinned(t *testing.T) {
	needs.Engine(t)
	before, err := sys.AllowedCPUs(0)
	if err != nil {
		t.Fatal(err)
	}
	_, c := quicConfig(t, 0, nil, nil)
	c.CPUs, c.Duration = before[:1], 150*time.Millisecond
	var during []int
	clean := start(t.Context(), t, c, &watcher{onOpen: func() { during, err = sys.AllowedCPUs(0) }})
	after, errAfter := sys.AllowedCPUs(0)
	if err != nil || errAfter != nil || !slices.Equal(during, before[:1]) || !slices.Equal(after, before) || clean.Total.Completed == 0 {
		t.Errorf("on CPUs %v before, %v meanwhile, %v after; %v %v; completed %d", before, during, after, err, errAfter, clean.Total.Completed)
	}
}

// TestQUICRefused: a connection that cannot be had is a fault with a name.
func TestQUICRefused(t *testing.T) {
	needs.Engine(t)
	t.Parallel()
	expired := authority.Leaf{Names: []string{"server.test"}, From: time.Now().Add(-2 * time.Hour), To: time.Unix(1_600_000_000, 0)}
	for name, k := range map[string]struct {
		leaf   authority.Leaf
		change func(*Config)
		fault  Fault
	}{
		"expired": {leaf: expired, fault: Fault{PhaseTLS, "the certificate expired on 2020-09-13 12:26:40 UTC"}},
		"wrong name": {change: func(c *Config) { c.TLS.ServerName = "other.test" },
			fault: Fault{PhaseTLS, "the certificate is for server.test, not for other.test"}},
		"unknown authority": {change: func(c *Config) { c.TLS.Roots = x509.NewCertPool() },
			fault: Fault{PhaseTLS, "the certificate is signed by an unknown authority"}},
		"wrong ALPN": {change: func(c *Config) { c.To = addressOf(t, otherProtocol(t)) },
			fault: Fault{PhaseTLS, "TLS alert from the server: no application protocol"}},
		"closed port": {change: func(c *Config) { c.To = addressOf(t, closedUDP(t)) }, fault: Fault{PhaseConnect, "ECONNREFUSED"}},
		"silent":      {change: func(c *Config) { c.To = addressOf(t, silentUDP(t)) }, fault: Fault{PhaseConnect, CauseTimeout}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leaf := k.leaf
			if leaf.Names == nil {
				leaf = usual()
			}
			server, client := trust(t, leaf, nil)
			s := serveQUIC(t, server, nil, nil)
			c := Config{
				To: addressOf(t, s.address), Mix: get(), Connections: 4, Threads: 2, Pipelining: 1, Requests: 10,
				Timeout: 10 * time.Second, Seed: 1, Sockets: Sockets{TLS: client, Protocol: HTTP3},
			}
			if k.fault.Cause == CauseTimeout {
				c.Timeout = 300 * time.Millisecond
			}
			if k.change != nil {
				k.change(&c)
			}
			r := runs(t, c)
			if r.Established != 0 || r.Total.Sent != 0 || len(r.Setup) != 1 || r.Setup[k.fault] < 4 {
				t.Errorf("established %d, sent %d, faults %v", r.Established, r.Total.Sent, r.Setup)
			}
		})
	}
}

// closedUDP is an address where nobody listens.
func closedUDP(t testing.TB) string {
	t.Helper()
	s, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.LocalAddr().String()
}

// silentUDP is one where somebody listens and never answers.
func silentUDP(t testing.TB) string {
	t.Helper()
	s, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.LocalAddr().String()
}

// otherProtocol is one where QUIC is spoken, and not HTTP/3.
func otherProtocol(t testing.TB) string {
	t.Helper()
	config, _ := trust(t, usual(), nil)
	config.NextProtos = []string{"other"}
	l, err := quic.ListenAddr("127.0.0.1:0", config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}
