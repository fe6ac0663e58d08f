//go:build linux

package load

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	"ceiling/internal/authority"
	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
	"ceiling/internal/tlsconn"
)

// trust is a server's TLS and a client's that fits it.
func trust(t testing.TB, leaf authority.Leaf, change func(*tls.Config)) (*tls.Config, *tlsconn.Config) {
	t.Helper()
	ca, pair, err := authority.Site("of a test", leaf)
	if err != nil {
		t.Fatal(err)
	}
	server := &tls.Config{Certificates: []tls.Certificate{pair}}
	if change != nil {
		change(server)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	return server, &tlsconn.Config{ServerName: "server.test", Roots: roots, Protocols: []string{"http/1.1"}}
}

func usual() authority.Leaf { return authority.Leaf{Names: []string{"server.test"}} }

// secureConfig is config over TLS; each connection does a handshake and then steps.
func secureConfig(t testing.TB, engine string, n uint64, change func(*tls.Config), steps ...faultserver.Step) (
	*faultserver.Server, Config,
) {
	t.Helper()
	server, client := trust(t, usual(), change)
	s := serve(t, faultserver.Every(append([]faultserver.Step{faultserver.TLS(server)}, steps...)...))
	c := config(t, s, engine, n)
	c.TLS = client
	return s, c
}

func version12(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }

// TestTLSCounts: the server has as many requests as were sent, whatever the version
// and the cipher, the size of requests and answers and the way they come in pieces.
func TestTLSCounts(t *testing.T) {
	needs.Engine(t)
	const n = 300
	suite := func(id uint16) func(*tls.Config) {
		return func(c *tls.Config) { c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{id} }
	}
	long := faultserver.OK(strings.Repeat("x", 100_000))
	for name, k := range map[string]struct {
		change  func(*tls.Config)
		version uint16
		answer  faultserver.Step
		body    int // of a request
		depth   int
	}{
		"1.3":           {version: tls.VersionTLS13, answer: faultserver.Answer(faultserver.OK("hello")), depth: 1},
		"1.3 pipelined": {version: tls.VersionTLS13, answer: faultserver.Answer(faultserver.OK("hello")), depth: 20},
		"1.3 long":      {version: tls.VersionTLS13, answer: faultserver.Answer(long), depth: 1},
		"1.3 byte by byte": {version: tls.VersionTLS13, depth: 1,
			answer: faultserver.Loop(faultserver.Request(1), faultserver.Drip(faultserver.OK("hello"), 1))},
		"1.3 long request": {version: tls.VersionTLS13, answer: faultserver.Answer(faultserver.OK("hello")), depth: 1, body: 3 << 20},
		"1.2":              {change: version12, version: tls.VersionTLS12, answer: faultserver.Answer(long), depth: 3},
		"1.2 AES-CBC": {version: tls.VersionTLS12, answer: faultserver.Answer(long), depth: 1,
			change: suite(tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA)},
		"1.2 ChaCha20, long requests": {version: tls.VersionTLS12, answer: faultserver.Answer(faultserver.OK("x")), depth: 1, body: 200_000,
			change: suite(tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256)},
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s, c := secureConfig(t, engine, n, k.change, k.answer)
				c.Pipelining = k.depth
				if k.body > 0 {
					c.Requests = 20
					c.Mix[0].Bytes = fmt.Appendf(nil, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", k.body, strings.Repeat("b", k.body))
				}
				r := runs(t, c)
				clean(t, r, c.Requests)
				if s.Requests() != r.Total.Sent || r.Total.InFlight != 0 {
					t.Errorf("the server had %d requests, sent %d, in flight %d", s.Requests(), r.Total.Sent, r.Total.InFlight)
				}
				h := r.Handshakes
				if h == nil || h.Setup.Count() != 4 || h.Window.Count() != 0 || h.Agreed.Version != k.version {
					t.Errorf("handshakes %+v", h)
				}
			})
		})
	}
}

// TestTLSNewConnections: a handshake for each request, counted as the server counts
// them.
func TestTLSNewConnections(t *testing.T) {
	needs.Engine(t)
	const n = 60
	for name, change := range map[string]func(*tls.Config){"1.3": nil, "1.2": version12} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				s, c := secureConfig(t, engine, n, change, faultserver.Request(1), faultserver.Write(faultserver.OK("x")), faultserver.Stall())
				c.NewConnections = 1
				r := runs(t, c)
				clean(t, r, n)
				h := r.Handshakes
				if s.Requests() != n || h.Setup.Count()+h.Window.Count() != uint64(s.Accepted()) || h.Window.Count() < n-4 ||
					(h.CPUNs > 0) == (engine == ring.Portable) {
					t.Errorf("the server had %d requests over %d connections; %d handshakes before the window and %d in it, %d ns of CPU",
						s.Requests(), s.Accepted(), h.Setup.Count(), h.Window.Count(), h.CPUNs)
				}
			})
		})
	}
}

// TestTLSRefused: a handshake that does not succeed is a fault with a name, once for
// each attempt, and not a hang.
func TestTLSRefused(t *testing.T) {
	needs.Engine(t)
	expired := authority.Leaf{Names: []string{"server.test"}, From: time.Now().Add(-2 * time.Hour), To: time.Unix(1_600_000_000, 0)}
	early := authority.Leaf{Names: []string{"server.test"}, From: time.Unix(4_000_000_000, 0), To: time.Unix(4_100_000_000, 0)}
	hello := faultserver.TLS
	for name, k := range map[string]struct {
		leaf   authority.Leaf
		server func(*tls.Config)
		client func(*tlsconn.Config)
		steps  func(*tls.Config) []faultserver.Step
		cause  string
	}{
		"expired":           {leaf: expired, cause: "the certificate expired on 2020-09-13 12:26:40 UTC"},
		"not yet valid":     {leaf: early, cause: "the certificate is not valid before 2096-10-02 07:06:40 UTC"},
		"wrong name":        {client: func(c *tlsconn.Config) { c.ServerName = "other.test" }, cause: "the certificate is for server.test, not for other.test"},
		"wrong address":     {client: func(c *tlsconn.Config) { c.ServerName = "127.0.0.1" }, cause: "the certificate is for server.test, not for 127.0.0.1"},
		"unknown authority": {client: func(c *tlsconn.Config) { c.Roots = x509.NewCertPool() }, cause: "the certificate is signed by an unknown authority"},
		"TLS 1.1": {server: func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
			cause: "TLS alert from the server: protocol version not supported"},
		"1.2, wants a certificate": {server: func(c *tls.Config) { version12(c); c.ClientAuth = tls.RequireAnyClientCert },
			cause: "TLS alert from the server: handshake failure"},
		"plain": {steps: func(*tls.Config) []faultserver.Step {
			return []faultserver.Step{faultserver.Write("HTTP/1.1 400 Bad Request\r\n\r\n"), faultserver.Stall()}
		}, cause: "the server does not speak TLS on this port"},
		"closes": {steps: func(*tls.Config) []faultserver.Step { return []faultserver.Step{readHello, faultserver.Close()} },
			cause: tlsconn.ErrHandshake.Error()},
		"resets":  {steps: func(*tls.Config) []faultserver.Step { return []faultserver.Step{readHello, faultserver.Reset()} }, cause: "ECONNRESET"},
		"stalls":  {steps: func(*tls.Config) []faultserver.Step { return []faultserver.Step{faultserver.Stall()} }, cause: CauseTimeout},
		"is slow": {steps: func(c *tls.Config) []faultserver.Step { return []faultserver.Step{slowly, hello(c)} }, cause: CauseTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				leaf := k.leaf
				if leaf.Names == nil {
					leaf = usual()
				}
				server, client := trust(t, leaf, k.server)
				if k.client != nil {
					k.client(client)
				}
				steps := []faultserver.Step{hello(server), faultserver.Answer(faultserver.OK("x"))}
				if k.steps != nil {
					steps = k.steps(server)
				}
				s := serve(t, faultserver.Every(steps...))
				c := config(t, s, engine, 10)
				c.TLS = client
				if k.cause == CauseTimeout {
					c.Timeout = 300 * time.Millisecond
				}
				r := runs(t, c)
				if r.Established != 0 || r.Total.Sent != 0 || len(r.Setup) != 1 || r.Setup[Fault{PhaseTLS, k.cause}] < 4 {
					t.Errorf("established %d, sent %d, faults %v", r.Established, r.Total.Sent, r.Setup)
				}
			})
		})
	}
}

// readHello takes the client's first message, so that a close behind it is in order.
func readHello(c *faultserver.Conn) error {
	_, err := c.Read(make([]byte, 4096))
	return err
}

// slowly sends a whole record's beginning, byte by byte, and never its end.
func slowly(c *faultserver.Conn) error {
	for _, b := range []byte{22, 3, 3, 0, 100, 2} {
		if _, err := c.Write([]byte{b}); err != nil {
			return err
		}
	}
	return faultserver.Stall()(c)
}

// TestTLSEndsInBetween: what ends a connection after its handshake has a name, fails
// the request that was under way and no other, and the books balance.
func TestTLSEndsInBetween(t *testing.T) {
	needs.Engine(t)
	open := "HTTP/1.1 200 OK\r\n\r\nuntil the close"
	forged := "\x17\x03\x03\x00\x20" + strings.Repeat("x", 32)
	for name, k := range map[string]struct {
		steps []faultserver.Step
		cause string // "" none
	}{
		"until close_notify": {[]faultserver.Step{faultserver.Request(1), faultserver.Write(open), faultserver.HalfClose(), faultserver.Stall()}, ""},
		"cut off":            {[]faultserver.Step{faultserver.Request(1), faultserver.Write(open), faultserver.Close()}, "connection closed without close_notify"},
		"cut off in a record": {[]faultserver.Step{faultserver.Request(1), faultserver.Write(open), faultserver.Raw(forged[:20]), faultserver.Close()},
			"connection closed without close_notify"},
		"bad MAC": {[]faultserver.Step{faultserver.Request(1), faultserver.Raw(forged), faultserver.Stall()}, "bad TLS record MAC"},
		"oversize": {[]faultserver.Step{faultserver.Request(1), faultserver.Raw("\x17\x03\x03\xff\xff"), faultserver.Stall()},
			"TLS record too long"},
		"plain": {[]faultserver.Step{faultserver.Request(1), faultserver.Raw(faultserver.OK("x")), faultserver.Stall()}, "unexpected TLS message"},
		"short body": {[]faultserver.Step{faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), faultserver.HalfClose(),
			faultserver.Stall()}, "short body"},
		"two answers": {[]faultserver.Step{faultserver.Request(1), faultserver.Write(faultserver.OK("x") + faultserver.OK("y")),
			faultserver.Stall()}, causeExtra},
		"stalls":              {[]faultserver.Step{faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\n"), faultserver.Stall()}, CauseTimeout},
		"wants a certificate": {[]faultserver.Step{faultserver.Answer(faultserver.OK("x"))}, "TLS alert from the server: certificate required"},
	} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				change := func(c *tls.Config) {
					if name == "wants a certificate" {
						c.ClientAuth = tls.RequireAnyClientCert
					}
				}
				s, c := secureConfig(t, engine, 12, change, k.steps...)
				c.Timeout = 400 * time.Millisecond
				r := runs(t, c)
				faults := r.Total.Faults[Fault{PhaseResponse, k.cause}] + r.Total.Faults[Fault{PhaseIdle, k.cause}] +
					r.Setup[Fault{PhaseIdle, k.cause}]
				if k.cause == "" && (r.Total.Completed != 12 || r.Total.Failed != 0) || k.cause != "" && faults == 0 {
					t.Errorf("completed %d, failed %d, faults %v, before %v", r.Total.Completed, r.Total.Failed, r.Total.Faults, r.Setup)
				}
				if s.Requests() > r.Total.Sent {
					t.Errorf("the server had %d requests, sent %d", s.Requests(), r.Total.Sent)
				}
			})
		})
	}
}

// TestTLSClientCertificate: the server sees the client's.
func TestTLSClientCertificate(t *testing.T) {
	needs.Engine(t)
	for name, change := range map[string]func(*tls.Config){"1.3": nil, "1.2": version12} {
		t.Run(name, func(t *testing.T) {
			eachAtOnce(t, func(t *testing.T, engine string) {
				ca, own, err := authority.Site("of clients", authority.Leaf{Names: []string{"client.test"}})
				if err != nil {
					t.Fatal(err)
				}
				_, c := secureConfig(t, engine, 20, func(s *tls.Config) {
					if change != nil {
						change(s)
					}
					s.ClientAuth, s.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
					s.ClientCAs.AppendCertsFromPEM(ca.PEM())
				}, faultserver.Answer(faultserver.OK("x")))
				c.TLS.Certificates = []tls.Certificate{own}
				clean(t, runs(t, c), 20)
			})
		})
	}
}

// TestTunnelHead: a proxy's response to a CONNECT may come byte by byte, and what follows it in one piece
// is the server's.
func TestTunnelHead(t *testing.T) {
	needs.Engine(t)
	const connect, opened = "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n", "HTTP/1.1 200 Connection established\r\nVia: 1.1 p\r\n\r\n"
	eachAtOnce(t, func(t *testing.T, engine string) {
		s := serve(t, func(int) faultserver.Script {
			return faultserver.Script{faultserver.Request(1), faultserver.Drip(opened, 1),
				faultserver.Loop(faultserver.Request(1), faultserver.Write(faultserver.OK("x")))}
		})
		c := config(t, s, engine, 100)
		c.To.Tunnel = []byte(connect)
		clean(t, runs(t, c), 100)

		s = serve(t, func(int) faultserver.Script {
			return faultserver.Script{faultserver.Request(1), faultserver.Write(opened + "HTTP/1.1 400 Bad Request\r\n\r\n"), faultserver.Request(1)}
		})
		c = config(t, s, engine, 4)
		c.To.Tunnel, c.Timeout = []byte(connect), 500_000_000
		if r := start(t.Context(), t, c, &watcher{}); r.Setup[Fault{PhaseIdle, causeExtra}] == 0 {
			t.Errorf("what the server said first was lost: %v, then %v", r.Setup, r.Total.Faults)
		}
	})
}
