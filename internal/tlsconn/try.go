package tlsconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// refusalWait is how long a server that requested a certificate and got none may take to refuse: in
// TLS 1.3 it does so after the handshake (RFC 8446, section 4.4.2).
const refusalWait = 250 * time.Millisecond

// Try does one handshake on a separate connection, and returns what was agreed.
func (c Config) Try(ctx context.Context, on net.Conn) (Agreed, error) {
	config := NewClient(c).config
	asked := false
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		if len(c.Certificates) > 0 {
			return &c.Certificates[0], nil
		}
		return &tls.Certificate{}, nil
	}
	conn := tls.Client(on, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return Agreed{}, err
	}
	s := conn.ConnectionState()
	if asked {
		if err := on.SetReadDeadline(time.Now().Add(refusalWait)); err != nil {
			return Agreed{}, err
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return Agreed{}, err
		}
	}
	return Agreed{s.Version, s.CipherSuite, uint16(s.CurveID), s.NegotiatedProtocol, s.DidResume}, nil
}
