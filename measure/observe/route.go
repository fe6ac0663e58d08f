//go:build linux

package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Which interface leads to an address: RTM_GETROUTE (rtnetlink(7)).
//
//	request  rtmsg of 12 bytes: family, dst_len, ...; attribute RTA_DST
//	answer   rtmsg, its type at 7; attributes RTA_OIF, the interface's index, and
//	         RTA_PREFSRC, the address that packets leave with

const (
	rtMsgBytes = 12
	rtMsgType  = 7
)

var errRoute = errors.New("the kernel's route names no interface")

// route is what was looked up.
type route struct {
	index int        // of the interface
	local bool       // the address is this host's own
	from  netip.Addr // source address of the packets; zero if not reported
}

func routeRequest(to netip.Addr) []byte {
	p := make([]byte, nlHeadBytes+rtMsgBytes)
	raw := to.AsSlice()
	p[nlHeadBytes] = syscall.AF_INET6
	if to.Is4() {
		p[nlHeadBytes] = syscall.AF_INET
	}
	p[nlHeadBytes+1] = byte(to.BitLen())
	p = binary.NativeEndian.AppendUint16(p, uint16(attrHeadBytes+len(raw)))
	p = binary.NativeEndian.AppendUint16(p, syscall.RTA_DST)
	return append(p, raw...)
}

// parseRoute reads the body of the answer.
func parseRoute(body []byte) (route, error) {
	if len(body) < rtMsgBytes {
		return route{}, errNetlinkShort
	}
	r := route{local: body[rtMsgType] == syscall.RTN_LOCAL}
	for rest := body[rtMsgBytes:]; ; {
		kind, value, more, ok := nextAttr(rest)
		if !ok {
			break
		}
		switch {
		case kind == syscall.RTA_OIF && len(value) == 4:
			r.index = int(binary.NativeEndian.Uint32(value))
		case kind == syscall.RTA_PREFSRC:
			r.from, _ = netip.AddrFromSlice(value)
		}
		rest = more
	}
	if r.index <= 0 {
		return route{}, errRoute
	}
	return r, nil
}

// lookUpRoute queries in the calling thread's network namespace.
func lookUpRoute(to netip.Addr) (route, error) {
	d, err := newDumper(syscall.NETLINK_ROUTE)
	if err != nil {
		return route{}, err
	}
	defer d.close()
	if err := d.ask(routeRequest(to), syscall.RTM_GETROUTE, 0); err != nil {
		return route{}, err
	}
	body, more, err := d.next()
	if err != nil {
		return route{}, fmt.Errorf("look up the route to %s: %w", to, err)
	}
	if !more {
		return route{}, errRoute
	}
	return parseRoute(body)
}

// InterfaceTo returns the interface that carries the run's packets, in the calling thread's network
// namespace. With the target on this host that is lo if the generator is here as well, the route to
// the generator if its address is known, and else the interface that has the target's address.
func InterfaceTo(target, peer netip.Addr, generatorHere bool) (string, error) {
	target = target.Unmap()
	r, err := lookUpRoute(target)
	if err != nil {
		return "", err
	}
	if r.local && peer.IsValid() {
		if r, err = lookUpRoute(peer.Unmap()); err != nil {
			return "", err
		}
	} else if r.local && !generatorHere {
		return interfaceWith(target)
	}
	return r.iface()
}

// iface returns the route's interface.
func (r *route) iface() (string, error) {
	i, err := net.InterfaceByIndex(r.index)
	if err != nil {
		return "", fmt.Errorf("name interface %d: %w", r.index, err)
	}
	return i.Name, nil
}

// interfaceWith returns the interface that has an address.
func interfaceWith(addr netip.Addr) (string, error) {
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
