package bus

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// validFor exceeds the life of any controller's state; agents pin the authority, so its expiry does
// not protect them.
const validFor = 20 * 365 * 24 * time.Hour

// makeAuthority makes a CA that signs only this controller's certificates.
func makeAuthority(bed string) (der, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	c := certificateFor("ceiling controller of " + bed)
	c.IsCA, c.BasicConstraintsValid, c.MaxPathLenZero = true, true, true
	c.KeyUsage = x509.KeyUsageCertSign
	if der, err = x509.CreateCertificate(rand.Reader, c, c, k.Public(), k); err != nil {
		return nil, nil, err
	}
	key, err = x509.MarshalPKCS8PrivateKey(k)
	return der, key, err
}

func certificateFor(name string) *x509.Certificate {
	serial := make([]byte, 16)
	rand.Read(serial)
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-24 * time.Hour), // an agent's wall clock may be behind
		NotAfter:     time.Now().Add(validFor),
	}
}

// ServerTLS makes a fresh key and certificate for the names and addresses of the controller. TLS
// 1.3 only: both ends are this program.
func (s *State) ServerTLS(names []string) (*tls.Config, error) {
	ca, err := x509.ParseCertificate(s.Authority)
	if err != nil {
		return nil, fmt.Errorf("the controller's CA certificate: %w", err)
	}
	caKey, err := x509.ParsePKCS8PrivateKey(s.CAKey)
	if err != nil {
		return nil, fmt.Errorf("the controller's CA key: %w", err)
	}
	signer, ok := caKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the controller's CA key does not sign")
	}
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := certificateFor("ceiling controller")
	c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, n)
		}
	}
	leaf, err := x509.CreateCertificate(rand.Reader, c, ca, k.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("sign the controller's certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf, s.Authority}, PrivateKey: k}},
	}, nil
}

// pinned trusts only the authority whose fingerprint the token has, and no system root. It does not
// compare the name in the certificate: this authority signs for one controller only, so any
// certificate of it belongs to that controller, even behind an address it does not know.
func pinned(authority [32]byte) *tls.Config {
	verify := func(c tls.ConnectionState) error {
		roots := x509.NewCertPool()
		found := false
		for _, cert := range c.PeerCertificates {
			sum := sha256.Sum256(cert.Raw)
			if subtle.ConstantTimeCompare(sum[:], authority[:]) == 1 {
				roots.AddCert(cert)
				found = true
			}
		}
		if !found {
			return ErrStranger
		}
		if c.PeerCertificates[0].IsCA {
			return ErrStranger
		}
		_, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrStranger, err)
		}
		return nil
	}
	// The standard verification is replaced, not skipped: VerifyConnection runs on every handshake,
	// including every reconnect.
	return &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, VerifyConnection: verify}
}
