package spec

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pemMax limits a file of certificates or keys, in bytes: all of Debian's authorities take 220
// KB.
const pemMax = 1 << 20

// pemBegin is the beginning of a file's content once read.
const pemBegin = "-----BEGIN "

// keyHidden replaces a redacted key.
const keyHidden = "hidden"

// TLS is the settings of connections to https:// URLs. The zero value verifies the server's
// certificate with the authorities of the load host.
//
// CACert, Cert and Key are names of PEM files until Read replaces them with their content, which
// another host needs.
type TLS struct {
	// Insecure accepts any certificate.
	Insecure bool `json:"insecure,omitempty" yaml:"insecure,omitempty" jsonschema:"accept any certificate"`
	// CACert has the authorities to trust, instead of the host's own.
	CACert string `json:"cacert,omitempty" yaml:"cacert,omitempty" jsonschema:"file of the authorities to trust (PEM), relative to this one"`
	// Cert and Key are the client's.
	Cert string `json:"cert,omitempty" yaml:"cert,omitempty" jsonschema:"file of the client's certificate (PEM)"`
	Key  string `json:"key,omitempty" yaml:"key,omitempty" jsonschema:"file of the key to it (PEM)"`
	// ServerName to request, and to verify in the certificate; "" for the URL's host.
	ServerName string `json:"server_name,omitempty" yaml:"server_name,omitempty" jsonschema:"name to ask for (SNI) in place of the URL's host"`
	// Version is "1.2" or "1.3"; "" offers both.
	Version string `json:"version,omitempty" yaml:"version,omitempty" jsonschema:"the only version to offer: 1.2 or 1.3"`
	// Ciphers of TLS 1.2, which is then the only version offered, and Curves of the key exchange,
	// comma-separated; "" for crypto/tls's defaults. See Offer.
	Ciphers string `json:"ciphers,omitempty" yaml:"ciphers,omitempty" jsonschema:"cipher suites of TLS 1.2 to offer, with commas between them"`
	Curves  string `json:"curves,omitempty" yaml:"curves,omitempty" jsonschema:"groups of the key exchange to offer: X25519MLKEM768,X25519,P-256"`
	// Resume earlier sessions instead of full handshakes, if the server issues tickets.
	Resume bool `json:"resume,omitempty" yaml:"resume,omitempty" jsonschema:"resume earlier sessions in place of full handshakes"`
}

// Read replaces the files' names, which are relative to dir, with their content, and validates
// it.
func (t *TLS) Read(dir string) error {
	if t == nil {
		return nil
	}
	for _, f := range []struct {
		at   *string
		what string
	}{{&t.CACert, "--cacert"}, {&t.Cert, "--cert"}, {&t.Key, "--key"}} {
		name := *f.at
		if name == "" || strings.Contains(name, pemBegin) || name == keyHidden {
			continue
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		text, err := readFile(name, pemMax, f.what)
		var missing *os.PathError
		if errors.As(err, &missing) {
			err = fmt.Errorf("%s: %s: %w", f.what, name, missing.Err)
		}
		if err == nil {
			err = checkPEM(f.what, name, text)
		}
		if err != nil {
			return err
		}
		*f.at = string(text)
	}
	return t.check()
}

func (t *TLS) check() error {
	if t == nil {
		return nil
	}
	if _, err := t.Roots(); err != nil {
		return err
	}
	if _, err := t.Offer(); err != nil {
		return err
	}
	_, err := t.Pair()
	return err
}

// Roots returns the authorities to trust; nil: the host's own.
func (t *TLS) Roots() (*x509.CertPool, error) {
	if t.CACert == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(t.CACert)) {
		return nil, errors.New("--cacert: no certificate in the file; give one in PEM, which begins with -----BEGIN CERTIFICATE-----")
	}
	return pool, nil
}

// Pair returns the client's certificate with its key; none if not given.
func (t *TLS) Pair() ([]tls.Certificate, error) {
	switch {
	case t.Cert == "" && t.Key == "":
		return nil, nil
	case t.Cert == "" || t.Key == "":
		return nil, errors.New("--cert, --key: one needs the other; give both, in PEM")
	case t.Key == keyHidden:
		return nil, errors.New("--key: the key of the client's certificate is not kept; give the flags again")
	}
	pair, err := tls.X509KeyPair([]byte(t.Cert), []byte(t.Key))
	if err != nil && strings.Contains(err.Error(), "does not match") {
		return nil, errors.New("--cert, --key: the key does not belong to the certificate; compare what openssl x509 -noout -pubkey -in CERT and openssl pkey -pubout -in KEY print")
	}
	if err != nil {
		return nil, fmt.Errorf("--cert, --key: %s; give a certificate and the key to it, in PEM", strings.TrimPrefix(err.Error(), "tls: "))
	}
	return []tls.Certificate{pair}, nil
}

// concealed redacts the key.
func (t *TLS) concealed() *TLS {
	if t == nil || t.Key == "" {
		return t
	}
	c := *t
	c.Key = keyHidden
	return &c
}

var errNoTLS = errors.New("--insecure, --cacert, --cert, --key, --sni, --tls-resume, --tls-version, --ciphers and --curves are for https:// and wss:// URLs; give one, or remove them")

// checkTLS rejects TLS settings without TLS.
func (s *Spec) checkTLS() error {
	switch {
	case s.TLS == nil:
		return nil
	case !isSecure(s.Targets[0].URL):
		return errNoTLS
	}
	return s.TLS.check()
}

// isSecure reports whether connections for a URL use TLS.
func isSecure(url string) bool {
	to, _, _, err := ParseTarget(url)
	return err == nil && to.TLS
}
