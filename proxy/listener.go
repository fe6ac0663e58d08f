package proxy

import (
	"net/netip"
	"syscall"

	"ceiling/internal/ring"
)

// listener is a loop's own queue of new clients.
type listener struct {
	conn
	socket int
	full   bool // no more are taken for the moment
}

func (ln *listener) accepted(ev *ring.Event) {
	l := ln.loop
	switch {
	case ev.Err != 0:
		if !ring.TransientAccept(ev.Err) && !l.stopping {
			l.proxy.fail("accept: " + ev.Err.Error())
			l.stop(0)
			return
		}
		l.counts.acceptErrors++
	case l.stopping:
		closeNow(ev.FD)
	default:
		l.counts.accepted++
		l.serve(ev.FD, Origin{Scheme: "http", tcp: true}, l.site.config.ProxyProtocol)
		if max := l.proxy.maxClients; len(l.clients) >= max && !ln.full {
			ln.full = true
			l.counts.acceptPauses++
			l.ring.Pause(ln.tag())
		}
	}
}

// lessFull accepts again when there is room for an eighth more.
func (ln *listener) lessFull() {
	max := ln.loop.proxy.maxClients
	if ln.full && len(ln.loop.clients) < max-max/8 && ln.fd >= 0 {
		ln.full = false
		ln.loop.ring.Accept(int(ln.fd), ln.tag())
	}
}

func (ln *listener) received([]byte)          {}
func (ln *listener) ended(syscall.Errno)      {}
func (ln *listener) unsendable(syscall.Errno) {}
func (ln *listener) stalled()                 {}
func (ln *listener) drained()                 {}
func (ln *listener) expired()                 {}

// peerOf asks the kernel who is at the other end of a socket; a unix socket's is
// the zero AddrPort.
func peerOf(fd int) netip.AddrPort {
	name, err := syscall.Getpeername(fd)
	if err != nil {
		return netip.AddrPort{} // it has gone already; its first read tells
	}
	switch n := name.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(n.Addr), uint16(n.Port))
	case *syscall.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(n.Addr).Unmap(), uint16(n.Port))
	}
	return netip.AddrPort{}
}
