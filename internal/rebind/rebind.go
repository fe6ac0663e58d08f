// Package rebind keeps other sites' pages away from a server of this machine.
// A site can make its own name point here (DNS rebinding); the browser then takes
// the server for that site, and sends that name in the Host field.
package rebind

import (
	"net"
	"net/netip"
	"strings"
)

// Safe tells a Host field that no name server can be behind: an address, with
// loopback a loopback address alone, or localhost (RFC 6761, section 6.3).
func Safe(host string, loopback bool) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && (!loopback || addr.IsLoopback())
}
