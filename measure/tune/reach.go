//go:build linux

package tune

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strings"

	"ceiling/internal/nic"
	"ceiling/internal/sys"
	"ceiling/measure/observe"
)

// Target is what a load goes to, for which a host is tuned: the way there decides what a setting can
// act on.
type Target struct {
	// URL of the server, in messages.
	URL string
	// Server is where it listens; the zero value: on a unix socket. With a port, its own listener
	// shows the effect of net.core.somaxconn.
	Server netip.AddrPort
	// Peer is an address of the generator; the zero value: unknown.
	Peer netip.Addr
	// Here: the generator is in the network namespace that is tuned.
	Here bool
}

// way is what the packets of a load cross in a network namespace.
type way struct {
	load *Target
	// crosses are the interfaces: that of the route, and those below it, of a bridge or a bond. None
	// of a unix socket.
	crosses []string
	// driven: one of them has hardware; irqs: and interrupts of its own; flows: a queue's table of
	// RFS.
	driven, irqs, flows bool
}

// Interface returns the interface that a load crosses, "" for a unix socket.
func (h *Host) Interface(l *Target) (name string, err error) {
	err = h.inside(func(h *Host) error {
		w, err := h.wayOf(l)
		if err == nil && len(w.crosses) > 0 {
			name = w.crosses[0]
		}
		return err
	})
	return name, err
}

// wayOf looks the way up, in the calling thread's network namespace.
func (h *Host) wayOf(l *Target) (way, error) {
	w := way{load: l}
	if !l.Server.IsValid() {
		return w, nil
	}
	name, err := observe.InterfaceTo(l.Server.Addr(), l.Peer, l.Here)
	if err != nil {
		return w, fmt.Errorf("find the interface that the load to %s crosses: %w", l.URL, err)
	}
	w.crosses = below(h.tree(), name, nil)
	for _, name := range w.crosses {
		if of, err := nic.Read(h.tree(), name); err == nil {
			w.driven, w.irqs = w.driven || of.Driver != "", w.irqs || len(of.IRQs) > 0
		}
		for _, queue := range nic.Queues(h.tree(), name, "rx") {
			w.flows = w.flows || sys.FileText(h.tree(), queue+"/"+knobFlowCount) != "0"
		}
	}
	return w, nil
}

// below adds an interface and those that it is made of.
func below(tree fs.FS, name string, found []string) []string {
	if slices.Contains(found, name) {
		return found
	}
	found = append(found, name)
	lower, err := fs.Glob(tree, "sys/class/net/"+name+"/lower_*")
	if err != nil {
		return found // the name of an interface is no pattern
	}
	for _, link := range lower {
		found = below(tree, strings.TrimPrefix(path.Base(link), "lower_"), found)
	}
	return found
}

// Reaches rejects a plan for an interface that a load does not cross, or none of whose settings can
// act on it: in one line, why the first cannot, and what to write instead.
func (p *Plan) Reaches(t *Target) error {
	all := slices.Concat(p.Changes, p.Already)
	return p.host.inside(func(h *Host) error {
		w, err := h.wayOf(t)
		if err != nil {
			return err
		}
		for i := range all { // what is set together may work together
			c := &all[i]
			w.flows = w.flows || c.Knob == knobFlowCount && c.After != "0" && slices.Contains(w.crosses, interfaceOf(c))
		}
		var first error
		able := 0
		for i := range all {
			not := w.cannot(&all[i])
			if not == "" {
				able++
				continue
			}
			if interfaceOf(&all[i]) != "" {
				return fmt.Errorf("%s cannot act on the load: %s; %s; nothing was changed", &all[i], not, w.instead())
			}
			first = cmp.Or(first, fmt.Errorf("%s cannot act on the load: %s; nothing was changed", &all[i], not))
		}
		if able > 0 {
			return nil
		}
		return first
	})
}

// cannot returns why a setting cannot act on the load; "" if it may.
func (w *way) cannot(c *Change) string {
	if name := interfaceOf(c); name != "" && !slices.Contains(w.crosses, name) {
		if len(w.crosses) == 0 {
			return w.String()
		}
		return fmt.Sprintf("%s, not %s", w, name)
	}
	switch {
	case c.Knob == knobIRQBalance && !w.irqs:
		return w.String() + ", which no interrupt serves"
	case (c.Knob == "net.core.busy_poll" || c.Knob == "net.core.busy_read") && !w.driven:
		return w.String() + ", which has no hardware to poll"
	case c.Knob == knobSocketFlows && !w.flows && len(w.crosses) > 0:
		return fmt.Sprintf("%s, which has no %s", w, knobFlowCount)
	case strings.HasPrefix(c.Knob, "net."):
		return w.otherProtocol(c.Knob)
	}
	return ""
}

// interfaceOf returns the interface that a setting belongs to; "": to none.
func interfaceOf(c *Change) string {
	if rest, is := strings.CutPrefix(c.Path, "proc/sys/net/"); is {
		parts := strings.Split(rest, "/") // ipv4/conf/eth0/rp_filter
		if len(parts) > 3 && (parts[1] == "conf" || parts[1] == "neigh") && parts[2] != "all" && parts[2] != "default" {
			return parts[2]
		}
		return ""
	}
	if c.Kind == KindNIC || c.Knob == knobIRQ || strings.HasPrefix(c.Path, "sys/class/net/") {
		name, _, _ := strings.Cut(c.Of, " ")
		return name
	}
	return ""
}

// overUnix are the sysctls below net.core that unix sockets obey.
func overUnix() []string {
	return []string{"net.unix.", "net.core.somaxconn", "net.core.rmem_", "net.core.wmem_"}
}

// otherProtocol returns why a sysctl is none of the load's protocol.
func (w *way) otherProtocol(name string) string {
	under := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}
	address := w.load.Server.Addr().Unmap()
	switch {
	case !address.IsValid() && !under(overUnix()...):
		return w.String()
	case !address.IsValid():
		return ""
	case under("net.ipv4.udp_"):
		return "the load goes over TCP, and this is UDP's"
	case under("net.unix.", "net.sctp.", "net.mptcp.", "net.dccp.", "net.rds."):
		return "it is of another protocol"
	case address.Is4() && under("net.ipv6."):
		return "the load goes over IPv4"
	case address.Is6() && under("net.ipv4.conf.", "net.ipv4.neigh.", "net.ipv4.route."):
		return "the load goes over IPv6"
	}
	return ""
}

// String says where the load goes.
func (w *way) String() string {
	if len(w.crosses) == 0 {
		return w.load.URL + " is a unix socket, and its bytes cross no interface"
	}
	return fmt.Sprintf("requests to %s cross %s", w.load.URL, strings.Join(w.crosses, " and "))
}

// instead says what would let the settings of an interface act.
func (w *way) instead() string {
	switch {
	case len(w.crosses) == 0:
		return "give the server a TCP address"
	case w.crosses[0] == "lo":
		return "write interface: lo, or give the server's address on the network as url and load it from other machines (--agents)"
	}
	return "write interface: " + w.crosses[0]
}
