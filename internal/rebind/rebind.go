// Package rebind protects a local server from other sites' pages. A site can point its own name
// at this machine (DNS rebinding); the browser then treats the server as that site, and sends
// that name in the Host field.
package rebind

import (
	"net"
	"net/netip"
	"strings"
)

// Safe reports whether a Host field cannot come from a name server: an IP address (with loopback
// set, only a loopback one), or localhost (RFC 6761, section 6.3).
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
