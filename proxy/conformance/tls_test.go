package conformance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/internal/authority"
	"ceiling/internal/needs"
	"ceiling/proxy"
	"ceiling/proxy/config"
)

// startTLS starts a proxy with TLS. Who speaks in the clear to the address is given TLS
// on the way there.
func startTLS(t *testing.T, engine string, version uint16) (address string, b *Backend) {
	t.Helper()
	b, err := NewBackend()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	chain, key := certify(t)
	report := func(line string) { t.Log(line) }
	c, err := config.Parse("test", fmt.Appendf(nil, `
listen = ["127.0.0.1:0"]
workers = 1
[timeouts]
drain = "-1s"
[tls]
listen = ["127.0.0.1:0"]
[[tls.certificates]]
pem = %q
key = %q
[[locations]]
[[locations.destinations]]
uri = "http://%s"
[locations.destinations.eject]
failures = -1
`, chain, key, b.Address()))
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(c, proxy.Options{Engine: engine, Report: report})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	sealer, err := Listen(func(near net.Conn) { seal(t, near, p.SecureAddresses()[0].String(), version) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sealer.Close)
	return sealer.Address(), b
}

// seal copies both ways between a connection and one with TLS, with their ends.
func seal(t *testing.T, near net.Conn, to string, version uint16) {
	far, err := tls.Dial("tcp", to, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true, MaxVersion: version})
	if err != nil {
		t.Error(err)
		return
	}
	defer far.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := io.Copy(far, near); err != nil {
			far.NetConn().Close() // as abruptly
			return
		}
		_ = far.CloseWrite() // it fails when the proxy has closed
	}()
	_, _ = io.Copy(near, far) // an end, whichever side's
	near.Close()
	<-done
}

func certify(t *testing.T) (chain, key string) {
	t.Helper()
	_, pair, err := authority.Site("of a test", authority.Leaf{Names: []string{"a.test"}})
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	chain, key = filepath.Join(dir, "chain.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{
		chain: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return chain, key
}

// TestOursOverTLS holds the proxy to the cases over TLS too, where what a loop gets to see
// comes in other pieces and has other ends.
func TestOursOverTLS(t *testing.T) {
	needs.Time(t)
	for _, k := range []struct {
		engine  string
		version uint16
	}{{"uring", tls.VersionTLS13}, {"epoll", tls.VersionTLS13}, {"uring", tls.VersionTLS12}} {
		t.Run(k.engine+" "+tls.VersionName(k.version), func(t *testing.T) {
			address, b := startTLS(t, k.engine, k.version)
			cases := Cases()
			for i := range cases {
				c := &cases[i]
				switch {
				case c.Name == "nor what anybody says of the scheme": // which is https here
					continue
				case strings.HasPrefix(c.Group, "smuggling,") && i%5 > 0: // their parser is the same
					continue
				}
				if seen, err := Run(c, address, b); err != nil {
					t.Errorf("%s/%s: %v\nclient got %.300q", c.Group, c.Name, err, seen.Client)
				}
			}
		})
	}
}
