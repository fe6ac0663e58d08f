package proxy

import (
	"bytes"
	"iter"
	"net/netip"
	"strconv"

	"ceiling/internal/http1"
	"ceiling/proxy/route"
)

// key hashes what distinguishes the request; 0 if the request has none.
func (x *inbound) key(k requestKey, clean []byte) uint64 {
	switch k.kind {
	case keyDestination:
		for value := range x.cookies(k.name) {
			if n, err := strconv.ParseUint(string(value), 36, 64); err == nil {
				return n
			}
		}
		return 0 // none, or another program's
	case keyPath:
		if clean == nil {
			clean = x.cleanPath()
		}
		return route.HashOf(clean)
	case keyHeader:
		return hashOf(x.fieldOf(x.head(), k.name))
	case keyCookie:
		for value := range x.cookies(k.name) {
			return hashOf(value)
		}
		return 0
	}
	a := x.client.conn.loop.site.clientOf(x.address())
	if !a.IsValid() { // over a unix socket
		return 0
	}
	b := a.As16()
	return route.HashOf(b[:])
}

// hashOf is 0 for what is absent.
func hashOf(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	return route.HashOf(b)
}

// cookies are the values of a cookie: a browser may have several of one name, and what joins the fields of
// HTTP/2 may leave several.
func (x *inbound) cookies(cookie string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		head := x.head()
		for _, line := range x.lines() {
			if !equalFold(line.Name(head), "cookie") {
				continue
			}
			for part := range bytes.SplitSeq(line.Value(head), []byte{';'}) {
				name, value, _ := bytes.Cut(bytes.TrimSpace(part), []byte{'='})
				if string(name) == cookie && !yield(value) {
					return
				}
			}
		}
	}
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

// ownPort is the port of a URL's scheme: http: or https:.
func ownPort(url []byte) string {
	if url[len("http")] == ':' {
		return ":80"
	}
	return ":443"
}

// sameAuthority reports whether two hosts are the same, if one names its scheme's own port, or an empty one,
// and the other none (RFC 9110, section 4.2.3).
func sameAuthority(a, b []byte, own string) bool {
	bare := func(host []byte) []byte {
		return bytes.TrimSuffix(bytes.TrimSuffix(host, []byte(own)), []byte{':'})
	}
	return bytes.EqualFold(bare(a), bare(b))
}
