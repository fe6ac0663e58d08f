package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
	"ceiling/internal/unit"
)

const (
	lookupTimeout = 5 * time.Second
	probeTimeout  = 2 * time.Second
)

// target is where the load goes.
type target struct {
	addr      netip.AddrPort  // of a TCP target
	unix      string          // path of a unix socket
	local     bool            // an address of this host
	secure    bool            // over TLS
	chosen    string          // which of a name's addresses was chosen and why; "": there was only one
	refused   string          // which of all a name's addresses got no connection and why; "": none
	addresses []ring.Sockaddr // where connections go in turn: all of a name and of one family, or one
	tunnel    []byte          // what a proxy at addr is asked for a tunnel with; nil: it is not asked
}

func (t target) String() string {
	if t.unix != "" {
		return "unix:" + t.unix
	}
	return t.addr.String()
}

func tcpTarget(ip netip.Addr, port uint16) target {
	at := netip.AddrPortFrom(ip.Unmap(), port) // a resolver returns IPv4 in IPv6's form
	return target{addresses: []ring.Sockaddr{ring.TCPAddr(at)}, addr: at, local: sys.IsLocal(ip)}
}

// resolve looks the address up, or that of the proxy, and finds whether it is this host's own. Of a
// name's addresses it takes the first that accepts a connection, as a browser would, and all
// requests go to it, unless all are asked for. permit, if not nil, is called before each attempt;
// see ShareOptions.
func resolve(ctx context.Context, a spec.Address, permit func(netip.AddrPort, string) error) (target, error) {
	allowed := func(to netip.AddrPort, unix string) error {
		if permit == nil {
			return nil
		}
		if err := permit(to, unix); err != nil {
			return fmt.Errorf("%w: %w", exit.ErrRefused, err)
		}
		return nil
	}
	if a.Network == spec.Unix {
		if err := allowed(netip.AddrPort{}, a.Path); err != nil {
			return target{}, err
		}
		to, err := ring.UnixAddr(a.Path)
		if err != nil {
			err = fmt.Errorf("%w: %w", exit.ErrRefused, err)
		}
		return target{addresses: []ring.Sockaddr{to}, unix: a.Path, local: true}, err
	}
	if a.Via != "" {
		proxy, _, _, err := spec.ParseTarget("http://" + a.Via)
		if err != nil {
			return target{}, fmt.Errorf("%w: %w", exit.ErrRefused, err)
		}
		proxy.All, a = a.All, proxy
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	ips, err := a.Given()
	if err != nil {
		return target{}, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	if ip, not := netip.ParseAddr(a.Host); not == nil && ips == nil {
		return tcpTarget(ip, a.Port), allowed(netip.AddrPortFrom(ip, a.Port), "")
	}
	if ips == nil {
		if ips, err = net.DefaultResolver.LookupNetIP(ctx, "ip", a.Host); err != nil {
			return target{}, Unresolved(a, err)
		}
	}
	for _, ip := range ips {
		if err := allowed(netip.AddrPortFrom(ip, a.Port), ""); err != nil {
			return target{}, err
		}
	}
	accept, refused := accepting(ctx, ips, a.Port, a.All)
	if a.All && refused != nil && a.At != "" {
		return target{}, fmt.Errorf("%w: --all-addresses: %s of %s; start the server there, or remove the address from --resolve", exit.ErrRefused,
			strings.Join(refused, ", "), a.At)
	}
	to := tcpTarget(accept[0], a.Port)
	for _, ip := range accept[1:] {
		if ip.Unmap().Is4() == accept[0].Unmap().Is4() {
			to.addresses = append(to.addresses, tcpTarget(ip, a.Port).addresses...)
		}
	}
	if a.All {
		to.chosen = spread(a.Host, len(ips), len(to.addresses), to.addr.Addr())
		if refused != nil {
			to.refused = fmt.Sprintf("%s has %d addresses, and %d of them got no connection (%s)", a.Host, len(ips), len(refused), strings.Join(refused, ", "))
		}
	} else {
		to.chosen = chosen(a.Host, ips, accept[0])
	}
	return to, nil
}

// NoAddress is in every error of Unresolved that a resolver made.
const NoAddress = " does not resolve: "

// Unresolved says why a name has no address, and what to do. That is no fault of the request: the
// same one succeeds once the name does.
func Unresolved(a spec.Address, err error) error {
	if here := local(err); here != err {
		return fmt.Errorf("look up %s: %w", a.Host, here)
	}
	var dns *net.DNSError
	if !errors.As(err, &dns) {
		return fmt.Errorf("look up %s: %w", a.Host, err)
	}
	server := "the DNS server"
	if dns.Server != "" {
		server += " " + dns.Server
	}
	without := fmt.Sprintf("give the address: --resolve %s:%d:ADDRESS", a.Host, a.Port)
	if name := proxyVariable(); name != "" {
		without = fmt.Sprintf("go through the proxy that %s names: --proxy \"$%[1]s\"", name)
	}
	switch {
	case dns.IsNotFound:
		return fmt.Errorf("%s"+NoAddress+"%s knows no address of that name; check the name (getent ahosts %[1]s), or %[3]s", a.Host, server, without)
	case dns.IsTimeout:
		return fmt.Errorf("%s"+NoAddress+"%s did not answer within %s; check /etc/resolv.conf and the network, or %s", a.Host, server,
			unit.FormatDuration(lookupTimeout), without)
	case strings.Contains(dns.Err, "server misbehaving"): // SERVFAIL, REFUSED: package net does not tell them apart
		return fmt.Errorf("%s"+NoAddress+"%s could not answer (SERVFAIL or REFUSED); ask it by hand (dig %[1]s), or %[3]s", a.Host, server,
			without)
	}
	return fmt.Errorf("%s"+NoAddress+"%s: %s; check /etc/resolv.conf, or %s", a.Host, server, dns.Err, without)
}

// chosen says which of a name's addresses gets all requests. Loopback addresses count as one
// server.
func chosen(host string, ips []netip.Addr, ip netip.Addr) string {
	if len(ips) < 2 || !slices.ContainsFunc(ips, func(ip netip.Addr) bool { return !ip.IsLoopback() }) {
		return ""
	}
	return fmt.Sprintf("%s has %d addresses: all requests went to %s, the first that accepted a connection", host, len(ips), ip)
}

// spread says over how many of a name's addresses the connections are spread, and which server is
// observed; "" if it has one.
func spread(host string, all, used int, watched netip.Addr) string {
	if all < 2 {
		return ""
	}
	return fmt.Sprintf("%s has %d addresses: the connections were spread over %d of them, and only the server at %s was observed", host, all, used,
		watched)
}

// accepting returns the addresses that accept a connection: all, or the first. If none does it
// returns the first: the run then shows the errors. refused says of each other why it does not.
func accepting(ctx context.Context, ips []netip.Addr, port uint16, all bool) (accept []netip.Addr, refused []string) {
	if len(ips) == 1 {
		return ips, nil
	}
	dialer := net.Dialer{Timeout: probeTimeout}
	for _, ip := range ips {
		at := netip.AddrPortFrom(ip, port).String()
		c, err := dialer.DialContext(ctx, "tcp", at)
		if err != nil {
			var op *net.OpError
			if errors.As(err, &op) {
				err = op.Err
			}
			refused = append(refused, fmt.Sprintf("%s: %v", at, err))
			continue
		}
		c.Close()
		if accept = append(accept, ip); !all {
			break
		}
	}
	if accept == nil {
		return ips[:1], nil
	}
	return accept, refused
}
