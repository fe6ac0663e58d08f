package proxy

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		go func() { ended <- p.Run(ctx) }()
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

// TestTornBridge: a response that lasts until the connection closes, and whose TLS
// connection was cut, is not passed on as a whole one.
func TestTornBridge(t *testing.T) {
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
	go func() { ended <- p.Run(ctx) }()
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
