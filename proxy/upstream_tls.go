package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"

	"ceiling/proxy/config"
)

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
