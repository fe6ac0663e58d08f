package proxy

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"ceiling/internal/http1"
	"ceiling/proxy/config"
)

// A destination that is the proxy itself would send each request in circles until no connections
// are left. Destinations that may be this proxy are marked: requests for them carry a line with
// this process's ID and the location (CDN-Loop, RFC 8586, section 2), and a location answers a
// request that has its own mark with 508.
//
// Every destination with a port that this proxy listens on is marked, at whatever address: this
// covers names, other addresses of this machine, and a second proxy like this one that sends
// requests back. Others get no line and cost nothing. A loop over other ports is not detected.
// Via would work too (RFC 9110, section 7.6.3), but some servers do not compress responses to
// requests that have one.

// loopMark identifies a location's requests for one destination.
type loopMark struct {
	id   []byte
	line []byte
	name string // location and destination, for clients
}

// markLoops marks the destinations of a site that may be this proxy.
func (p *Proxy) markLoops(s *site) {
	ports := p.ports()
	for i, loc := range s.locations {
		id := fmt.Sprintf("ceiling-%s-%d", p.id, i)
		name := fmt.Sprintf("location %d", i+1)
		if loc.id != "" {
			name = "location " + strconv.Quote(loc.id)
		}
		for j, d := range append(loc.destinations[:len(loc.destinations):len(loc.destinations)], loc.fallback) {
			if d == nil || d.upstream == nil || d.upstream.target.Scheme == config.Unix {
				continue
			}
			if _, port, err := net.SplitHostPort(d.upstream.target.Address); err != nil || !ports[port] {
				continue
			}
			which := fmt.Sprintf("destination %d", j+1)
			switch {
			case d.id != "":
				which = "destination " + strconv.Quote(d.id)
			case d == loc.fallback:
				which = "fallback"
			}
			d.loopMark = &loopMark{id: []byte(id), line: []byte("CDN-Loop: " + id + "\r\n"), name: name + ", " + which}
		}
	}
}

// ports returns the ports that the proxy listens on, plain or with TLS.
func (p *Proxy) ports() map[string]bool {
	ports := map[string]bool{}
	for _, ln := range p.loops[0].listeners {
		name, err := syscall.Getsockname(ln.socket)
		if err != nil { // closed: the proxy is ending
			continue
		}
		switch n := name.(type) {
		case *syscall.SockaddrInet4:
			ports[strconv.Itoa(n.Port)] = true
		case *syscall.SockaddrInet6:
			ports[strconv.Itoa(n.Port)] = true
		}
	}
	return ports
}

var cdnLoop = []string{"cdn-loop"} // read-only

// newID returns a unique ID for this process.
func newID() string { return strings.ToLower(rand.Text()[:16]) }

// wentRound reports whether this proxy has forwarded the request before.
func (x *inbound) wentRound(d *destination) bool {
	lines := x.lines()
	head := x.client.in.b[x.headAt:x.headEnd]
	for i := range lines {
		if line := &lines[i]; line.Is == http1.Other && named(line.Name(head), cdnLoop) && bytes.Contains(line.Value(head), d.loopMark.id) {
			return true
		}
	}
	return false
}

// loopDetected answers a looping request. It reports the first one, with the destination's
// address, which clients must not see.
func (x *exchange) loopDetected(d *destination) {
	l := x.client.conn.loop
	x.destination = d
	x.uncount()
	l.counts.loopsDetected++
	if d.looped.CompareAndSwap(false, true) {
		l.proxy.fail(fmt.Sprintf("%s: %s leads back to this proxy: its requests are answered with 508", d.loopMark.name, d.upstream.key))
	}
	x.answer(508, d.loopMark.name+": it leads back to this proxy")
}
