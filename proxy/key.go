package proxy

import (
	"bytes"
	"net/netip"
	"strconv"

	"ceiling/internal/http1"
	"ceiling/proxy/route"
)

// key hashes what distinguishes the request; 0 if k is none.
func (x *inbound) key(k key, head, clean []byte) uint64 {
	switch k.kind {
	case keyNone:
		return 0
	case keyDestination:
		x.lines()
		n, err := strconv.ParseUint(string(cookie(x.client.conn.loop.field(head, "cookie"), k.name)), 36, 64)
		if err != nil { // none, or another program's
			return 0
		}
		return n
	case keyPath:
		if clean == nil {
			clean = x.cleanPath()
		}
		return route.HashOf(clean)
	case keyHeader:
		x.lines()
		return route.HashOf(x.client.conn.loop.field(head, k.name))
	case keyCookie:
		x.lines()
		return route.HashOf(cookie(x.client.conn.loop.field(head, "cookie"), k.name))
	}
	a := x.client.conn.loop.site.clientOf(x.address()).As16()
	return route.HashOf(a[:])
}

// clientOf returns the network that is one client to the limits: a customer has a whole network of
// IPv6, and may change the address with every request.
func (s *site) clientOf(a netip.Addr) netip.Addr {
	if !a.Is6() || a.Is4In6() {
		return a
	}
	p, err := a.Prefix(s.ipv6Prefix)
	if err != nil { // not after the check of the configuration
		return a
	}
	return p.Addr()
}

// cookie finds a cookie's value.
func cookie(field []byte, name string) []byte {
	for len(field) > 0 {
		part := field
		if i := bytes.IndexByte(field, ';'); i >= 0 {
			part, field = field[:i], field[i+1:]
		} else {
			field = nil
		}
		part = bytes.TrimSpace(part)
		if len(part) > len(name) && part[len(name)] == '=' && string(part[:len(name)]) == name {
			return part[len(name)+1:]
		}
	}
	return nil
}

// address returns the client's address. Behind trusted proxies it is the last address of
// X-Forwarded-For that is not a trusted proxy's: those before it are only claimed by that client.
func (x *inbound) address() netip.Addr {
	c := x.client
	a := c.remote.Addr()
	if !c.trusted {
		return a
	}
	lines := x.lines()
	head := c.in.b[x.headAt:x.headEnd]
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i].Is != http1.ForwardedFor {
			continue
		}
		value := lines[i].Value(head)
		for len(value) > 0 {
			last := value
			if j := bytes.LastIndexByte(value, ','); j >= 0 {
				last, value = value[j+1:], value[:j]
			} else {
				value = nil
			}
			said, err := netip.ParseAddr(string(bytes.TrimSpace(last)))
			if err != nil {
				return a
			}
			a = said.Unmap()
			if !c.conn.loop.site.trusts(a) {
				return a
			}
		}
	}
	return a
}
