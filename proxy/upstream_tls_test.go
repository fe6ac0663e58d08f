package proxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// TestTLSOfADestination: the name that it is asked for, the certificate that it is shown, and what is
// accepted of it; its health checks are under the same rules.
func TestTLSOfADestination(t *testing.T) {
	dir := t.TempDir()
	own, mine := certify(t, dir, "inside.example"), certify(t, dir, "proxy.example")
	pair, err := tls.LoadX509KeyPair(own.PEM, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(mine.PEM)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(text)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "none"
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].DNSNames[0]
		}
		fmt.Fprintf(w, "%s shown %s", r.TLS.ServerName, name)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	defer s.Close()
	certificate := fmt.Sprintf("certificate = { pem = %q, key = %q }", mine.PEM, mine.Key)
	for _, w := range []struct{ lines, want string }{
		{"", "502"},
		{"ca = \"" + own.PEM + "\"", "502"}, // its certificate has another name than the address
		{"ca = \"" + own.PEM + "\"\nserver_name = \"inside.example\"", "200 inside.example shown none"},
		{"ca = \"" + own.PEM + "\"\nserver_name = \"inside.example\"\nhealth = { interval = \"20ms\", fall = 1 }\n" + certificate,
			"200 inside.example shown proxy.example"},
		{"insecure = true", "200  shown none"},
		{"insecure = true\nserver_name = \"any.example\"\n" + certificate, "200 any.example shown proxy.example"},
	} {
		r := run(t, begin("", certify(t, dir, "a.example"))+location(s.URL, "")+w.lines+"\n")
		res, err := r.client(false).Get("http://a.example/")
		got := read(t, res, err)
		if got = strings.TrimPrefix(got, "HTTP/1.1 "); !strings.HasPrefix(got, w.want) {
			t.Errorf("%s: %.100s, want %s", w.lines, got, w.want)
		}
	}
}

// TestAccessOverHTTP2: a stream waits for its answer while others go on.
func TestAccessOverHTTP2(t *testing.T) {
	held := make(chan struct{})
	auth := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Forwarded-Uri") == "/held" {
			<-held
		}
		if r.Header.Get("Cookie") == "" {
			w.Header().Set("Location", "/login")
			w.WriteHeader(302)
			return
		}
		w.Header().Set("Remote-User", "alice")
	})
	to := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Remote-User")) })
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, `access = { forward_auth = { uri = "`+auth+
		`", copy_headers = ["Remote-User"] }, cors = { origins = ["*"] } }`)+"[[locations]]\npaths = [\"/open\"]\nrespond = { body = \"open\" }\n")
	client := r.client(true)
	get := func(path, cookie string) string {
		q, err := http.NewRequest("GET", "https://a.example"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if q.Header.Set("Origin", "https://b.example"); cookie != "" {
			q.Header.Set("Cookie", cookie)
		}
		res, err := client.Do(q)
		if err == nil && path != "/open" && res.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %v", path, res.Header)
		}
		return read(t, res, err)
	}
	first := make(chan string)
	go func() { first <- get("/held", "a=b") }()
	if got := get("/open", ""); got != "HTTP/2.0 200 open" {
		t.Errorf("beside it: %s", got)
	}
	if got := get("/", "a=b"); got != "HTTP/2.0 200 alice" {
		t.Errorf("another: %s", got)
	}
	if got := get("/", ""); got != "HTTP/2.0 302 " {
		t.Errorf("refused: %s", got)
	}
	close(held)
	if got := <-first; got != "HTTP/2.0 200 alice" {
		t.Errorf("the first: %s", got)
	}
}
