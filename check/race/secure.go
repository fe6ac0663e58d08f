package race

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"ceiling/internal/authority"
	"ceiling/internal/tlsconn"
	"ceiling/measure/load"
)

// siteName is whom every contestant's certificate is for.
const siteName = "localhost"

// site is the certificate that all contestants have (P-256), and who vouches for it.
type site struct {
	certificate, key []byte // PEM
	roots            *x509.CertPool
}

func newSite() (*site, error) {
	ca, pair, err := authority.Site("of a race", authority.Leaf{Names: []string{siteName}})
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		return nil, err
	}
	s := &site{
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		roots:       x509.NewCertPool(),
	}
	s.roots.AppendCertsFromPEM(ca.PEM())
	return s, nil
}

// write puts the certificate, its key, and both in one, which HAProxy wants, into a contestant's
// directory. Workers that root has started run as user nobody, but all read the key before that.
func (s *site) write(dir string) (err error) {
	for name, text := range map[string][]byte{"cert.pem": s.certificate, "key.pem": s.key, "pair.pem": slices.Concat(s.certificate, s.key)} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	return err
}

// dial connects as the clients of a case do.
func (r *race) dial(ctx context.Context, k *Case, address string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: checkPatience}
	if !k.TLS {
		return plain.DialContext(ctx, "tcp", address)
	}
	secure := &tls.Dialer{NetDialer: plain, Config: &tls.Config{ServerName: siteName, RootCAs: r.site.roots, MinVersion: tls.VersionTLS13}}
	return secure.DialContext(ctx, "tcp", address)
}

// secure has a case's load made over TLS 1.3, and over HTTP/2 where it is that. X25519
// is the one group of key exchange that all contestants know.
func (r *race) secure(k *Case, c *load.Config) {
	if !k.TLS {
		return
	}
	c.TLS = &tlsconn.Config{ServerName: siteName, Roots: r.site.roots, Protocols: []string{"http/1.1"},
		Offered: tlsconn.Offer{Min: tls.VersionTLS13, Groups: []tls.CurveID{tls.X25519}}}
	if k.Handshakes {
		c.NewConnections = 1
	}
	if k.Streams > 0 {
		c.Protocol, c.TLS.Protocols, c.Pipelining = load.HTTP2, []string{"h2"}, k.Streams
	}
}

// agreed is what a contestant and the load agreed on; an error where that is another
// protocol than the case's. A cipher of its own makes a contestant's race another.
func (k *Case) agreed(res *load.Result) (string, error) {
	if !k.TLS {
		return "", nil
	}
	a, want := res.Handshakes.Agreed, "http/1.1"
	if k.Streams > 0 {
		want = "h2"
	}
	if a.Version != tls.VersionTLS13 || a.Protocol != want {
		return "", fmt.Errorf("it agreed on %s and %q, not on TLS 1.3 and %q", tls.VersionName(a.Version), a.Protocol, want)
	}
	return tls.CipherSuiteName(a.Suite), nil
}
