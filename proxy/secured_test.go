package proxy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority makes a CA's file, and a certificate from it with this subject.
func authority(t *testing.T, subject pkix.Name) (file string, pair tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	make := func(template, parent *x509.Certificate) []byte {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	soon := time.Now().Add(time.Hour)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, NotAfter: soon, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: subject, NotAfter: soon,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	file = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: make(ca, ca)}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, tls.Certificate{Certificate: [][]byte{make(leaf, ca)}, PrivateKey: key}
}

// TestClientCertificates: by both versions of TLS and of HTTP, whoever shows one of the authority comes
// in, and nobody else, unless that is optional.
func TestClientCertificates(t *testing.T) {
	file, alice := authority(t, pkix.Name{CommonName: "alice\r\nX-Forged: 1", Organization: []string{"A, B"}})
	_, mallory := authority(t, pkix.Name{CommonName: "mallory"})
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q%q", r.Header.Values("X-Client-Subject"), r.Header.Values("X-Forged"))
	})
	for _, optional := range []bool{false, true} {
		r := run(t, begin(fmt.Sprintf("client_ca = %q\nclient_optional = %t\nclient_field = \"X-Client-Subject\"", file, optional),
			certify(t, t.TempDir(), "a.example"))+location(to, ""))
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			for _, h2 := range []bool{false, true} {
				for name, w := range map[string]struct {
					shown []tls.Certificate
					want  string
				}{
					"alice":   {[]tls.Certificate{alice}, `["CN=alice??X-Forged: 1,O=A\\, B"][]`},
					"mallory": {[]tls.Certificate{mallory}, ""},
					"none":    {nil, map[bool]string{true: "[][]"}[optional]},
				} {
					r.tls = version
					client := r.client(h2)
					// A server names its authorities: a client that has none of them would show nothing.
					client.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
						if len(w.shown) == 0 {
							return new(tls.Certificate), nil
						}
						return &w.shown[0], nil
					}
					for range 2 { // a second connection resumes nothing
						q, err := http.NewRequest("GET", "https://a.example/", nil)
						if err != nil {
							t.Fatal(err)
						}
						q.Header.Set("X-Client-Subject", "CN=forged")
						q.Close = true
						res, err := client.Do(q)
						switch {
						case w.want == "" && err == nil:
							t.Errorf("%s, optional %t, %x, HTTP/2 %t: %s", name, optional, version, h2, read(t, res, err))
						case w.want != "":
							proto := map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"}[h2]
							if got := read(t, res, err); got != proto+" 200 "+w.want {
								t.Errorf("%s, optional %t, %x: %s, want %s", name, optional, version, got, w.want)
							}
						}
					}
					client.CloseIdleConnections()
				}
			}
		}
	}
}
