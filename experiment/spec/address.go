package spec

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/secret"
)

const (
	// urlMax limits a URL as typed. Servers reject far shorter request lines (nginx and Apache at
	// 8 KiB); the limit only catches a pasted file.
	urlMax = 64 << 10
	// hostMax is the longest DNS name as text (RFC 1035 §2.3.4 less the root).
	hostMax = 253
	// socketMax is the longest path of a unix socket: sun_path is 108 bytes
	// with its closing zero (include/uapi/linux/un.h).
	socketMax = 107
)

// Networks of an Address.
const (
	TCP  = "tcp"
	Unix = "unix"
)

// Address is the destination of a run's connections. Two targets with equal addresses may share
// connections.
type Address struct {
	// Network is TCP or Unix.
	Network string
	// Host is a name in lower case, an IPv4 or an IPv6 address without brackets and with its
	// %zone; "" for a unix socket.
	Host string
	// Port is 1 to 65535; 0 for a unix socket.
	Port uint16
	// Path of the unix socket, absolute, or @name of an abstract one; "" for TCP.
	Path string
	// At is the addresses of Host according to Dial.Resolve, comma-separated; "" if it must be
	// resolved.
	At string
	// All asks for all addresses of Host, not the first that accepts.
	All bool
	// Via is the proxy to connect to in place of Host, host:port; "": none.
	Via string
	// TLS is set if the URL is https or wss.
	TLS bool
	// WebSocket is set if the URL is ws or wss.
	WebSocket bool
}

// String formats the address for net.Dial: "localhost:80", "[::1]:8080", "/run/x.sock"; with
// several addresses in At, the first; with a proxy, the proxy's.
func (a Address) String() string {
	switch {
	case a.Network == Unix:
		return a.Path
	case a.Via != "":
		return a.Via
	}
	host := a.Host
	if a.At != "" {
		host, _, _ = strings.Cut(a.At, ",")
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(a.Port))
}

// Given returns the addresses of At; nil if Host must be resolved.
func (a Address) Given() ([]netip.Addr, error) {
	if a.At == "" {
		return nil, nil
	}
	var list []netip.Addr
	for text := range strings.SplitSeq(a.At, ",") {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("address %s: %w", quoteShort(text), err)
		}
		list = append(list, ip)
	}
	return list, nil
}

// url formats the address with its scheme, for errors.
func (a Address) url() string {
	switch {
	case a.Network == Unix:
		return "unix:" + a.Path
	case a.WebSocket && a.TLS:
		return "wss://" + a.String()
	case a.WebSocket:
		return "ws://" + a.String()
	case a.TLS:
		return "https://" + a.String()
	}
	return "http://" + a.String()
}

// ParseTarget parses a URL as typed: http[s]://host[:port]/path?query, or ws[s]:// instead; the
// same without a scheme (localhost:8080/x, :8080/x for this machine); a unix socket as
// unix:/run/x.sock:/path?query or http+unix://%2Frun%2Fx.sock/path?query.
//
// requestTarget is the origin form of RFC 9112 §3.2.1, byte for byte as typed and without the
// fragment; "/" without a path. hostHeader is the value of the Host field (RFC 9110 §7.2): it
// omits the port if it is the scheme's default, always omits an IPv6 zone (RFC 6874 §3), and is
// "localhost" for a unix socket.
//
// The error is one line that quotes the URL, says what is wrong with it and how it should look.
func ParseTarget(text string) (addr Address, requestTarget, hostHeader string, err error) {
	fail := func(err error) (Address, string, string, error) {
		return Address{}, "", "", fmt.Errorf("URL %s: %w", quoteShort(secret.Plain().URL(text)), err)
	}
	if len(text) > urlMax {
		return fail(fmt.Errorf("%d bytes are too many; at most %d", len(text), urlMax))
	}
	if err := checkVisible(text, socketPathEnd(text)); err != nil {
		return fail(err)
	}
	noFragment, _, _ := strings.Cut(text, "#")
	if name, rest, is := strings.Cut(noFragment, "//"); is && (name == "http" || name == "https") {
		return fail(fmt.Errorf("the colon after %s is missing; write %[1]s://%s", name, rest))
	}
	scheme, rest := splitScheme(withoutEmptyPort(noFragment))
	switch scheme {
	case "http", "https":
		authority, target := splitAuthority(rest)
		addr, hostHeader, err = parseAuthority(authority, scheme == "https")
		requestTarget = target
	case "ws", "wss":
		authority, target := splitAuthority(rest)
		addr, hostHeader, err = parseAuthority(authority, scheme == "wss")
		addr.WebSocket = true
		requestTarget = target
	case "unix":
		hostHeader = "localhost"
		addr, requestTarget, err = parseUnix(rest)
	case "http+unix":
		hostHeader = "localhost"
		addr, requestTarget, err = parseEscapedUnix(rest)
	default:
		err = fmt.Errorf("unknown scheme %q; give http://host:port/path, https://host/path, ws://host/path or unix:/run/x.sock:/path", scheme)
	}
	if err != nil {
		return fail(err)
	}
	return addr, requestTarget, hostHeader, nil
}

// MoveCredentials makes user:password@ of the URL its field Authorization (RFC 7617), as curl and
// browsers do; user is that of -u, "" if the URL has it. A field that is there already is kept.
func (t *Target) MoveCredentials(user string) error {
	if scheme, rest, is := strings.Cut(t.URL, "://"); is && isScheme(scheme) {
		authority, _ := splitAuthority(rest)
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			t.URL = scheme + "://" + rest[at+1:]
			typed, err := url.PathUnescape(authority[:at])
			if err != nil {
				return fmt.Errorf("the user and password of a URL: %w; write %% as %%25", err)
			}
			user = cmp.Or(user, typed)
		}
	}
	if user == "" || slices.ContainsFunc(t.Header, func(f Field) bool { return strings.EqualFold(f.Name, "Authorization") }) {
		return nil
	}
	if !strings.Contains(user, ":") {
		user += ":" // without a password
	}
	t.Header = append(t.Header, Field{"Authorization", Basic(user)})
	return nil
}

// Basic is the value of Authorization for user:password (RFC 7617).
func Basic(user string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(user)) }

// splitScheme returns the scheme in lower case and the rest. Text without one is http:
// "localhost:8080" is a host and a port, not a scheme.
func splitScheme(text string) (scheme, rest string) {
	if before, after, found := strings.Cut(text, "://"); found && isScheme(before) {
		return strings.ToLower(before), after
	}
	if len(text) >= 5 && strings.EqualFold(text[:5], "unix:") {
		return "unix", text[5:]
	}
	return "http", text
}

func isScheme(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case isLetter(c):
		case i > 0 && (isDigit(c) || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return s != ""
}

// splitAuthority splits host[:port] from the request target.
func splitAuthority(rest string) (authority, target string) {
	i := strings.IndexAny(rest, "/?")
	if i < 0 {
		return rest, "/"
	}
	return rest[:i], originForm(rest[i:])
}

// withoutEmptyPort drops the colon of a port that is not there, which is the scheme's then (RFC
// 3986 §3.2.3). Without a scheme such a colon is a slip.
func withoutEmptyPort(url string) string {
	scheme, rest, found := strings.Cut(url, "://")
	if !found || !isScheme(scheme) || strings.EqualFold(scheme, "unix") {
		return url
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if host, found := strings.CutSuffix(rest[:end], ":"); found && host != "" && !strings.HasSuffix(host, ":") {
		return scheme + "://" + host + rest[end:]
	}
	return url
}

// originForm adds a slash before a query without a path.
func originForm(target string) string {
	if strings.HasPrefix(target, "/") {
		return target
	}
	return "/" + target
}

func parseAuthority(authority string, tls bool) (Address, string, error) {
	if strings.Contains(authority, "@") {
		return Address{}, "", errors.New("remove user:password@ from it and give -u user:password, or the field -H 'Authorization: Basic BASE64'")
	}
	usual := uint16(80)
	if tls {
		usual = 443
	}
	host, port, err := splitPort(authority, usual)
	if err != nil {
		return Address{}, "", err
	}
	header, err := checkHost(&host)
	if err != nil {
		return Address{}, "", err
	}
	if port != usual {
		header += ":" + strconv.Itoa(int(port))
	}
	return Address{Network: TCP, Host: host, Port: port, TLS: tls}, header, nil
}

// splitPort splits off the port. A port alone (":8080") is on this machine.
func splitPort(authority string, usual uint16) (host string, port uint16, err error) {
	host, text, typed := authority, "", false
	switch end := strings.LastIndexByte(authority, ']'); {
	case end >= 0 && end+1 < len(authority) && authority[end+1] != ':':
		return "", 0, fmt.Errorf("%q follows the ] of the IPv6 address; write [::1]:8080", authority[end+1:])
	case end >= 0:
		host, text, typed = authority[:end+1], strings.TrimPrefix(authority[end+1:], ":"), end+1 < len(authority)
	case strings.HasPrefix(authority, "["):
		return authority, usual, nil // without its ], which checkHost rejects
	case strings.Count(authority, ":") > 1:
		if name, ports, _ := strings.Cut(authority, ":"); strings.Trim(name, "0123456789abcdefABCDEF") != "" || strings.Trim(ports, "0123456789:") == "" && name != "" {
			return "", 0, fmt.Errorf("it has more than one port (%s); give one", ports)
		}
		return "", 0, errors.New("an IPv6 address goes in brackets; write http://[::1]:8080/")
	default:
		host, text, typed = strings.Cut(authority, ":")
	}
	if !typed {
		return host, usual, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || !isDigit(text[0]) {
		return "", 0, fmt.Errorf("bad port %q; a port is a number from 1 to 65535", text)
	}
	if host == "" {
		host = "localhost"
	}
	return host, uint16(n), nil
}

// checkHost normalises *host to the form of Address.Host and returns its form for the Host field.
func checkHost(host *string) (header string, err error) {
	switch {
	case *host == "":
		return "", fmt.Errorf("the host is missing; write http://localhost:8080/path")
	case strings.HasPrefix(*host, "["):
		return checkIPv6(host)
	case len(*host) > hostMax:
		return "", fmt.Errorf("a host name of %d bytes; DNS allows %d", len(*host), hostMax)
	}
	numeric := true
	for _, c := range []byte(*host) {
		if !isLetter(c) && !isDigit(c) && c != '-' && c != '.' && c != '_' {
			return "", fmt.Errorf("%q has no place in a host name; write http://localhost:8080/path", c)
		}
		numeric = numeric && (isDigit(c) || c == '.')
	}
	if numeric {
		if _, err := netip.ParseAddr(*host); err != nil {
			return "", fmt.Errorf("bad IPv4 address %q; write four numbers from 0 to 255, as in 127.0.0.1", *host)
		}
	}
	header = *host
	if *host = strings.ToLower(*host); *host == "localhost." {
		*host = "localhost" // which no DNS server has
	}
	return header, nil
}

func checkIPv6(host *string) (header string, err error) {
	text, found := strings.CutSuffix((*host)[1:], "]")
	// RFC 6874 §2 writes the zone as %25eth0; ping and ip write %eth0.
	text = strings.Replace(text, "%25", "%", 1)
	ip, err := netip.ParseAddr(text)
	if !found || err != nil || !ip.Is6() {
		return "", fmt.Errorf("bad IPv6 address %q; write http://[::1]:8080/", *host)
	}
	*host = ip.String()
	return "[" + ip.WithZone("").String() + "]", nil
}

// parseUnix parses /run/x.sock:/path?query. The first colon ends the socket's path; a path with a
// colon must use http+unix.
func parseUnix(rest string) (Address, string, error) {
	rest = strings.TrimPrefix(rest, "//")
	path, target, found := strings.Cut(rest, ":")
	if found && !strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "?") && target != "" {
		return Address{}, "", fmt.Errorf("%q is not a path; write unix:/run/x.sock:/path", target)
	}
	addr, err := socketAddress(path)
	return addr, originForm(target), err
}

// parseEscapedUnix parses %2Frun%2Fx.sock/path?query.
func parseEscapedUnix(rest string) (Address, string, error) {
	authority, target := splitAuthority(rest)
	path, err := url.PathUnescape(authority)
	if err != nil {
		return Address{}, "", fmt.Errorf("bad percent sign in %q; write http+unix://%%2Frun%%2Fx.sock/path", authority)
	}
	addr, err := socketAddress(path)
	return addr, target, err
}

func socketAddress(path string) (Address, error) {
	switch {
	case path == "":
		return Address{}, fmt.Errorf("the socket's path is missing; write unix:/run/x.sock:/path")
	case path[0] != '/' && path[0] != '@':
		return Address{}, fmt.Errorf("the socket's path %q is not absolute; write unix:/run/x.sock:/path", path)
	case len(path) > socketMax:
		return Address{}, fmt.Errorf("a socket's path of %d bytes; the kernel allows %d", len(path), socketMax)
	case strings.IndexByte(path, 0) >= 0:
		return Address{}, fmt.Errorf("a zero byte in the socket's path")
	}
	return Address{Network: Unix, Path: path}, nil
}

// socketPathEnd returns the end of a socket's path in a text that begins with unix:, otherwise 0:
// the path is a file name, which may contain anything.
func socketPathEnd(text string) int {
	scheme, rest := splitScheme(text)
	if scheme != "unix" {
		return 0
	}
	path, _, _ := strings.Cut(rest, ":")
	return len(text) - len(rest) + len(path)
}

// checkVisible rejects what RFC 3986 never allows and what would break the request line: blanks,
// control characters, non-ASCII. Before free it rejects only control characters.
func checkVisible(text string, free int) error {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case i < free && c >= 0x20 && c != 0x7f:
		case c == ' ':
			return fmt.Errorf("space at byte %d: write %%20", i+1)
		case c < 0x20 || c == 0x7f:
			return fmt.Errorf("a control character (%#02x) at byte %d; write %%%02X if it is meant", c, i+1, c)
		case c > 0x7f:
			return fmt.Errorf("a character beyond ASCII at byte %d; write it percent-encoded (é is%%C3%%A9), and a host name in its xn-- form", i+1)
		}
	}
	return nil
}

// quoteShort quotes text for an error, shortened to fit a line.
func quoteShort(text string) string {
	const most = 200
	if len(text) > most {
		return strconv.Quote(text[:most]) + "…"
	}
	return strconv.Quote(text)
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// sourcesMax limits a range of source addresses: that many connections could each use all ports
// of one.
const sourcesMax = 1 << 16

// ParseSource parses a local address, or a range such as 10.0.0.0/28; an address is a range of
// one.
func ParseSource(text string) (netip.Prefix, error) {
	var p netip.Prefix
	var err error
	if strings.Contains(text, "/") {
		p, err = netip.ParsePrefix(text)
	} else {
		var a netip.Addr
		if a, err = netip.ParseAddr(text); err == nil {
			p = netip.PrefixFrom(a.WithZone("").Unmap(), a.Unmap().BitLen())
			if a.Zone() != "" {
				err = fmt.Errorf("it has a zone")
			}
		}
	}
	switch {
	case err != nil:
		return p, fmt.Errorf("invalid source address %s; give an address of this host, or a range, as in 10.0.0.2 or 10.0.0.0/28",
			quoteShort(text))
	case p.Addr().Is4In6():
		return p, fmt.Errorf("source address: %s is IPv4 in IPv6; write it as IPv4", quoteShort(text))
	case p.Addr().BitLen()-p.Bits() > 16:
		return p, fmt.Errorf("source address: the range %s has more than %d addresses; give a smaller one", text, sourcesMax)
	}
	return p.Masked(), nil
}

// checkSources validates the source addresses without looking at a machine.
func (s *Spec) checkSources(to Address) error {
	if len(s.SourceIPs) == 0 {
		return nil
	}
	if to.Network != TCP {
		return fmt.Errorf("source addresses: a unix socket has none; remove --source-ips")
	}
	if len(s.SourceIPs) > sourcesMax {
		return fmt.Errorf("source addresses: %d are too many, at most %d; give a range", len(s.SourceIPs), sourcesMax)
	}
	for _, text := range s.SourceIPs {
		if _, err := ParseSource(text); err != nil {
			return err
		}
	}
	return nil
}
