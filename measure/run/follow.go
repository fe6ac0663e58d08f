package run

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/secret"
	"ceiling/measure/load"
)

const (
	// hopsMost is how many redirects in a row are followed: as many as by Go's client.
	hopsMost = 10
	// followTimeout is for one of them.
	followTimeout = 10 * time.Second
)

// Follow asks for a target once, and again for where each redirect leads, and makes the target the
// last of these URLs, which answers with no redirect. It returns them all. It speaks HTTP/1.1,
// connects as the load will, and takes secret fields from a target that leads to another host.
func Follow(ctx context.Context, t *spec.Target, d spec.Dial, s *spec.TLS) ([]string, error) {
	if t.Method != http.MethodGet && t.Method != http.MethodHead {
		return nil, fmt.Errorf("%w: --location: a %s may not be sent twice; for a redirect after it, take Location in a step of --session", exit.ErrRefused, t.Method)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	if d.Proxy != "" {
		proxy, err := spec.ParseProxy(d.Proxy)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
		}
		transport.Proxy = http.ProxyURL(proxy.URL)
	}
	base, path, err := spec.SplitURL(t.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	if !strings.Contains(base, ":/") && !strings.HasPrefix(base, "unix:") {
		base = "http://" + base
	}
	if scheme, _, _ := strings.Cut(base, "://"); scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("%w: --location: redirects are followed from an http:// or https:// URL", exit.ErrRefused)
	}
	urls := []string{base + path}
	for range hopsMost {
		next, err := hop(ctx, transport, t, urls[len(urls)-1], d, s)
		if err != nil || next == nil {
			return urls, err
		}
		if before, err := url.Parse(urls[len(urls)-1]); err != nil || before.Host != next.Host {
			t.Header = slices.DeleteFunc(slices.Clone(t.Header), func(f spec.Field) bool {
				return strings.EqualFold(f.Name, "host") || secret.Plain().Field(f.Name, f.Value) != f.Value
			})
		}
		next.Fragment, next.RawFragment = "", ""
		t.URL = next.String()
		urls = append(urls, t.URL)
	}
	return urls, fmt.Errorf("%w: --location: %s leads through more than %d redirects, the last to %s", exit.ErrRefused, t.URL, hopsMost, t.URL)
}

// hop asks for a URL with a target's method and fields, and returns where it redirects to; nil:
// nowhere.
func hop(ctx context.Context, transport *http.Transport, t *spec.Target, at string, d spec.Dial, s *spec.TLS) (*url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	address, err := d.Address(at)
	if err != nil {
		return nil, fmt.Errorf("%w: --location: %w", exit.ErrRefused, err)
	}
	if address.TLS {
		c, err := tlsConfig(spec.HTTP11, s, address)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
		}
		transport.TLSClientConfig = &tls.Config{
			ServerName: c.ServerName, RootCAs: c.Roots, InsecureSkipVerify: c.Insecure, Certificates: c.Certificates,
			MinVersion: max(c.Offered.Min, tls.VersionTLS12), MaxVersion: c.Offered.Max, CipherSuites: c.Offered.Suites,
			CurvePreferences: c.Offered.Groups,
		}
	}
	if d.Proxy == "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			to, err := resolve(ctx, address, nil)
			if err != nil {
				return nil, err
			}
			return to.dial(ctx)
		}
	}
	r, err := http.NewRequestWithContext(ctx, t.Method, at, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: --location: %w", exit.ErrRefused, err)
	}
	for _, f := range t.Header {
		if r.Header.Add(f.Name, f.Value); strings.EqualFold(f.Name, "host") {
			r.Host = f.Value
		}
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("--location: %s: %w", at, err)
	}
	answer.Body.Close()
	where, err := answer.Location()
	switch {
	case !load.IsRedirect(answer.StatusCode), errors.Is(err, http.ErrNoLocation):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("--location: %s: its Location is not a URL: %w", at, err)
	}
	return where, nil
}
