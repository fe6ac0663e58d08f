// Package authority creates temporary certificates for test servers and tests. Its keys never
// leave the process.
package authority

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
	"net"
	"time"
)

// validFor exceeds the length of any measurement.
const validFor = 30 * 24 * time.Hour

// Authority signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Leaf is the content of a certificate.
type Leaf struct {
	// Names are host names and addresses.
	Names []string
	// From and To bound its validity; zero: from now, as long as the authority.
	From, To time.Time
}

// New creates an authority with its own key (P-256), which issues certificates of the same kind.
func New(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validFor),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &Authority{key: key}
	der, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	a.certificate, err = x509.ParseCertificate(der)
	return a, err
}

// Site creates an authority and a certificate for one server.
func Site(name string, l Leaf) (*Authority, tls.Certificate, error) {
	a, err := New(name)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	c, err := a.Issue(l)
	return a, c, err
}

// Issue signs a certificate for a server or a client.
func (a *Authority) Issue(l Leaf) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("authority: %w", err)
	}
	template := &x509.Certificate{
		NotBefore: l.From, NotAfter: l.To, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if l.From.IsZero() {
		template.NotBefore = a.certificate.NotBefore
	}
	if l.To.IsZero() {
		template.NotAfter = a.certificate.NotAfter
	}
	for _, name := range l.Names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := sign(template, a.certificate, &key.PublicKey, a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// PEM is the authority's own certificate, for peers that should trust it.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	return der, nil
}
