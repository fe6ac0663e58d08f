//go:build linux

package run

import (
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/needs"
	"ceiling/record"
)

// forwarder is a forward proxy with a password, and what it has counted.
type forwarder struct {
	at                 string
	tunnels, forwarded atomic.Uint64
	refused            atomic.Uint64
}

func newForwarder(t *testing.T) *forwarder {
	f := &forwarder{}
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.at = on.Addr().String()
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host }}
	var tunnels sync.WaitGroup
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if user, password, _ := basicOf(in); user != "ada" || password != "p:w" {
			f.refused.Add(1)
			out.Header().Set("Proxy-Authenticate", "Basic")
			http.Error(out, "who are you?", http.StatusProxyAuthRequired)
			return
		}
		if in.Method != http.MethodConnect {
			f.forwarded.Add(1)
			forward.ServeHTTP(out, in)
			return
		}
		f.tunnels.Add(1)
		server, err := net.Dial("tcp", in.Host)
		if err != nil {
			http.Error(out, err.Error(), http.StatusBadGateway)
			return
		}
		client, buffered, err := http.NewResponseController(out).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
		tunnels.Go(func() { _, _ = io.Copy(server, buffered); _ = server.Close() })
		tunnels.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
	})}
	go func() { _ = server.Serve(on) }()
	t.Cleanup(func() { server.Close(); tunnels.Wait() })
	return f
}

func basicOf(in *http.Request) (user, password string, ok bool) {
	return (&http.Request{Header: http.Header{"Authorization": in.Header["Proxy-Authorization"]}}).BasicAuth()
}

// TestProxy: requests of http:// go to the proxy themselves, all else through a tunnel; the server
// has as many as were sent, and the record says that it is about the proxy.
func TestProxy(t *testing.T) {
	needs.Engine(t)
	for name, k := range map[string]struct {
		url    string
		change func(*spec.Spec)
		tunnel bool
	}{
		"http":  {url: "http"},
		"https": {url: "https", tunnel: true},
		"h2c":   {url: "http", tunnel: true, change: func(s *spec.Spec) { s.HTTP = spec.HTTP2 }},
		"new":   {url: "http", change: func(s *spec.Spec) { s.NewConnections = 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForwarder(t)
			on, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			at, served := on.Addr().String(), &atomic.Uint64{}
			s := specOf("", "")
			if k.url == "https" {
				ca, saw := shop(t, on)
				s.TLS = &spec.TLS{CACert: ca, ServerName: "shop.test"}
				defer func() { n, _, _ := saw.now(); same(t, int(n), 100) }()
			} else {
				plain(t, on, served)
				defer func() { same(t, int(served.Load()), 100) }()
			}
			s.Targets[0].URL, s.Proxy = k.url+"://"+at+"/x?y=1", spec.ProxyURL("http://ada:p%3Aw@"+f.at)
			s.Requests, s.Duration, s.Warmup = 100, 0, 0
			if k.change != nil {
				k.change(&s)
			}
			r := &do(t, s).Run
			if r.Requests.Completed != 100 || r.Statuses["200"] != 100 || f.refused.Load() != 0 {
				t.Errorf("%+v, %v, %d refused, %v", r.Requests, r.Statuses, f.refused.Load(), r.Errors)
			}
			if (f.tunnels.Load() > 0) != k.tunnel || (f.forwarded.Load() > 0) == k.tunnel {
				t.Errorf("%d tunnels, %d requests forwarded", f.tunnels.Load(), f.forwarded.Load())
			}
			if !notMeasured(r, record.BehindProxy) || strings.Contains(string(r.Spec.Proxy), "p%3Aw") || r.Spec.Proxy.Via() != f.at {
				t.Errorf("the record says %v of the proxy %s (%s)", r.NotMeasured, r.Spec.Proxy, r.Spec.Proxy.Via())
			}
		})
	}
}

func same(t *testing.T, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("the server has %d requests, want %d", got, want)
	}
}

func notMeasured(r *record.Run, what string) bool {
	for _, n := range r.NotMeasured {
		if n.What == what {
			return true
		}
	}
	return false
}

// plain serves HTTP/1.1 and HTTP/2 without TLS to clients that ask for /x?y=1 in origin form.
func plain(t *testing.T, on net.Listener, served *atomic.Uint64) {
	server := &http.Server{ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	server.Handler = http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if in.URL.String() != "/x?y=1" || in.Host != on.Addr().String() || in.Header.Get("Proxy-Authorization") != "" {
			t.Errorf("asked for %s at %s", in.URL, in.Host)
		}
		served.Add(1)
	})
	go func() { _ = server.Serve(on) }()
	t.Cleanup(func() { server.Close() })
}

// TestProxyRefuses: what the proxy says is in the error, or in the faults.
func TestProxyRefuses(t *testing.T) {
	f := newForwarder(t)
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ca, _ := shop(t, on)
	s := specOf("", "")
	s.Targets[0].URL, s.Proxy, s.TLS = "https://"+on.Addr().String()+"/", spec.ProxyURL(f.at), &spec.TLS{CACert: ca, ServerName: "shop.test"}
	if _, err := Do(t.Context(), s, Options{Out: filepath.Join(t.TempDir(), "run"), Version: "test"}); err == nil || !strings.Contains(err.Error(), "answered CONNECT with 407") {
		t.Errorf("without a password: %v", err)
	}
	s = specOf("", "")
	s.Targets[0].URL, s.Proxy, s.HTTP = "http://127.0.0.1:1/", spec.ProxyURL("http://ada:p%3Aw@"+f.at), spec.HTTP2
	s.Duration, s.Warmup = 100*time.Millisecond, 0
	r := &do(t, s).Run
	found := false
	for _, e := range r.Errors {
		found = found || strings.Contains(e.Cause, "the proxy answered CONNECT with 502")
	}
	if !found {
		t.Errorf("a server that is down: %v", r.Errors)
	}
}

// TestAllAddresses: connections take turns over a name's addresses that accept.
func TestAllAddresses(t *testing.T) {
	on, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	var counts sync.Map
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
		at, _, _ := net.SplitHostPort(in.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
		n, _ := counts.LoadOrStore(at, &atomic.Uint64{})
		n.(*atomic.Uint64).Add(1)
	})}
	go func() { _ = server.Serve(on) }()
	t.Cleanup(func() { server.Close() })
	_, port, _ := net.SplitHostPort(on.Addr().String())
	s := specOf("", "")
	s.Targets[0].URL, s.Resolve, s.AllAddresses = "http://shop.test:"+port+"/", []string{"shop.test:" + port + ":127.0.0.1,127.0.0.2,127.0.0.3"}, true
	s.Connections, s.Requests, s.Duration, s.Warmup = 6, 600, 0, 0
	r := &do(t, s).Run
	for _, at := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
		if n, found := counts.Load(at); !found || n.(*atomic.Uint64).Load() < 50 {
			t.Errorf("%s had %v of %d requests", at, n, r.Requests.Completed)
		}
	}
}
