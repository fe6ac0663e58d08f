// Package secure is what a proxy's TLS needs besides its records: the handshake's configuration,
// and certificates, from files and from an authority.
package secure

import (
	"crypto/tls"

	"golang.org/x/crypto/acme"

	"ceiling/internal/tlsconn"
)

// Config returns the configuration of handshakes, for tlsconn.NewServer. With challenges, clients may
// negotiate tls-alpn-01.
func Config(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), challenges bool) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: certificate, CipherSuites: suites(),
	}
	if challenges {
		c.NextProtos = append(c.NextProtos, acme.ALPNProto)
	}
	tlsconn.Share(c)
	return c
}

// IsChallenge reports whether a client negotiated the protocol of tls-alpn-01, whose handshake is all
// there is (RFC 8737).
func IsChallenge(protocol string) bool { return protocol == acme.ALPNProto }

// suites returns the offered TLS 1.2 suites: only forward secrecy and authenticated encryption
// (RFC 9325, section 4.2). All those of TLS 1.3 qualify.
func suites() (ids []uint16) {
	for _, s := range tls.CipherSuites() {
		switch s.ID {
		case tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256:
			ids = append(ids, s.ID)
		}
	}
	return ids
}
