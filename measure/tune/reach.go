//go:build linux

package tune

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"ceiling/measure/observe"
)

// way is what the packets of a load cross in a network namespace.
type way struct {
	load *Target
	// crosses are the interfaces: that of the route, and those below it, of a bridge or a bond. None
	// of a unix socket.
	crosses []string
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

// Reaches rejects a plan for an interface that a load does not cross, or of a network for a unix
// socket: in one line, why the first setting cannot act, and what to write instead. Whether one that
// can does, the experiment shows.
func (p *Plan) Reaches(t *Target) error {
	return p.host.inside(func(h *Host) error {
		w, err := h.wayOf(t)
		if err != nil {
			return err
		}
		var first error
		able := false
		for _, c := range slices.Concat(p.Changes, p.Already) {
			name := interfaceOf(&c)
			switch {
			case name != "" && !slices.Contains(w.crosses, name):
				return fmt.Errorf("%s cannot act on the load: %s; nothing was changed", &c, w.instead(name))
			case len(w.crosses) == 0 && strings.HasPrefix(c.Knob, "net.") && !overUnix(c.Knob):
				first = cmp.Or(first, fmt.Errorf("%s cannot act on the load: %s; nothing was changed", &c, &w))
			default:
				able = true
			}
		}
		if able {
			return nil
		}
		return first
	})
}

// overUnix reports whether unix sockets obey a sysctl below net.
func overUnix(name string) bool {
	return slices.ContainsFunc([]string{"net.unix.", "net.core.somaxconn", "net.core.rmem_", "net.core.wmem_"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
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

// String says where the load goes.
func (w *way) String() string {
	if len(w.crosses) == 0 {
		return w.load.URL + " is a unix socket, and its bytes cross no interface"
	}
	return fmt.Sprintf("requests to %s cross %s", w.load.URL, strings.Join(w.crosses, " and "))
}

// instead says that the load does not cross an interface, and what would let its settings act.
func (w *way) instead(name string) string {
	if len(w.crosses) == 0 {
		return w.String() + "; give the server a TCP address"
	}
	advice := w.crosses[0]
	if advice == "lo" {
		advice += ", or give the server's address on the network as url and load it from other machines (--agents)"
	}
	return fmt.Sprintf("%s, not %s; write interface: %s", w, name, advice)
}
