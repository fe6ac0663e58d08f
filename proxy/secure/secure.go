// Package secure is what a proxy's TLS needs besides its records: the handshake's configuration,
// and certificates, from files and from an authority.
package secure

import (
	"crypto/tls"
	"errors"
	"fmt"

	"golang.org/x/crypto/acme"

	"ceiling/internal/tlsconn"
	"ceiling/proxy/config"
)

// Config returns the configuration of handshakes, for tlsconn.NewServer. With ACME, clients may
// negotiate tls-alpn-01; an authority that does so shows no certificate.
func Config(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), t *config.TLS) (*tls.Config, error) {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: certificate, CipherSuites: suites(),
	}
	if t.ACME != nil {
		c.NextProtos = append(c.NextProtos, acme.ALPNProto)
	}
	if t.ClientCA != "" {
		var err error
		if c.ClientCAs, _, err = config.ReadCAs(t.ClientCA); err != nil {
			return nil, fmt.Errorf("tls: client_ca: %w", err)
		}
		c.ClientAuth, c.VerifyConnection = tls.VerifyClientCertIfGiven, shows(t.ClientOptional)
		c.SessionTicketsDisabled = true // a ticket has the client's certificates, and may need more than one record
	}
	tlsconn.Share(c)
	return c, nil
}

// shows checks that a client has shown a certificate, which crypto/tls has verified then.
func shows(optional bool) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		if optional || len(s.PeerCertificates) > 0 || IsChallenge(s.NegotiatedProtocol) {
			return nil
		}
		return errors.New("the client has no certificate")
	}
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
