package tlsconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Explain words an error the same way each time, so that causes can be counted over many
// connections.
func Explain(err error) string {
	var expired x509.CertificateInvalidError
	var wrong x509.HostnameError
	var stranger x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var remote *net.OpError
	switch {
	case errors.As(err, &expired) && expired.Reason == x509.Expired:
		return validity(expired.Cert)
	case errors.As(err, &wrong):
		return fmt.Sprintf("the certificate is for %s, not for %s", names(wrong.Certificate), wrong.Host)
	case errors.As(err, &stranger):
		return "the certificate is signed by an unknown authority"
	case errors.As(err, &record):
		return "the server does not speak TLS on this port"
	case errors.As(err, &remote) && remote.Op == "remote error": // an alert, in a handshake
		return "TLS alert from the server: " + strings.TrimPrefix(remote.Err.Error(), "tls: ")
	case errors.As(err, &alert):
		return "TLS alert from the server: " + strings.TrimPrefix(alert.Error(), "tls: ")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrHandshake.Error()
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// validity says when a certificate was valid, or will be.
func validity(c *x509.Certificate) string {
	if time.Now().Before(c.NotBefore) {
		return "the certificate is not valid before " + c.NotBefore.UTC().Format(time.DateTime) + " UTC"
	}
	return "the certificate expired on " + c.NotAfter.UTC().Format(time.DateTime) + " UTC"
}

// namesShown bounds the names shown of a certificate; it may have hundreds.
const namesShown = 5

func names(c *x509.Certificate) string {
	list := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		list = append(list, ip.String())
	}
	switch {
	case len(list) == 0:
		return "no name"
	case len(list) > namesShown:
		return fmt.Sprintf("%s and %d more", strings.Join(list[:namesShown], ", "), len(list)-namesShown)
	}
	return strings.Join(list, ", ")
}
