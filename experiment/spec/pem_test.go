package spec

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestKeyFiles: a file of a key or a certificate that cannot be used is refused with what it is and
// the command that mends it.
func TestKeyFiles(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certDER, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private := func(k *ecdsa.PrivateKey) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	block := func(kind string, der []byte, headers map[string]string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der, Headers: headers}))
	}
	cert, good := block("CERTIFICATE", certDER, nil), block("PRIVATE KEY", private(key), nil)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct{ ca, cert, key, want string }{
		"fine":          {cert, cert, good, ""},
		"one file":      {"", cert + good, good + cert, ""},
		"PKCS 8":        {"", cert, block("ENCRYPTED PRIVATE KEY", private(key), nil), "--key: KEY is encrypted; decrypt it: openssl pkey -in KEY -out KEY.plain"},
		"PKCS 1":        {"", cert, block("RSA PRIVATE KEY", private(key), map[string]string{"Proc-Type": "4,ENCRYPTED"}), "--key: KEY is encrypted; decrypt it"},
		"swapped":       {"", good, cert, "--cert: CERT has a key and no certificate; give the file with the certificate; are --cert and --key swapped?"},
		"no key":        {"", cert, cert, "--key: KEY has a certificate and no key"},
		"another's":     {"", cert, block("PRIVATE KEY", private(other), nil), "--cert, --key: the key does not belong to the certificate; compare what openssl x509"},
		"key in DER":    {"", cert, string(private(key)), "--key: KEY is not in PEM; convert it: openssl pkey -inform der -in KEY -out KEY.pem"},
		"cert in DER":   {"", string(certDER), good, "--cert: CERT is not in PEM; convert it: openssl x509 -inform der -in CERT -out CERT.pem"},
		"CA in DER":     {string(certDER), "", "", "--cacert: CA is not in PEM; convert it: openssl x509 -inform der -in CA -out CA.pem"},
		"PKCS 12":       {"", "\x30\x82\x00\x10\x02\x01\x03" + strings.Repeat("x", 20), good, "--cert: CERT is not in PEM; convert it: openssl pkcs12 -nodes -in CERT"},
		"CA is a key":   {good, "", "", "--cacert: CA has a key and no certificate"},
		"request":       {"", block("CERTIFICATE REQUEST", certDER, nil), good, "--cert: CERT has a request for a certificate"},
		"OpenSSH":       {"", cert, block("OPENSSH PRIVATE KEY", private(key), nil), "--key: KEY is a key in OpenSSH's form"},
		"nothing in CA": {"text", "", "", "--cacert: no certificate in the file"},
	} {
		s := TLS{}
		var names []string
		for _, f := range []struct {
			at         *string
			text, name string
		}{{&s.CACert, c.ca, "CA"}, {&s.Cert, c.cert, "CERT"}, {&s.Key, c.key, "KEY"}} {
			if f.text != "" {
				*f.at = write(f.name, f.text)
				names = append(names, *f.at, f.name)
			}
		}
		got := ""
		if err := s.Read("/"); err != nil {
			got = strings.NewReplacer(names...).Replace(err.Error())
		}
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
