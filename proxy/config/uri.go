package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Schemes of a destination.
const (
	HTTP  = "http"
	HTTPS = "https"
	Unix  = "unix"
	Files = "files"
)

// HTTP2 is the non-default value of a destination's HTTP.
const HTTP2 = "2"

// Missing is the option of files:// that has the location's other destinations answer where there is
// no file.
const Missing = "missing"

// Target is a parsed destination URI.
type Target struct {
	Scheme  string
	Address string     // host:port, or the path of a socket or a directory
	Host    string     // to send as Host if configured
	Base    string     // path before the request's, without a trailing slash
	Options url.Values // for files
	Timeout int        // RoadSign's: milliseconds until the response's head; 0 if not given
}

// SentHost returns the Host that the destination's requests carry; "" for the client's.
func (d *Destination) SentHost(t Target) string {
	switch d.Host {
	case "upstream":
		return t.Host
	case "client":
		return ""
	}
	return d.Host
}

// ParseURI parses http://host[:port][/base], https://…, unix:/path or
// files://directory[?options].
func ParseURI(uri string) (Target, error) {
	switch {
	case strings.HasPrefix(uri, "unix:"):
		path := strings.TrimPrefix(strings.TrimPrefix(uri, "unix:"), "//")
		if path == "" || len(path) > 107 {
			return Target{}, fmt.Errorf("%q: a socket's path has 1 to 107 bytes", uri)
		}
		return Target{Scheme: Unix, Address: path, Host: "localhost"}, nil
	case strings.HasPrefix(uri, "files://"), strings.HasPrefix(uri, "file://"):
		return parseFiles(uri)
	}
	u, err := url.Parse(uri)
	if err != nil {
		return Target{}, fmt.Errorf("invalid URI %q", uri)
	}
	if u.Scheme != HTTP && u.Scheme != HTTPS {
		return Target{}, fmt.Errorf("%q: http://, https://, unix: and files:// are known", uri)
	}
	if u.Host == "" || u.User != nil || u.Fragment != "" || u.Hostname() == "" {
		return Target{}, fmt.Errorf("%q: a host, perhaps a port and a path are needed, and nothing else", uri)
	}
	timeout, err := timeoutOf(u.RawQuery)
	if err != nil {
		return Target{}, fmt.Errorf("%q: %w", uri, err)
	}
	t := Target{Timeout: timeout, Scheme: u.Scheme, Address: u.Host, Host: u.Host, Base: strings.TrimRight(u.EscapedPath(), "/")}
	if u.Port() == "" {
		port := "80"
		if u.Scheme == HTTPS {
			port = "443"
		}
		t.Address = strings.TrimSuffix(u.Host, ":") + ":" + port
	}
	return t, nil
}

// timeoutOf reads the one parameter of an http:// URI.
func timeoutOf(query string) (int, error) {
	if query == "" {
		return 0, nil
	}
	text, found := strings.CutPrefix(query, "timeout=")
	n, err := strconv.Atoi(text)
	if !found || err != nil || n < 1 {
		return 0, fmt.Errorf("?%s: ?timeout=MILLISECONDS is the only parameter, 1 at least", query)
	}
	return n, nil
}

// parseFiles rejects unknown options: a misspelled fallback would otherwise show up as pages not
// found.
func parseFiles(uri string) (Target, error) {
	_, rest, _ := strings.Cut(uri, "://")
	dir, query, _ := strings.Cut(rest, "?")
	options, err := url.ParseQuery(query)
	if err != nil || dir == "" {
		return Target{}, fmt.Errorf("%q: files://directory?index=&suffix=&fallback=&maxAge= is the form", uri)
	}
	for name, values := range options {
		if !fieldText(strings.Join(values, "")) {
			return Target{}, fmt.Errorf("%q: %s has a control byte", uri, name)
		}
		switch name {
		case "index", "suffix", "fallback", "maxAge", "prefix", "charset", "utf8", "browse", "slash", Missing:
		default:
			return Target{}, fmt.Errorf("%q: unknown option %q; index, suffix, fallback, maxAge, prefix, charset and missing are known", uri, name)
		}
	}
	if m := options.Get(Missing); m != "" && m != "next" {
		return Target{}, fmt.Errorf("%q: missing=%s; next is the only value", uri, m)
	}
	return Target{Scheme: Files, Address: dir, Options: options}, nil
}

// IsService reports whether a host is the name of SRV records, as _http._tcp.example (RFC 2782): the
// ports are theirs.
func IsService(host string) bool { return strings.HasPrefix(host, "_") }

// ReadyAt returns the host:port at which the application becomes ready; "" if it does not say.
func (a *Application) ReadyAt() string {
	if t, err := ParseURI(a.Ready); err == nil {
		return SameHost(t.Address)
	}
	if u, err := url.Parse(a.Ready); err == nil && u.Port() != "" { // with a query
		return SameHost(u.Host)
	}
	if _, _, err := net.SplitHostPort(a.Ready); err != nil {
		return ""
	}
	return SameHost(a.Ready)
}

// SameHost returns a host:port in one form for all names of this machine's loopback.
func SameHost(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if at, err := netip.ParseAddr(host); err == nil && (at.IsLoopback() || at.IsUnspecified()) || strings.EqualFold(host, "localhost") {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

func fieldText(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}
