package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// LoadCertificate reads a certificate and its key.
func LoadCertificate(p Certificate) (tls.Certificate, error) {
	chain, err := os.ReadFile(p.PEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := os.ReadFile(p.Key)
	if err != nil {
		return tls.Certificate{}, err
	}
	if encrypted(key) {
		return tls.Certificate{}, fmt.Errorf("key %s is encrypted; decrypt it: openssl pkey -in %s -out %[1]s.plain", p.Key, p.Key)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return pair, fmt.Errorf("certificate %s with key %s: %w", p.PEM, p.Key, err)
	}
	return pair, nil
}

// encrypted reports whether a PEM file has a key under a password (PKCS #8, or RFC 1421).
func encrypted(text []byte) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return true
		}
	}
	return false
}

// Invalid returns why clients reject a certificate at a time, "" if its dates are right.
func Invalid(c *x509.Certificate, now time.Time) string {
	switch {
	case now.After(c.NotAfter):
		return fmt.Sprintf("expired on %s: clients reject it; renew it", c.NotAfter.UTC().Format(time.DateTime))
	case now.Before(c.NotBefore):
		return fmt.Sprintf("is not valid before %s: clients reject it; check the clock, or use the previous one",
			c.NotBefore.UTC().Format(time.DateTime))
	}
	return ""
}

// renewBefore is the remaining time at which a renewal is late: authorities' clients renew earlier.
const renewBefore = 14 * 24 * time.Hour

// certificate checks a pair of files, and returns the certificate if a start could use it.
func (k *checker) certificate(p Certificate, at *places, key string) *x509.Certificate {
	good := true
	for _, f := range []struct{ key, name string }{{"pem", p.PEM}, {"key", p.Key}} {
		if _, err := os.ReadFile(f.name); err != nil {
			k.add(at, key+"."+f.key, "%s: %v", f.key, err)
			good = false
		}
	}
	if !good {
		return nil
	}
	pair, err := LoadCertificate(p)
	if err != nil {
		k.add(at, key+".pem", "%v", err)
		return nil
	}
	now := time.Now()
	if why := Invalid(pair.Leaf, now); why != "" {
		k.warn(at, key+".pem", "certificate %s %s", p.PEM, why)
	} else if left := pair.Leaf.NotAfter.Sub(now); left < renewBefore {
		k.warn(at, key+".pem", "certificate %s expires in %d days, on %s; renew it", p.PEM, int(left.Hours()/24),
			pair.Leaf.NotAfter.UTC().Format(time.DateTime))
	}
	return pair.Leaf
}

// covered warns of hosts without a certificate.
func (k *checker) covered(t *TLS, certificates []*x509.Certificate) {
	if len(certificates) == 0 {
		return
	}
	for _, h := range k.hosts {
		name := h.name
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		if strings.HasSuffix(name, "*") || t.ACME != nil && contains(t.ACME.Hosts, name) {
			continue
		}
		if rest, wild := strings.CutPrefix(name, "*."); wild {
			name = "any." + rest
		}
		good := false
		for _, c := range certificates {
			good = good || c.VerifyHostname(name) == nil
		}
		if !good {
			k.warn(h.at, h.key, "hosts: no certificate is for %s: clients that use TLS reject the one they get; "+
				"add one to [[tls.certificates]], or the name to [tls.acme]", h.name)
		}
	}
}

func contains(hosts []string, name string) bool {
	return slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// named is a name at its place in a file.
type named struct {
	name string
	at   *places
	key  string
}

// ReadCAs reads a PEM file of CAs, and returns its text, too.
func ReadCAs(file string) (pool *x509.CertPool, text []byte, err error) {
	if text, err = os.ReadFile(file); err != nil {
		return nil, nil, err
	}
	if pool = x509.NewCertPool(); !pool.AppendCertsFromPEM(text) {
		return nil, text, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return pool, text, nil
}
