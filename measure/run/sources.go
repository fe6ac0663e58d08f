package run

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/measure/load"
)

// sources returns the local addresses that the connections are spread over. Each one named must be
// this host's; of a range, and if several agents share the run, it takes those that are this
// host's.
func sources(s *spec.Spec, to target, share load.Share) ([]netip.Addr, error) {
	var list []netip.Addr
	seen := map[netip.Addr]bool{}
	for _, text := range s.SourceIPs {
		p, err := spec.ParseSource(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
		}
		if p.Addr().Is4() != to.addr.Addr().Unmap().Is4() {
			return nil, fmt.Errorf("%w: --source-ips: %s and the target %s are not both IPv4 or both IPv6; give addresses of the target's kind",
				exit.ErrRefused, text, to)
		}
		for ip := p.Addr(); p.Contains(ip); ip = ip.Next() {
			if seen[ip] || !mayBeHost(p, ip) {
				continue
			}
			switch err := ownAddress(ip); {
			case err == nil:
				seen[ip] = true
				list = append(list, ip)
			case !errors.Is(err, syscall.EADDRNOTAVAIL):
				return nil, fmt.Errorf("--source-ips: %s: %w", ip, local(err))
			case p.IsSingleIP() && share.Whole():
				return nil, fmt.Errorf("%w: --source-ips: %s is not an address of this host; add it: ip addr add %s dev eth0 (as root)", exit.ErrRefused, ip,
					p)
			}
		}
	}
	if len(s.SourceIPs) > 0 && len(list) == 0 {
		return nil, fmt.Errorf("%w: --source-ips: no address of %s is this host's; add them with ip addr add (as root), or remove the flag",
			exit.ErrRefused, strings.Join(s.SourceIPs, ","))
	}
	return list, nil
}

// mayBeHost excludes the first and last address of an IPv4 range, which are the network's own and
// the broadcast (RFC 3021 for ranges of two).
func mayBeHost(p netip.Prefix, ip netip.Addr) bool {
	return !ip.Is4() || p.Bits() >= 31 || ip != p.Addr() && p.Contains(ip.Next())
}

// ownAddress asks the kernel by binding, which also knows what routes make local: EADDRNOTAVAIL if
// the address is not this host's.
func ownAddress(ip netip.Addr) error {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
	if err != nil {
		return err
	}
	return l.Close()
}
