package run

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/tlsconn"
	"ceiling/measure/load"
	"ceiling/record"
	"ceiling/verdict"
	"ceiling/verdict/prose"
)

// secured returns the engine's TLS for an https:// URL, nil for any other. It tries one handshake:
// what the user must fix, above all a certificate, is better reported once than counted per
// connection. If nothing answers, the run shows the errors.
func secured(ctx context.Context, s *spec.Spec, a spec.Address, to target) (*tlsconn.Config, error) {
	if !a.TLS {
		return nil, nil
	}
	version := s.HTTP
	if s.Kind != spec.Requests { // they begin with an HTTP/1.1 request
		version = spec.HTTP11
	}
	c, err := tlsConfig(version, s.TLS, a)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	on, err := to.dial(ctx)
	if errors.Is(err, exit.ErrRefused) { // by the proxy
		return nil, err
	}
	if err != nil {
		return c, nil
	}
	defer on.Close()
	agreed, err := c.Try(ctx, on)
	if err == nil && s.HTTP == spec.HTTP2 && agreed.Protocol != "h2" {
		return nil, fmt.Errorf("%w: %s does not offer HTTP/2 (ALPN h2); remove --http", exit.ErrRefused, to)
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return c, nil
	}
	cause := tlsconn.Explain(err)
	return nil, fmt.Errorf("%w: TLS with %s: %s; %s", exit.ErrRefused, to, cause, prose.Text(verdict.TLSNext(cause, s.TLS)))
}

// strange looks for TLS behind a port that answered nothing in plain: most servers of TLS only close
// the connection then.
func (p *part) strange(ctx context.Context, r *load.Result) {
	known := slices.ContainsFunc(r.Errors, func(e load.ErrorResponse) bool { return e.Status == 0 })
	if known || r.Total.Completed > 0 || r.Established == 0 || p.target.secure {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	on, err := p.target.dial(ctx)
	if err != nil {
		return
	}
	defer on.Close()
	a, err := p.spec.Address(p.spec.Targets[0].URL)
	if err != nil {
		return
	}
	c, err := tlsConfig(spec.HTTP11, &spec.TLS{Insecure: true}, a)
	if err != nil {
		return
	}
	if _, err = c.Try(ctx, on); err == nil || strings.HasPrefix(tlsconn.Explain(err), "TLS alert") {
		r.Errors = append(r.Errors, load.ErrorResponse{Line: load.SaysTLS})
	}
}

// protocols are offered to the server (ALPN, RFC 7301).
func protocols(version string) []string {
	switch version {
	case spec.HTTP11:
		return []string{"http/1.1"}
	case spec.HTTP2:
		return []string{"h2"}
	}
	return []string{"h2", "http/1.1"}
}

func tlsConfig(version string, t *spec.TLS, a spec.Address) (*tlsconn.Config, error) {
	c := &tlsconn.Config{ServerName: a.Host, Protocols: protocols(version)}
	if t == nil {
		return c, nil
	}
	if t.ServerName != "" {
		c.ServerName = t.ServerName
	}
	c.Insecure, c.Resume = t.Insecure, t.Resume
	offer, err := t.Offer()
	if err != nil {
		return nil, err
	}
	c.Offered = tlsconn.Offer(offer)
	if c.Roots, err = t.Roots(); err == nil {
		c.Certificates, err = t.Pair()
	}
	return c, err
}

// tlsOf summarizes the handshakes for the record; nil without TLS.
func tlsOf(h *load.Handshakes, asked *spec.TLS, elapsed float64) *record.TLS {
	if h == nil || h.Agreed.Version == 0 {
		return nil
	}
	group := ""
	if h.Agreed.Group != 0 {
		group = tls.CurveID(h.Agreed.Group).String()
	}
	t := &record.TLS{
		KeyExchange: group,
		Version:     tls.VersionName(h.Agreed.Version), Cipher: tls.CipherSuiteName(h.Agreed.Suite), Protocol: h.Agreed.Protocol,
		Resumed: h.Agreed.Resumed, Before: record.QuantilesOf(&h.Setup), Handshakes: record.QuantilesOf(&h.Window), CPUNs: h.CPUNs,
		ResumedCPUNs: h.ResumedCPUNs,
	}
	if asked != nil && asked.Resume {
		before, within := record.QuantilesOf(&h.Resumed.Setup), record.QuantilesOf(&h.Resumed.Window)
		t.ResumedBefore, t.Resumptions = &before, &within
	}
	if elapsed > 0 {
		t.PerS = float64(t.Count()) / elapsed
	}
	return t
}
