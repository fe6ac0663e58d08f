package proxy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/proxy"
	"ceiling/proxy/secure"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"golang.org/x/net/dns/dnsmessage"
)

// names answers every question for an address with 127.0.0.1.
func names(t *testing.T) (addr string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
					Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

// issuing is what a test wants of pebble.
type issuing struct {
	seconds uint64       // that its certificates are valid; 0: its default
	broken  *atomic.Bool // it refuses everything; nil: never
}

// pebble is the test authority of Let's Encrypt, in this process. Its validation
// asks plain, and secure, at these ports; 0 is one where nobody answers.
func pebble(t *testing.T, plain, secure string, how issuing) (directory, roots string) {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	issuer := ca.New(quiet, store, "", 0, 1, map[string]ca.Profile{"default": {ValidityPeriod: how.seconds}})
	front := wfe.New(quiet, store, va.New(quiet, portOf(plain), portOf(secure), true, names(t), store), issuer, true, false, 1, 1)
	handler := front.Handler()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if how.broken != nil && how.broken.Load() {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden) // a 5xx would be tried again for five minutes
			_, _ = io.WriteString(w, `{"type":"urn:ietf:params:acme:error:rateLimited","detail":"not before tomorrow"}`)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	roots = filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.URL + "/dir", roots
}

func portOf(address string) int { return int(netip.MustParseAddrPort(address).Port()) }

// challenged is a configuration whose certificate an authority gives that asks back
// by one challenge alone. The authority has to know the addresses before the proxy does.
func challenged(t *testing.T, challenge string, how issuing) (text string) {
	t.Helper()
	plain, secure := porttest.Free(t, "127.0.0.1"), porttest.Free(t, "127.0.0.1")
	asks := [2]string{plain, secure}
	if challenge == "http-01" {
		asks[1] = porttest.Free(t, "127.0.0.1")
	} else {
		asks[0] = porttest.Free(t, "127.0.0.1")
	}
	directory, roots := pebble(t, asks[0], asks[1], how)
	return fmt.Sprintf("workers = 1\nlisten = [%q]\n[tls]\nredirect = true\nlisten = [%q]\n[tls.acme]\nhosts = [\"a.example\"]\ncache = %q\ndirectory = %q\nroots = %q\n[[locations]]\nredirect = { to = \"/never\" }\n",
		plain, secure, cacheDir(t), directory, roots)
}

// cacheDir is a directory that autocert may still write when the proxy has ended: its goroutines end
// by themselves, and t.TempDir fails a test whose directory is not empty for once.
func cacheDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "acme-cache-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { until(t, "the cache is removed", func() bool { return os.RemoveAll(dir) == nil }) })
	return dir
}

// TestACME: a certificate is got by each challenge, and is taken from the cache by the next process,
// which asks for none. Everybody else is sent to https meanwhile.
func TestACME(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	for _, challenge := range []string{"http-01", "tls-alpn-01"} {
		t.Run(challenge, func(t *testing.T) {
			text := challenged(t, challenge, issuing{})
			r := runKept(t, text)
			serial := issued(t, r)
			res, err := r.client(false).Get("http://a.example/x")
			if text := read(t, res, err); res.StatusCode != 308 {
				t.Error(text)
			}
			if _, err := tls.Dial("tcp", r.addr, &tls.Config{ServerName: "b.example", InsecureSkipVerify: true}); err == nil {
				t.Error("there is a certificate for another name")
			}
			if r.counted(t).Failures["no certificate"] == 0 {
				t.Error("it was not counted that there is no certificate")
			}
			r.stop()
			if again := issued(t, run(t, text)); again != serial {
				t.Errorf("certificate %s, then %s: the cache is not used", serial, again)
			}
		})
	}
}

// TestACMERenews: a certificate that is about to expire is replaced while the proxy serves.
func TestACMERenews(t *testing.T) {
	needs.Time(t) // two thirds of a certificate's
	t.Parallel()
	for _, challenge := range []string{"http-01", "tls-alpn-01"} {
		t.Run(challenge, func(t *testing.T) {
			r := runKept(t, challenged(t, challenge, issuing{seconds: 12}))
			first := issued(t, r)
			until(t, "there is another certificate", func() bool { return issued(t, r) != first })
		})
	}
}

// TestACMEFails: while the authority refuses, its answer is reported, its host gets no certificate and
// the others are served; a minute later it is asked again.
func TestACMEFails(t *testing.T) {
	needs.Time(t) // autocert's createCertRetryAfter
	needs.Unraced(t)
	t.Parallel()
	broken := &atomic.Bool{}
	broken.Store(true)
	dir := t.TempDir()
	own := certify(t, dir, "b.example")
	text := strings.Replace(challenged(t, "tls-alpn-01", issuing{broken: broken}), "[tls.acme]",
		fmt.Sprintf("[[tls.certificates]]\npem = %q\nkey = %q\n[tls.acme]", own.PEM, own.Key), 1)
	said := make(chan string, 100)
	r := runKeeper(t, text, func(line string) { said <- line })
	if line := <-said; !strings.Contains(line, "a.example") || !strings.Contains(line, "not before tomorrow") {
		t.Errorf("reported: %s", line)
	}
	if _, err := tls.Dial("tcp", r.addr, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true}); err == nil {
		t.Error("there is a certificate")
	}
	if got := r.handshake(t, "b.example").ConnectionState().PeerCertificates[0].Subject.CommonName; got != "b.example" {
		t.Error(got)
	}
	broken.Store(false)
	issued(t, r)
}

// runKept starts a proxy with a Keeper, which leaves nothing behind. What it reports when the test
// is over, since nothing cancels a request to the authority, is dropped.
func runKept(t *testing.T, text string) *running {
	t.Helper()
	var mu sync.Mutex
	over := false
	t.Cleanup(func() { mu.Lock(); defer mu.Unlock(); over = true })
	return runKeeper(t, text, func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			t.Log(line)
		}
	})
}

func runKeeper(t *testing.T, text string, report func(string)) *running {
	t.Helper()
	k, err := secure.NewKeeper(parse(t, text).TLS.ACME, report)
	if err != nil {
		t.Fatal(err)
	}
	r := runWith(t, text, proxy.Options{Challenges: k.Socket()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Dir(k.Socket())); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", filepath.Dir(k.Socket()), err)
		}
	})
	return r
}

// issued waits for the certificate.
func issued(t *testing.T, r *running) (serial string) {
	t.Helper()
	until(t, "there is a certificate", func() bool {
		conn, err := tls.Dial("tcp", r.addr, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true})
		if err != nil {
			return false
		}
		defer conn.Close()
		leaf := conn.ConnectionState().PeerCertificates[0]
		if err := leaf.VerifyHostname("a.example"); err != nil || !strings.Contains(leaf.Issuer.CommonName, "Pebble") {
			t.Fatalf("%v of %s", err, leaf.Issuer)
		}
		if leaf.PublicKeyAlgorithm != x509.ECDSA {
			t.Errorf("%v", leaf.PublicKeyAlgorithm)
		}
		serial = leaf.SerialNumber.String()
		return true
	})
	return serial
}

// TestChallengeIsOpen: what is no challenge of ours gets a 404, in the clear.
func TestChallengeIsOpen(t *testing.T) {
	directory, roots := pebble(t, porttest.Free(t, "127.0.0.1"), porttest.Free(t, "127.0.0.1"), issuing{})
	dir := t.TempDir()
	c := certify(t, dir, "b.example")
	text := begin("redirect = true", c) + fmt.Sprintf("[tls.acme]\nhosts = [\"a.example\"]\ncache = %q\ndirectory = %q\nroots = %q\n",
		cacheDir(t), directory, roots) + location("files://"+dir, "")
	r := runKept(t, text)
	res, err := r.client(false).Get("http://a.example/.well-known/acme-challenge/x")
	if got := read(t, res, err); res.StatusCode != http.StatusNotFound {
		t.Error(got)
	}
	if got := r.handshake(t, "b.example").ConnectionState().PeerCertificates[0].Subject.CommonName; got != "b.example" {
		t.Error(got)
	}
}
