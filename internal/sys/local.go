package sys

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
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

// InterfaceWith returns the interface that has an address.
func InterfaceWith(addr netip.Addr) (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("list interfaces: %w", err)
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			return "", fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			prefix, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue // not an address with a mask
			}
			if prefix.Addr() == addr || addr.IsLoopback() && prefix.Contains(addr) {
				return i.Name, nil
			}
		}
	}
	return "", fmt.Errorf("no interface has the address %s", addr)
}

// LinkMbits returns the speed of an interface in 10⁶ bit/s; 0 if it has none: the file says -1, or cannot
// be read (Documentation/ABI/testing/sysfs-class-net).
func LinkMbits(name string) int {
	n, err := strconv.Atoi(FileText(os.DirFS("/sys/class/net"), name+"/speed"))
	if err != nil {
		return 0
	}
	return max(n, 0)
}
