//go:build linux

package observe

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"

	"ceiling/internal/nic"
)

var errRoute = errors.New("the kernel's route names no interface")

// route is which interface leads to an address.
type route struct {
	index int        // of the interface
	local bool       // the address is this host's own
	from  netip.Addr // source address of the packets; zero if not reported
}

// lookUpRoute asks the kernel (RTM_GETROUTE, rtnetlink(7)) in the calling thread's network namespace.
func lookUpRoute(to netip.Addr) (route, error) {
	var question nl.RtMsg
	question.Family, question.Dst_len = syscall.AF_INET6, uint8(to.BitLen())
	if to.Is4() {
		question.Family = syscall.AF_INET
	}
	r := nl.NewNetlinkRequest(syscall.RTM_GETROUTE, 0)
	r.AddData(&question)
	r.AddData(nl.NewRtAttr(syscall.RTA_DST, to.AsSlice()))
	answers, err := r.Execute(syscall.NETLINK_ROUTE, 0)
	if err != nil {
		return route{}, fmt.Errorf("look up the route to %s: %w", to, err)
	}
	if len(answers) == 0 {
		return route{}, errRoute
	}
	answer := nl.DeserializeRtMsg(answers[0])
	attributes, err := nl.ParseRouteAttrAsMap(answers[0][answer.Len():])
	if err != nil || len(attributes[syscall.RTA_OIF].Value) != 4 {
		return route{}, errors.Join(errRoute, err)
	}
	from, _ := netip.AddrFromSlice(attributes[syscall.RTA_PREFSRC].Value)
	return route{int(nl.NativeEndian().Uint32(attributes[syscall.RTA_OIF].Value)), answer.Type == syscall.RTN_LOCAL, from.Unmap()}, nil
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
		return nic.With(target)
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
