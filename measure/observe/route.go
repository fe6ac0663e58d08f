//go:build linux

package observe

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"

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
	found, err := netlink.RouteGet(to.AsSlice())
	if err != nil {
		return route{}, fmt.Errorf("look up the route to %s: %w", to, err)
	}
	if len(found) == 0 || found[0].LinkIndex <= 0 {
		return route{}, errRoute
	}
	from, _ := netip.AddrFromSlice(found[0].Src)
	return route{found[0].LinkIndex, found[0].Type == syscall.RTN_LOCAL, from.Unmap()}, nil
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
