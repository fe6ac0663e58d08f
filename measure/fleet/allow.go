package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/sys"
	"ceiling/measure/load"
	"ceiling/measure/run"
)

// Rule is one entry of an allow-list: a network, an address, a name or a unix
// socket, with or without a port.
type Rule struct {
	text   string
	prefix netip.Prefix // of a network or an address
	host   string       // of a name, in lower case
	port   uint16       // 0: any
	unix   string
}

// AllowList is what an agent may load.
type AllowList []Rule

// Loopback is the default list of an agent. It has no unix socket: what listens on one may obey
// every process that can write to it.
func Loopback() AllowList {
	four, six := netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")
	return AllowList{{text: four.String(), prefix: four}, {text: six.Addr().String(), prefix: six}}
}

// ParseAllow parses rules: 10.0.0.0/8, 10.0.0.7, 10.0.0.7:8080, [fd00::7]:8080, web.example,
// web.example:8080, unix:/run/web.sock. A network may have a port too: 10.0.0.0/8:8080,
// [fd00::/8]:8080.
func ParseAllow(texts []string) (AllowList, error) {
	list := make(AllowList, 0, len(texts))
	for _, text := range texts {
		r, err := parseRule(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w; as in 10.0.0.0/8, 10.0.0.7:8080, web.example:80 or unix:/run/web.sock", text, err)
		}
		list = append(list, r)
	}
	return list, nil
}

// ruleMax bounds a rule: a name has at most 253 characters (RFC 1035), a unix path 108.
const ruleMax = 300

func parseRule(text string) (Rule, error) {
	r := Rule{text: text}
	if text == "" || len(text) > ruleMax {
		return r, errors.New("no rule")
	}
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if path == "" || path[0] != '/' && path[0] != '@' {
			return r, errors.New("the path of a unix socket begins with / (or @, an abstract one)")
		}
		r.unix = path
		return r, nil
	}
	if p, ok := network(text); ok {
		r.prefix = p
		return r, nil
	}
	host, port := text, ""
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		host, port = text[:i], text[i+1:]
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return r, fmt.Errorf("invalid port %q", port)
		}
		r.port = uint16(n)
	}
	if inside, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inside, "]")
		if host == inside {
			return r, errors.New("a bracket is not closed")
		}
	}
	if p, ok := network(host); ok {
		r.prefix = p
		return r, nil
	}
	if !isName(host) {
		return r, errors.New("neither a network, nor an address, nor a name")
	}
	r.host = strings.ToLower(host)
	return r, nil
}

// network parses a network, or an address as a network of one.
func network(text string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		return p.Masked(), true
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen()), true
}

// isName reports whether text is a host name. What looks like an address is not: a typo in an
// address must not become a name that someone else may own.
func isName(text string) bool {
	if text == "" || len(text) > 253 {
		return false
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !nameRune(r) && r != '.' }) {
		return false
	}
	labels := strings.Split(strings.TrimSuffix(text, "."), ".")
	if slices.Contains(labels, "") {
		return false
	}
	_, err := strconv.ParseUint(labels[len(labels)-1], 0, 64) // RFC 3696, 2: a top domain is not all digits
	return err != nil
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// Lookup resolves a name.
type Lookup func(ctx context.Context, host string) ([]netip.Addr, error)

// lookup queries this host's resolver, with a timeout of a few seconds.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// Permits returns nil if a resolved address may be loaded, or a unix socket if that is not valid. It
// resolves the names of the list on each call.
func (l AllowList) Permits(ctx context.Context, to netip.AddrPort, unix string, find Lookup) error {
	what, addr := to.String(), plain(to.Addr())
	if !to.IsValid() {
		what = "unix:" + unix
	}
	for _, r := range l {
		holds := false
		switch {
		case !to.IsValid():
			holds = r.unix == unix && unix != ""
		case r.unix != "" || r.port != 0 && r.port != to.Port():
		case r.host == "":
			holds = r.prefix.Contains(addr)
		default:
			// A name that does not resolve permits nothing; the error below has the list.
			ips, _ := find(ctx, r.host)
			holds = slices.ContainsFunc(ips, func(ip netip.Addr) bool { return plain(ip) == addr })
		}
		if holds {
			return nil
		}
	}
	return fmt.Errorf("%s is not on its allow-list (%s); start the agent with --allow %[1]s", what, l)
}

// leads checks where an address leads: to a unix socket, or to all that its name resolves to. This
// machine needs no rule if local.
func (l AllowList) leads(ctx context.Context, to spec.Address, find Lookup, local bool) error {
	if to.Network == spec.Unix {
		return l.Permits(ctx, netip.AddrPort{}, to.Path, find)
	}
	ips, err := to.Given()
	if ip, e := netip.ParseAddr(to.Host); e == nil && to.At == "" {
		ips, err = []netip.Addr{ip}, nil
	}
	if err == nil && ips == nil {
		if ips, err = find(ctx, to.Host); err != nil {
			err = run.Unresolved(to, err)
		}
	}
	for _, ip := range ips {
		if !local || !sys.IsLocal(plain(ip)) {
			err = errors.Join(err, l.Permits(ctx, netip.AddrPortFrom(ip, to.Port), "", find))
		}
	}
	return err
}

// plain returns an address as it is reached: an IPv4-mapped IPv6 one as IPv4, and the unspecified
// one as this host.
func plain(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	switch a {
	case netip.IPv4Unspecified():
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case netip.IPv6Unspecified():
		return netip.IPv6Loopback()
	}
	return a
}

// String lists the rules.
func (l AllowList) String() string {
	return strings.Join(l.Texts(), ", ")
}

// Texts returns the rules as written.
func (l AllowList) Texts() []string {
	texts := make([]string, 0, len(l))
	for _, r := range l {
		texts = append(texts, r.text)
	}
	return texts
}

// Caps limit what an agent accepts.
type Caps struct {
	// MaxRate of its own share, requests per second; 0: none.
	MaxRate float64 `json:"max_rate,omitempty"`
	// MaxTime of a run, from the opening of its connections.
	MaxTime time.Duration `json:"max_time_ns"`
	// MaxConnections of its own share; 0: none.
	MaxConnections int `json:"max_connections,omitempty"`
}

// Check rejects a share that exceeds the caps, before anything is done, and one through a proxy, which
// leads to addresses that no allow-list has seen. What cannot be known in advance (the rate of a closed
// loop, the duration of a number of requests) is monitored during the run.
func (c Caps) Check(s *spec.Spec, share load.Share) error {
	if s.Proxy != "" {
		return errors.New("--proxy: it loads only the addresses that it allows, and a proxy leads to any")
	}
	if n := share.Part(uint64(s.Connections)); c.MaxConnections > 0 && n > uint64(c.MaxConnections) {
		return fmt.Errorf("%d connections are its share, its cap is %d (--max-connections)", n, c.MaxConnections)
	}
	// The sum may overflow even if the parts do not.
	for _, d := range []time.Duration{s.ConnectRamp, s.Warmup, s.Duration, s.ConnectRamp + s.Warmup + s.Duration} {
		if d < 0 || d > c.MaxTime {
			return fmt.Errorf("the run takes %v, its cap is %v (--max-time)", d, c.MaxTime)
		}
	}
	rate := s.Rate.Most() * share.Fraction()
	if c.MaxRate > 0 && s.Open() && !(rate <= c.MaxRate) {
		return fmt.Errorf("%.0f requests/s are its share, its cap is %.0f (--max-rate)", rate, c.MaxRate)
	}
	return nil
}
