package proxy_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"ceiling/internal/needs"
	"ceiling/proxy"
)

func (r *running) clients(t *testing.T) int {
	t.Helper()
	s, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s.Clients
}

// counted is what the loops have counted.
func (r *running) counted(t *testing.T) *proxy.Secure {
	t.Helper()
	s, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s.Secure
}

// TestCounts: handshakes by version and kind, failures by cause, connections and
// streams of HTTP/2; and the requests of clients with TLS apart from the others.
func TestCounts(t *testing.T) {
	needs.Time(t)
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	r := run(t, begin("", certify(t, t.TempDir(), "a.example"))+location(to, ""))
	hasty := run(t, begin("[timeouts]\nheader = \"200ms\"\n", certify(t, t.TempDir(), "a.example"))+location(to, ""))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := &tls.Config{ServerName: "a.example", InsecureSkipVerify: true, MinVersion: version, MaxVersion: version,
			ClientSessionCache: tls.NewLRUClientSessionCache(1)}
		for range 3 {
			conn, err := tls.Dial("tcp", r.addr, c)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(conn); err != nil { // the ticket of TLS 1.3 comes with it
				t.Fatal(err)
			}
			conn.Close()
		}
	}
	fails := func(r *running, what string, f func(c net.Conn)) {
		t.Helper()
		before := r.counted(t).Failures[what]
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f(c)
		until(t, what, func() bool { return r.counted(t).Failures[what] == before+1 })
	}
	fails(hasty, "timeout", func(net.Conn) {})
	fails(r, "client gone", func(c net.Conn) { c.Close() })
	fails(r, "not TLS", func(c net.Conn) { _, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") })
	fails(r, "client refused", func(c net.Conn) { _ = tls.Client(c, &tls.Config{ServerName: "a.example"}).Handshake() })
	fails(r, "no agreement", func(c net.Conn) {
		_ = tls.Client(c, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true, NextProtos: []string{"spdy/1"}}).Handshake()
	})
	client := r.client(true)
	for range 4 {
		res, err := client.Get("https://a.example/")
		read(t, res, err)
	}
	if s := r.counted(t); s.HTTP2 != 1 || s.Clients != 1 {
		t.Errorf("open: %+v", s)
	}
	client.CloseIdleConnections()
	until(t, "they are gone", func() bool { s := r.counted(t); return s.Clients == 0 && s.HTTP2 == 0 && s.Streams == 0 })
	res, err := r.client(false).Get("http://a.example/")
	read(t, res, err)
	s, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if s.Counters["tls_requests_total"] != 10 || s.Counters["requests_total"] != 11 {
		t.Errorf("%d requests with TLS, of %d", s.Counters["tls_requests_total"], s.Counters["requests_total"])
	}
	var text strings.Builder
	if err := s.WritePrometheus(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`tls_handshakes_total{version="1.2",kind="full"} 1`, `tls_handshakes_total{version="1.2",kind="resumed"} 2`,
		`tls_handshakes_total{version="1.3",kind="full"} 2`, `tls_handshakes_total{version="1.3",kind="resumed"} 2`,
		`tls_handshake_failures_total{cause="timeout"} 0`, `tls_handshake_failures_total{cause="not TLS"} 1`,
		`tls_handshake_failures_total{cause="client gone"} 1`, `tls_handshake_failures_total{cause="client refused"} 1`,
		`tls_handshake_failures_total{cause="no agreement"} 1`, `tls_handshake_failures_total{cause="no certificate"} 0`,
		"http2_connections_total 1", "http2_streams_total 4", "tls_clients 0", "tls_requests_total 10",
	} {
		if !strings.Contains(text.String(), "\nceiling_proxy_"+line+"\n") {
			t.Errorf("not %s", line)
		}
	}
	two, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if two.Add(s); two.Secure.Handshakes["1.3 full"] != 4 || two.Secure.StreamsTotal != 8 {
		t.Errorf("%+v", two.Secure)
	}
}
