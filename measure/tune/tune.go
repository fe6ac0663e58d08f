// Package tune changes what a host does with packets and processes, and undoes it:
// sysctls, packet steering, interrupts, the NIC's queues, the clock.
//
// A Profile says what shall be set and why. Host.Plan reads the host and makes of it
// the Changes that are needed, each with its value before. Plan.Apply makes them: each
// is in a journal on disk before it is made, one that fails undoes those before it, and
// what a killed process left is undone by Restore at the next start.
//
//	host := tune.Host{}
//	profile, err := tune.Load("rps-rfs")
//	plan, err := host.Plan(profile, tune.Options{Interface: "eth0"})
//	undo, err := plan.Apply(ctx, tune.Owner{Who: "experiment irq.yaml"})
//	defer undo()
package tune

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"ceiling/internal/sys"
	"ceiling/internal/text"
)

// Host is a machine to tune. The zero value is this one.
type Host struct {
	// Root of the tree that has /proc and /sys; "": "/". ethtool settings of NICs and
	// services exist below "/" only.
	Root string
	// State is the directory of the journal; "": /var/lib/ceiling/tuning below Root.
	State string
	// Namespace is the named network namespace (ip-netns(8)) whose interfaces and sysctls to tune;
	// "": the caller's.
	Namespace string

	back backend // in tests
}

// Change is one setting to change.
type Change struct {
	// Knob as a profile names it, and what it applies to: "rps_cpus" of "eth0 rx-0".
	Knob string `json:"knob"`
	Of   string `json:"of,omitempty"`
	// Kind says how to read and write it, Path where: see the kinds.
	Kind string `json:"kind"`
	Path string `json:"path"`
	// Before and After are values as the kernel shows them.
	Before string `json:"before"`
	After  string `json:"after"`
	// Why as the profile has it.
	Why string `json:"why,omitempty"`
}

// Kinds of a Change.
const (
	KindValue   = "value"   // a file of /proc or /sys that holds one value; Path is below Root
	KindNIC     = "nic"     // a parameter by ethtool: Path is "eth0/rx_ring"
	KindService = "service" // a unit of systemd, "running" or "stopped"
)

// String names the setting: "eth0 rx-0 rps_cpus".
func (c *Change) String() string {
	if c.Of == "" {
		return c.Knob
	}
	return c.Of + " " + c.Knob
}

// Plan is the result of applying a profile to a host.
type Plan struct {
	Profile string `json:"profile"`
	// Changes in the order they are made.
	Changes []Change `json:"changes"`
	// Already has the settings with the wanted value.
	Already []Change `json:"already"`
	// Skipped has the optional settings that this host lacks.
	Skipped []Skipped `json:"skipped"`
	// Cores says which CPUs serve interrupts and which do not.
	Cores Cores `json:"cores"`

	host Host
}

// Skipped is a setting that this host lacks.
type Skipped struct {
	Knob string `json:"knob"`
	Why  string `json:"why"`
}

// Options of a Plan.
type Options struct {
	// Interface whose queues to tune; "": that of the default route.
	Interface string
	// Interrupts are the CPUs to serve the NIC; nil: chosen automatically.
	Interrupts []int
}

// Owner is who requests a change.
type Owner struct {
	// Who requests it, for the user: "root: ceiling tune apply server".
	Who string
	// Stays keeps the changes when the process ends; otherwise the next Restore after its end
	// undoes them.
	Stays bool
}

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

// ErrTuned means that a tuning is already in force, or being made.
var ErrTuned = errors.New("this host is tuned already")

// Kept is a setting of a plan that was applied, and what another program has made of it since; ""
// if it is as it was set.
type Kept struct {
	Change
	Instead string
}

// Kept reads the plan's settings again, with those that were so already.
func (p *Plan) Kept() (all []Kept, err error) {
	err = p.host.inside(func(h *Host) error {
		for _, c := range slices.Concat(p.Changes, p.Already) {
			instead, err := h.instead(&c)
			if err != nil {
				instead = text.FirstLine(err.Error())
			}
			all = append(all, Kept{c, instead})
		}
		return nil
	})
	return all, err
}

// instead returns what a change's setting is now, for a sentence; "" if it is as the change sets it.
func (h *Host) instead(c *Change) (string, error) {
	now, err := h.read(c)
	if err != nil || same(c.Knob, now, c.After) {
		return "", err
	}
	return shown(now), nil
}

// root returns the root of the host's tree.
func (h *Host) root() string { return cmp.Or(h.Root, "/") }

// tree returns the host's files.
func (h *Host) tree() fs.FS { return os.DirFS(h.root()) }

// state returns the directory of the journal.
func (h *Host) state() string {
	return cmp.Or(h.State, filepath.Join(h.root(), "var/lib/ceiling/tuning"))
}

// netnsDir has a file for each named network namespace.
const netnsDir = "/run/netns"

// inside runs f in the host's network namespace.
func (h *Host) inside(f func(*Host) error) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("hosts are tuned only on Linux, and this is %s", runtime.GOOS)
	}
	if h.Namespace == "" {
		return f(h)
	}
	if strings.ContainsRune(h.Namespace, '/') {
		return fmt.Errorf("invalid network namespace name %q; ip netns lists them", h.Namespace)
	}
	return sys.InNetworkNamespaceAt(filepath.Join(netnsDir, h.Namespace), func() error { return f(h) })
}
