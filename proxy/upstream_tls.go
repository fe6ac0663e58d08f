package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"ceiling/internal/tlsconn"
	"ceiling/proxy/config"
)

// outerTLS is an upstream's TLS.
type outerTLS struct {
	config *tls.Config // nil: none is spoken
	failed trouble     // of handshakes
}

// tlsOf returns what is spoken to a destination with TLS; nil for others. roots are the CAs where the
// destination names none.
func tlsOf(d *config.Destination, target config.Target, roots *x509.CertPool) (*tls.Config, error) {
	if target.Scheme != config.HTTPS {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, RootCAs: roots, ServerName: d.ServerName,
		InsecureSkipVerify: d.Insecure}
	if d.HTTP == config.HTTP2 {
		c.NextProtos = []string{"h2"}
	}
	if c.ServerName == "" {
		host, _, err := net.SplitHostPort(target.Address)
		if err != nil {
			return nil, err
		}
		c.ServerName = host
	}
	if d.CA != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(d.Roots) {
			return nil, fmt.Errorf("ca: %s has no certificate in PEM", d.CA)
		}
	}
	if own := d.Certificate; own != nil {
		read := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // as it is then: renewals count
			pair, err := tls.LoadX509KeyPair(own.PEM, own.Key)
			return &pair, err
		}
		if _, err := read(nil); err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
		c.GetClientCertificate = read
	}
	return c, nil
}

// newClient returns what makes the connections of one loop.
func (t *outerTLS) newClient() *tlsconn.Client {
	c := t.config
	return tlsconn.NewClient(tlsconn.Config{ServerName: c.ServerName, Roots: c.RootCAs, Insecure: c.InsecureSkipVerify,
		Certificate: c.GetClientCertificate, Protocols: c.NextProtos})
}

// note reports when handshakes begin to fail, or to fail for another reason, and when they succeed
// again.
func (t *outerTLS) note(key string, err error, report func(string)) {
	if err == nil {
		if t.failed.ends() {
			report("destination " + key + ": TLS works again")
		}
		return
	}
	if why := tlsconn.Explain(err); t.failed.begins(why) {
		report("destination " + key + ": TLS: " + why + "; requests that need a new connection get 502")
	}
}

// noProtocol is the alert of a server that accepts none of the offered protocols (RFC 7301,
// section 3.2); crypto/tls identifies it only by its text.
const noProtocol = "tls: no application protocol"

// errNoHTTP2: ALPN did not select h2, which the configuration requires.
var errNoHTTP2 = errors.New("the destination does not take HTTP/2 by ALPN")

// shownTLS returns why a handshake failed as clients may see it: without names and addresses.
func shownTLS(err error, http2 bool) string {
	var untrusted *tls.CertificateVerificationError
	var wrong x509.HostnameError
	var stranger x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(err, errNoHTTP2), http2 && strings.HasSuffix(err.Error(), noProtocol):
		return "TLS: " + errNoHTTP2.Error()
	case errors.As(err, &untrusted), errors.As(err, &wrong), errors.As(err, &stranger), errors.As(err, &invalid):
		return "TLS: the destination's certificate is not accepted"
	}
	return "TLS: the handshake failed"
}
