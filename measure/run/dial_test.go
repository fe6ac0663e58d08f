//go:build linux

package run

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/internal/authority"
	"ceiling/internal/needs"
)

// seen is what a server of a test saw of its requests.
type seen struct {
	mu       sync.Mutex
	requests uint64
	host     string
	state    tls.ConnectionState
}

func (s *seen) now() (requests uint64, host string, state tls.ConnectionState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.host, s.state
}

// shop serves https as shop.test at an address, and answers its authority's
// certificate and what it will have seen.
func shop(t *testing.T, on net.Listener) (string, *seen) {
	t.Helper()
	ca, pair, err := authority.Site("of a test", authority.Leaf{Names: []string{"shop.test"}})
	if err != nil {
		t.Fatal(err)
	}
	saw := &seen{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		saw.mu.Lock()
		saw.requests, saw.host, saw.state = saw.requests+1, r.Host, *r.TLS
		saw.mu.Unlock()
	}))
	s.Listener.Close()
	s.Listener, s.TLS = on, &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return string(ca.PEM()), saw
}

// TestDial: a URL's connections go to a socket or to another address, and the name
// stays the URL's: of the request, of what TLS asks for, of the certificate.
func TestDial(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	for name, k := range map[string]struct {
		on   net.Listener
		dial spec.Dial
	}{
		// Nobody listens on the first address.
		"resolve": {tcp, spec.Dial{Resolve: []string{"shop.test:" + port + ":127.9.9.9,127.0.0.1"}}},
		"unix":    {socket, spec.Dial{Unix: path}},
	} {
		t.Run(name, func(t *testing.T) {
			ca, saw := shop(t, k.on)
			s := specOf("", "")
			s.Targets[0].URL, s.Dial, s.TLS = "https://shop.test:"+port+"/", k.dial, &spec.TLS{CACert: ca}
			s.Requests, s.Duration, s.Warmup = 100, 0, 0
			r := &do(t, s).Run
			requests, host, state := saw.now()
			if r.Requests.Completed != 100 || requests != 100 || r.Statuses["200"] != 100 {
				t.Errorf("%+v, the server has %d", r.Requests, requests)
			}
			if host != "shop.test:"+port || state.ServerName != "shop.test" {
				t.Errorf("asked for %q, by TLS for %q", host, state.ServerName)
			}
		})
	}
}

// TestOfferedTLS: the server sees what was asked for, and the record says it.
func TestOfferedTLS(t *testing.T) {
	needs.Engine(t)
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ca, saw := shop(t, on)
	_, port, _ := net.SplitHostPort(on.Addr().String())
	for _, k := range []struct {
		tls     spec.TLS
		version uint16
		cipher  uint16
		group   tls.CurveID
	}{
		{spec.TLS{Version: "1.2"}, tls.VersionTLS12, 0, 0},
		{spec.TLS{Version: "1.3", Curves: "p-256"}, tls.VersionTLS13, 0, tls.CurveP256},
		{spec.TLS{Curves: "X25519"}, tls.VersionTLS13, 0, tls.X25519},
		{spec.TLS{Ciphers: "ECDHE-ECDSA-CHACHA20-POLY1305"}, tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, 0},
		{spec.TLS{Ciphers: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", Curves: "CurveP384"}, tls.VersionTLS12,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.CurveP384},
	} {
		s := specOf("", "")
		k.tls.CACert = ca
		s.Targets[0].URL, s.TLS, s.Resolve = "https://shop.test:"+port+"/", &k.tls, []string{"*:" + port + ":127.0.0.1"}
		s.Requests, s.Duration, s.Warmup = 10, 0, 0
		got := do(t, s).Run.Load.TLS
		_, _, state := saw.now()
		if state.Version != k.version || got.Version != tls.VersionName(k.version) {
			t.Errorf("%+v: %s, the server has %s", k.tls, got.Version, tls.VersionName(state.Version))
		}
		if got.Cipher != tls.CipherSuiteName(state.CipherSuite) || k.cipher != 0 && state.CipherSuite != k.cipher {
			t.Errorf("%+v: %s, the server has %s", k.tls, got.Cipher, tls.CipherSuiteName(state.CipherSuite))
		}
		if got.KeyExchange != state.CurveID.String() || k.group != 0 && state.CurveID != k.group {
			t.Errorf("%+v: %s, the server has %s", k.tls, got.KeyExchange, state.CurveID)
		}
	}
	// What the two sides have not in common is said with the flags in mind.
	s := specOf("", "")
	s.Targets[0].URL, s.Resolve = "https://shop.test:"+port+"/", []string{"shop.test:" + port + ":[127.0.0.1]"}
	s.TLS = &spec.TLS{CACert: ca, Ciphers: "ECDHE-RSA-AES128-GCM-SHA256"} // the certificate's key is not RSA
	_, err = Do(t.Context(), s, Options{Out: filepath.Join(t.TempDir(), "run")})
	if err == nil || !strings.Contains(err.Error(), "--tls-version, --ciphers or --curves") {
		t.Error(err)
	}
}
