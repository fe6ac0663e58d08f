package proxy

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/proxy/config"
)

// TestSecureDestination: a destination with TLS, and one whose certificate nobody
// vouches for.
func TestSecureDestination(t *testing.T) {
	keepsNothing(t)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		fmt.Fprintf(w, "%v %d", q.TLS != nil, len(body))
	}))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	for _, pool := range []*x509.CertPool{roots, x509.NewCertPool()} {
		p, err := New(parse(t, to(s.URL)), Options{Roots: pool})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx, nil) }()
		l := dial(t, p.Addresses()[0].String())
		for range 3 {
			l.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + string(pattern(100000)))
			res, body := l.answer("POST")
			if pool == roots && (res.StatusCode != 200 || body != "true 100000") {
				t.Errorf("%s %q", res.Status, body)
			}
			if pool != roots {
				if res.StatusCode != 502 {
					t.Errorf("%s", res.Status)
				}
				break
			}
		}
		l.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestAuthorityOfADestination: a file vouches for a destination, for its health checks
// too, and another content of the file at a reload does not.
func TestAuthorityOfADestination(t *testing.T) {
	keepsNothing(t)
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	file := filepath.Join(t.TempDir(), "ca.pem")
	write := func(der []byte) {
		t.Helper()
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(s.Certificate().Raw)
	text := to(s.URL) + "ca = \"" + file + "\"\nhealth = { path = \"/\", interval = \"20ms\", fall = 1000000 }\n"
	r := run(t, "auto", text)
	dial(t, r.addr).status("/", 200)
	until(t, "two good checks", func() bool {
		sn, err := r.Snapshot()
		return err == nil && sn.Upstreams[0].Checks >= 2 && sn.Upstreams[0].FailedChecks == 0
	})
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	stranger := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(nil, stranger, stranger, public, private)
	if err != nil {
		t.Fatal(err)
	}
	write(der)
	if err := r.Reload(parse(t, text)); err != nil {
		t.Fatal(err)
	}
	res, _ := dial(t, r.addr).get("/")
	if res.StatusCode != 502 {
		t.Errorf("after the reload with another authority: %s", res.Status)
	}
	write([]byte("none"))
	if _, err := config.Parse("test.toml", []byte(text)); err == nil ||
		!strings.Contains(err.Error(), "ca: "+file+" has no certificate in PEM") {
		t.Errorf("a file without a certificate: %v", err)
	}
	if _, err := config.Parse("test.toml", []byte(strings.Replace(text, "https://", "http://", 1))); err == nil ||
		!strings.Contains(err.Error(), "ca has no use: ") {
		t.Errorf("a destination without TLS: %v", err)
	}
}

// TestTornDestination: a response that lasts until the connection closes, and whose TLS
// connection was cut, is not passed on as a whole one.
func TestTornDestination(t *testing.T) {
	keepsNothing(t)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = rw.WriteString("HTTP/1.1 200 OK\r\n\r\nhalf of it")
		_ = rw.Flush()
		if q.URL.Path == "/torn" {
			conn = conn.(*tls.Conn).NetConn()
		}
		conn.Close()
	}))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	p, err := New(parse(t, to(s.URL)), Options{Roots: roots})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, nil) }()
	for path, whole := range map[string]bool{"/torn": false, "/whole": true} {
		l := dial(t, p.Addresses()[0].String())
		l.say("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		res, err := http.ReadResponse(l.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(res.Body); (err == nil) != whole || string(body) != "half of it" {
			t.Errorf("%s: %q %v", path, body, err)
		}
		l.Close()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestVersionsOfADestination: bodies of all sizes go through each version, over one connection.
func TestVersionsOfADestination(t *testing.T) {
	needs.Time(t)
	for name, change := range map[string]func(*tls.Config){
		"1.3": func(*tls.Config) {},
		"1.2": func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 },
		"1.2 CBC": func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA}
		},
	} {
		for _, engine := range []string{"uring", "epoll"} {
			t.Run(name+"/"+engine, func(t *testing.T) {
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					body, err := io.ReadAll(q.Body)
					if err != nil {
						t.Error(err)
					}
					_, _ = w.Write(body)
				}))
				s.TLS = new(tls.Config)
				change(s.TLS)
				var opened atomic.Int64
				s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
					if state == http.StateNew {
						opened.Add(1)
					}
				}
				s.StartTLS()
				t.Cleanup(s.Close)
				roots := x509.NewCertPool()
				roots.AddCert(s.Certificate())
				r := runWith(t, to(s.URL), Options{Engine: engine, Roots: roots})
				l := dial(t, r.addr)
				for _, n := range []int{0, 1, 1000, 16384, 16385, 70_000, 1 << 20, 5} {
					want := string(pattern(n))
					l.say(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", n, want))
					if res, body := l.answer("POST"); res.StatusCode != 200 || body != want {
						t.Fatalf("%d bytes: %s, %d bytes came back", n, res.Status, len(body))
					}
				}
				if opened.Load() != 1 {
					t.Errorf("%d connections", opened.Load())
				}
			})
		}
	}
}

// recorded keeps what is received of a connection, below TLS.
type recorded struct {
	net.Conn
	mu  sync.Mutex
	got []byte
}

func (c *recorded) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	c.got = append(c.got, b[:n]...)
	c.mu.Unlock()
	return n, err
}

// lastRecord returns the type of the last record (RFC 5246, section 6.2.1).
func (c *recorded) lastRecord() (kind byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for b := c.got; len(b) >= 5; b = b[5+(int(b[3])<<8|int(b[4])):] {
		kind = b[0]
	}
	return kind
}

// recording makes a listener's connections recorded.
type recording struct{ net.Listener }

func (l recording) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &recorded{Conn: c}, nil
}

// TestTunnelToADestinationWithTLS: each direction of a tunnel ends by itself, with close_notify; an end
// without one ends the client's connection too.
func TestTunnelToADestinationWithTLS(t *testing.T) {
	ended := make(chan string, 2)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		if q.URL.Path == "/torn" {
			_, _ = io.WriteString(conn, "half")
			conn.(*tls.Conn).NetConn().Close()
			return
		}
		got, err := io.ReadAll(rw)
		ended <- fmt.Sprintf("%s %v %d", got, err, conn.(*tls.Conn).NetConn().(*recorded).lastRecord())
		_, _ = io.WriteString(conn, "all of it")
	}))
	s.TLS = &tls.Config{MaxVersion: tls.VersionTLS12} // whose alerts are seen to be such
	s.Listener = recording{s.Listener}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	r := runWith(t, to(s.URL), Options{Roots: roots})
	for _, path := range []string{"/whole", "/torn"} {
		l := dial(t, r.addr)
		l.say("GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		if res, err := http.ReadResponse(l.r, nil); err != nil || res.StatusCode != 101 {
			t.Fatalf("%v %v", res, err)
		}
		l.say("from the client")
		if err := l.Conn.(*net.TCPConn).CloseWrite(); err != nil && path == "/whole" {
			t.Fatal(err)
		}
		back, err := io.ReadAll(l.r)
		if path == "/whole" && (err != nil || string(back) != "all of it" || <-ended != "from the client <nil> 21") {
			t.Errorf("%q %v", back, err)
		}
		if path == "/torn" && strings.Contains(string(back), "all") {
			t.Errorf("torn: %q %v", back, err)
		}
	}
}

// TestTLSFailuresAreReportedOnce: a destination whose certificate is refused is reported when that
// begins and when it is over, however many requests meet it.
func TestTLSFailuresAreReportedOnce(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	var good atomic.Bool
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if good.Load() {
			return nil, nil
		}
		return nil, errors.New("not today")
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	r := runWith(t, to(s.URL)+"eject = { failures = 1000000 }\n", Options{Roots: roots})
	for range 5 {
		if res, body := dial(t, r.addr).get("/"); res.StatusCode != 502 || !strings.Contains(body, "TLS: the handshake failed") {
			t.Errorf("%s %s", res.Status, body)
		}
	}
	good.Store(true)
	dial(t, r.addr).status("/", 200)
	r.mu.Lock()
	defer r.mu.Unlock()
	if said := r.lines; len(said) != 2 || !strings.Contains(said[0], "TLS: TLS alert from the server: internal error") || !strings.HasSuffix(said[1], "TLS works again") {
		t.Errorf("%q", r.lines)
	}
}
