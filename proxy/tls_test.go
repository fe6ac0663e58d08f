package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/ring"
	"ceiling/proxy"
	"ceiling/proxy/config"
)

// patience bounds what a test waits for. It is never part of a claim.
const patience = 3 * time.Minute

// certify writes a certificate of itself for names, with its key.
func certify(t *testing.T, dir string, names ...string) config.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return certifyWith(t, dir, key, names...)
}

// certifyRSA is certify with an RSA key.
func certifyRSA(t *testing.T, dir string, names ...string) config.Certificate {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return certifyWith(t, dir, key, names...)
}

func certifyWith(t *testing.T, dir string, key crypto.Signer, names ...string) config.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := config.Certificate{PEM: filepath.Join(dir, names[0]+".pem"), Key: filepath.Join(dir, names[0]+".key")}
	for name, block := range map[string]*pem.Block{files.PEM: {Type: "CERTIFICATE", Bytes: der},
		files.Key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// running is a proxy with TLS under test.
type running struct {
	*proxy.Proxy
	addr  string // with TLS
	plain string
	tls   uint16 // the version that clients offer; 0: the last
	stop  func()
	mu    sync.Mutex
	said  []string
}

func (r *running) report(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, line)
}

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("test.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// begin is a configuration's beginning, up to its locations.
func begin(more string, files ...config.Certificate) string {
	b := "workers = 1\nlisten = [\"127.0.0.1:0\"]\n" + "[tls]\nlisten = [\"127.0.0.1:0\"]\n" + more + "\n"
	for _, f := range files {
		b += fmt.Sprintf("[[tls.certificates]]\npem = %q\nkey = %q\n", f.PEM, f.Key)
	}
	return b
}

func location(uri, more string) string {
	return "[[locations]]\n" + more + "\n[[locations.destinations]]\nuri = \"" + uri + "\"\n"
}

// run starts a proxy; it must end without an error.
func run(t *testing.T, text string) *running {
	t.Helper()
	return runOn(t, ring.Auto, text)
}

// engines runs f with each engine.
func engines(t *testing.T, f func(t *testing.T, engine string)) {
	for _, engine := range []string{ring.Uring, ring.Epoll} {
		t.Run(engine, func(t *testing.T) {
			if engine == ring.Uring {
				needs.LockedMemory(t)
			}
			f(t, engine)
		})
	}
}

// versions runs f with each engine and version of TLS.
func versions(t *testing.T, f func(t *testing.T, engine string, version uint16)) {
	engines(t, func(t *testing.T, engine string) {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(tls.VersionName(version), func(t *testing.T) { f(t, engine, version) })
		}
	})
}

func runOn(t *testing.T, engine, text string) *running {
	t.Helper()
	return runWith(t, text, proxy.Options{Engine: engine})
}

func runWith(t *testing.T, text string, o proxy.Options) *running {
	t.Helper()
	r := &running{}
	o.Report = r.report
	var err error
	if r.Proxy, err = proxy.New(parse(t, text), o); err != nil {
		t.Fatal(err)
	}
	r.addr, r.plain = r.SecureAddresses()[0].String(), r.Addresses()[0].String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Proxy.Run(ctx, nil) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(2 * patience):
			t.Fatal("the proxy does not end")
		}
	})
	t.Cleanup(func() {
		r.stop()
		r.mu.Lock()
		defer r.mu.Unlock()
		if t.Failed() {
			t.Logf("%q", r.said)
		}
	})
	return r
}

// handshake opens a connection and trusts anybody.
func (r *running) handshake(t *testing.T, name string, protocols ...string) *tls.Conn {
	t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", r.addr,
		&tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: protocols, MaxVersion: r.tls})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func (r *running) client(h2 bool) *http.Client {
	var p http.Protocols
	p.SetHTTP1(!h2)
	p.SetHTTP2(h2)
	return &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Protocols: &p, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MaxVersion: r.tls},
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				to := r.addr
				if strings.HasSuffix(addr, ":80") {
					to = r.plain
				}
				return new(net.Dialer).DialContext(ctx, network, to)
			},
		}}
}

func serve(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

func read(t *testing.T, res *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %d %s", res.Proto, res.StatusCode, b)
}

// TestBothVersions: what the destination is told, by either version of HTTP.
func TestBothVersions(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		fmt.Fprintf(w, "%s %s %s %q %q %s %d %v", q.Method, q.RequestURI, q.Host, q.Header["X-Forwarded-For"], q.Header["Cookie"],
			q.Header.Get("X-Forwarded-Proto"), len(body), err)
	})
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
	for i, want := range []string{"HTTP/1.1", "HTTP/2.0", "HTTP/1.1", "HTTP/2.0"} {
		if i == 2 {
			r.tls = tls.VersionTLS12
		}
		client := r.client(want == "HTTP/2.0")
		q, err := http.NewRequest("POST", "https://a.example/x%2Fy//z?a;b=%zz", strings.NewReader(strings.Repeat("b", 300_000)))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("X-Forwarded-For", "6.6.6.6") // of somebody who is not trusted
		q.Header.Set("Cookie", "a=1; b=2")
		res, err := client.Do(q)
		if got := read(t, res, err); got != want+` 200 POST /x%2Fy//z?a;b=%zz a.example ["127.0.0.1"] ["a=1; b=2"] https 300000 <nil>` {
			t.Errorf("%s", got)
		}
		client.CloseIdleConnections()
	}
}

// TestStreamsBothWays: over HTTP/2, a piece of the request is answered before the
// next is sent; and what a destination cuts is not whole for the client.
func TestStreamsBothWays(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/cut" {
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("half"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		c := http.NewResponseController(w)
		if err := c.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		w.Header().Set("Trailer", "X-Sum")
		in := bufio.NewReader(q.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				w.Header().Set("X-Sum", "1")
				return
			}
			_, _ = io.WriteString(w, "got "+line)
			_ = c.Flush()
		}
	})
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
	client := r.client(true)
	defer client.CloseIdleConnections()
	body, feed := io.Pipe()
	go func() { _, _ = io.WriteString(feed, "0\n") }()
	res, err := client.Post("https://a.example/", "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	for i := range 5 {
		if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("got %d\n", i) {
			t.Fatalf("%q %v", line, err)
		}
		if i < 4 {
			fmt.Fprintf(feed, "%d\n", i+1)
		}
	}
	feed.Close()
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 || res.Header.Get("X-Sum") != "" || res.Trailer.Get("X-Sum") != "1" {
		t.Errorf("%q %v; trailers %v, header %v", rest, err, res.Trailer, res.Header)
	}
	res, err = client.Get("https://a.example/cut")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("%q passed for a whole answer", b)
	}
}

// TestTargets: what would be another request line in HTTP/1.1 is refused, not passed
// on; CONNECT too.
func TestTargets(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, q *http.Request) { _, _ = io.WriteString(w, q.RequestURI) })
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
	client := r.client(true)
	defer client.CloseIdleConnections()
	for raw, want := range map[string]string{"a b HTTP/1.1": "400", "a=%20b": "200"} {
		q, err := http.NewRequest("GET", "https://a.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.URL.RawQuery = raw
		res, err := client.Do(q)
		if got := read(t, res, err); !strings.HasPrefix(got, "HTTP/2.0 "+want) {
			t.Errorf("%q: %s", raw, got)
		}
	}
	q, err := http.NewRequest("CONNECT", "https://a.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(q)
	if got := read(t, res, err); res.StatusCode != 405 {
		t.Error(got)
	}
}

// TestTunnel: another protocol over HTTP/1.1 with TLS, where the server speaks
// first.
func TestTunnel(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello\n")
		_ = rw.Flush()
		line, err := rw.ReadString('\n')
		_, _ = fmt.Fprintf(conn, "%s%v\n", line, err)
	})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
		r.tls = version
		tunnel(t, r.handshake(t, "a.example", "http/1.1"))
	}
}

func tunnel(t *testing.T, conn *tls.Conn) {
	t.Helper()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("%v %v", res, err)
	}
	if line, err := in.ReadString('\n'); err != nil || line != "hello\n" {
		t.Fatalf("%q %v", line, err)
	}
	_, _ = io.WriteString(conn, "there\n")
	if rest, err := io.ReadAll(in); string(rest) != "there\n<nil>\n" || err != nil {
		t.Fatalf("%q %v", rest, err)
	}
}

// TestNames: the certificate is that of the name asked for, the first for others;
// a changed file is taken without a reload, half of a change is not.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	a, b := certify(t, dir, "a.example"), certify(t, dir, "b.example", "*.b.example")
	r := run(t, begin("", a, b)+location("files://"+dir, ""))
	name := func(sni string) (string, string) {
		leaf := r.handshake(t, sni).ConnectionState().PeerCertificates[0]
		return leaf.Subject.CommonName, leaf.SerialNumber.String()
	}
	for sni, want := range map[string]string{"a.example": "a.example", "b.example": "b.example", "x.b.example": "b.example",
		"c.example": "a.example", "": "a.example"} {
		if got, _ := name(sni); got != want {
			t.Errorf("%q: %s, want %s", sni, got, want)
		}
	}
	_, before := name("b.example")
	if err := os.WriteFile(b.PEM, []byte("half of a renewal"), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "it is said that the old one stays", func() bool {
		if _, serial := name("b.example"); serial != before {
			t.Fatal("a broken file was taken")
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.said) > 0 && strings.Contains(r.said[0], "the old certificate stays")
	})
	certify(t, dir, "b.example", "*.b.example")
	until(t, "the new certificate is there", func() bool { _, serial := name("b.example"); return serial != before })
	for sni, file := range map[string]string{"b.example": "b.example", "": "a.example"} { // the first handshake after a renewal
		for range 2 {
			_, before := name(sni)
			certify(t, dir, file, "*."+file)
			if got, serial := name(sni); serial == before || got != file {
				t.Errorf("%q: the old certificate of %s", sni, got)
			}
		}
	}
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestOldVersions: TLS 1.1 and ciphers without forward secrecy are refused.
func TestOldVersions(t *testing.T) {
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location("files:///tmp", ""))
	for name, c := range map[string]*tls.Config{
		"1.1": {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
		"CBC": {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}},
	} {
		c.InsecureSkipVerify = true
		if conn, err := tls.Dial("tcp", r.addr, c); err == nil {
			conn.Close()
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestRedirectAndHSTS: plain requests go to https; HSTS is said there, and never in
// the clear.
func TestRedirectAndHSTS(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("page"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := serve(t, func(http.ResponseWriter, *http.Request) {})
	helmet := "helmet = { hsts_max_age = 60, x_frame_options = \"DENY\" }\n"
	for _, redirect := range []bool{false, true} {
		r := run(t, begin(fmt.Sprintf("redirect = %v", redirect), certify(t, dir, "a.example"))+location(to,
			"paths = [\"/x\"]\n"+helmet)+location("files://"+dir, helmet))
		for _, h2 := range []bool{false, true} {
			for _, path := range []string{"/", "/x?q=1"} {
				client := r.client(h2)
				for _, scheme := range []string{"http", "https"} {
					if h2 && scheme == "http" {
						continue
					}
					res, err := client.Get(scheme + "://a.example" + path)
					text := read(t, res, err)
					hsts, frame := res.Header.Get("Strict-Transport-Security"), res.Header.Get("X-Frame-Options")
					switch {
					case scheme == "http" && redirect:
						if res.StatusCode != 308 || res.Header.Get("Location") != "https://a.example:0"+path || hsts != "" {
							t.Errorf("%s %v", text, res.Header)
						}
					case res.StatusCode != 200 || (hsts == "max-age=60; includeSubDomains") != (scheme == "https") || frame != "DENY":
						t.Errorf("%s %s: %s %v", scheme, path, text, res.Header)
					}
				}
				client.CloseIdleConnections()
			}
		}
		r.stop()
	}
}

// TestDrain: a request that is under way when the proxy is told to end is answered,
// by either version of HTTP and TLS.
func TestDrain(t *testing.T) {
	for i := range 4 {
		h2 := i%2 > 0
		begun, goOn := make(chan struct{}), make(chan struct{})
		to := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			close(begun)
			<-goOn
			_, _ = io.WriteString(w, "done")
		})
		r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
		if i/2 > 0 {
			r.tls = tls.VersionTLS12
		}
		client := r.client(h2)
		answered := make(chan string, 1)
		go func() {
			res, err := client.Get("https://a.example/")
			if err != nil {
				answered <- err.Error()
				return
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			answered <- fmt.Sprint(string(b), err)
		}()
		<-begun
		stopped := make(chan struct{})
		go func() { defer close(stopped); r.stop() }()
		until(t, "no connection is accepted", func() bool {
			conn, err := net.Dial("tcp", r.addr)
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
		close(goOn)
		if got := <-answered; got != "done<nil>" {
			t.Errorf("h2 %v: %s", h2, got)
		}
		client.CloseIdleConnections()
		<-stopped
	}
}

// TestReloadCertificates: a certificate that cannot be read leaves the old ones; the addresses
// cannot change.
func TestReloadCertificates(t *testing.T) {
	dir := t.TempDir()
	a := certify(t, dir, "a.example")
	text := begin("", a) + location("files://"+dir, "")
	r := run(t, text)
	for _, wrong := range []string{strings.Replace(text, a.PEM, dir+"/none", 1),
		strings.Replace(text, "[tls]\nlisten = [\"127.0.0.1:0\"]", "[tls]\nlisten = [\"127.0.0.1:1\"]", 1)} {
		if err := r.Reload(parse(t, wrong)); err == nil {
			t.Errorf("%s", wrong)
		}
	}
	b := certify(t, dir, "b.example")
	if err := r.Reload(parse(t, begin("", b)+location("files://"+dir, ""))); err != nil {
		t.Fatal(err)
	}
	if got := r.handshake(t, "a.example").ConnectionState().PeerCertificates[0].Subject.CommonName; got != "b.example" {
		t.Error(got)
	}
}

// TestStuckReader: a client that does not read is let go of, by either version.
func TestStuckReader(t *testing.T) {
	needs.Time(t)
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		b := make([]byte, 1<<16)
		for {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	})
	for _, h2 := range []bool{false, true} {
		r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+"[timeouts]\nidle = \"300ms\"\n"+location(to, ""))
		client := r.client(h2)
		res, err := client.Get("https://a.example/")
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the request has ended", func() bool {
			s, err := r.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return s.Counters["client_timeouts_total"]+s.Counters["client_resets_total"] > 0 // whose limit is over first
		})
		if !h2 {
			until(t, "the connection is let go of", func() bool { return r.counted(t).Clients == 0 })
		}
		if _, err := io.Copy(io.Discard, res.Body); err == nil {
			t.Error("the cut answer passed for a whole one")
		}
		res.Body.Close()
		client.CloseIdleConnections()
		until(t, "no connection is left", func() bool { return r.clients(t) == 0 })
	}
}

// TestGarbage: what is no TLS, and who says nothing, is let go of.
func TestGarbage(t *testing.T) {
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+"[timeouts]\nheader = \"200ms\"\n"+location("files:///tmp", ""))
	for _, text := range []string{"", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "\x16\x03\x01\xff\xff", strings.Repeat("\x00", 100)} {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, text)
		if _, err := io.ReadAll(conn); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%q: %v", text, err)
		}
		conn.Close()
	}
	until(t, "no connection is left", func() bool { return r.clients(t) == 0 })
}

// TestPreface: the address in front of the handshake is believed from a trusted
// proxy, and nobody else is listened to.
func TestPreface(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.WriteString(w, q.Header.Get("X-Forwarded-For"))
	})
	for _, trust := range []string{"127.0.0.1", "10.0.0.1"} {
		text := "proxy_protocol = true\ntrust = [\"" + trust + "\"]\n" + begin("", certify(t, t.TempDir(), "a.example")) + location(to, "")
		r := run(t, text)
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "PROXY TCP4 7.7.7.7 127.0.0.1 99 443\r\n")
		client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		err = client.Handshake()
		if (err == nil) != (trust == "127.0.0.1") {
			t.Fatalf("trust %s: %v", trust, err)
		}
		if err == nil {
			_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			if all, err := io.ReadAll(client); err != nil || !strings.HasSuffix(string(all), "\r\n\r\n7.7.7.7") {
				t.Errorf("%q %v", all, err)
			}
		}
		conn.Close()
	}
}

// TestPlainOnTheTLSPort: a client that speaks plain HTTP there is told so, in plain.
func TestPlainOnTheTLSPort(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		r := runOn(t, engine, begin("", certify(t, t.TempDir(), "a.example"))+location("http://127.0.0.1:1", ""))
		for _, text := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
			"OPTIONS * HTTP/1.1\r\n"} {
			c, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = io.WriteString(c, text[:2])
			_, _ = io.WriteString(c, text[2:])
			res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: text[:max(strings.IndexByte(text, ' '), 0)]})
			if err != nil || res.StatusCode != 400 || !res.Close {
				t.Errorf("%q: %v %v", text, res, err)
			}
		}
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "SSH-2.0-x\r\n")
		if b, err := io.ReadAll(c); err == nil && bytes.Contains(b, []byte("HTTP/1.1")) {
			t.Errorf("to what is no HTTP: %q", b)
		}
	})
}
