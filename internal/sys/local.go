package sys

import (
	"net"
	"net/netip"
	"slices"
)

// IsLocal reports whether an address is one of this host's. If the host's addresses cannot be read,
// only loopback is.
func IsLocal(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(addrs, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == ip.Unmap()
	})
}

// SourceTo returns this host's address on the way to another, host:port. It sends nothing: connect(2) of
// a datagram socket only chooses a route.
func SourceTo(address string) (netip.Addr, error) {
	c, err := net.Dial("udp", address)
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}
