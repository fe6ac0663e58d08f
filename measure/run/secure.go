package run

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"ceiling/experiment/spec"
	"ceiling/internal/tlsconn"
	"ceiling/measure/load"
	"ceiling/record"
)

// secured is the engine's TLS for an https:// URL, nil for any other. One handshake
// is tried: what a person has to mend, a certificate above all, is better said once
// than counted for each connection. Where nobody answers, the run shows how.
func secured(ctx context.Context, s *spec.Spec, a spec.Address, to target) (*tlsconn.Config, error) {
	if !a.TLS {
		return nil, nil
	}
	c, err := tlsConfig(s.TLS, a)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var dialer net.Dialer
	on, err := dialer.DialContext(ctx, "tcp", to.addr.String())
	if err != nil {
		return c, nil
	}
	defer on.Close()
	_, err = c.Try(ctx, on)
	if err == nil || ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return c, nil
	}
	return nil, fmt.Errorf("%w: TLS with %s: %s%s", ErrRefused, to, tlsconn.Explain(err), adviceFor(err))
}

func tlsConfig(t *spec.TLS, a spec.Address) (*tlsconn.Config, error) {
	c := &tlsconn.Config{ServerName: a.Host, Protocols: []string{"http/1.1"}}
	if t == nil {
		return c, nil
	}
	if t.ServerName != "" {
		c.ServerName = t.ServerName
	}
	c.Insecure = t.Insecure
	var err error
	if c.Roots, err = t.Roots(); err == nil {
		c.Certificates, err = t.Pair()
	}
	return c, err
}

// adviceFor is what would mend a handshake that failed.
func adviceFor(err error) string {
	var bad x509.CertificateInvalidError
	var wrong x509.HostnameError
	var stranger x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch text := err.Error(); {
	case errors.As(err, &bad) && bad.Reason == x509.Expired:
		return "; have it renewed (or look at this host's clock), or give --insecure to measure all the same"
	case errors.As(err, &wrong):
		return "; use a name that it has in the URL, or give one with --sni, or give --insecure"
	case errors.As(err, &stranger):
		return "; give the authority's certificate with --cacert FILE, or give --insecure"
	case errors.As(err, &bad):
		return "; give --insecure to measure all the same"
	case errors.As(err, &record):
		return "; give its URL as http://, or another port"
	case strings.Contains(text, "certificate required"), strings.Contains(text, "bad certificate"):
		return "; it may want a client's certificate: give --cert FILE and --key FILE"
	case strings.Contains(text, "handshake failure"):
		return "; it may have no cipher in common, or want a client's certificate: give --cert FILE and --key FILE"
	case strings.Contains(text, "protocol version"):
		return "; TLS 1.2 and 1.3 are spoken here"
	case strings.Contains(text, "no application protocol"):
		return "; HTTP/1.1 is spoken here (ALPN http/1.1)"
	}
	return ""
}

// tlsOf is what the handshakes came to for the record; nil where there was no TLS.
func tlsOf(h *load.Handshakes) *record.TLS {
	if h == nil || h.Agreed.Version == 0 {
		return nil
	}
	group := ""
	if h.Agreed.Group != 0 {
		group = tls.CurveID(h.Agreed.Group).String()
	}
	return &record.TLS{
		KeyExchange: group,
		Version:     tls.VersionName(h.Agreed.Version), Cipher: tls.CipherSuiteName(h.Agreed.Suite), Protocol: h.Agreed.Protocol,
		Resumed: h.Agreed.Resumed, Before: record.QuantilesOf(&h.Setup), Handshakes: record.QuantilesOf(&h.Window), CPUNs: h.CPUNs,
	}
}
