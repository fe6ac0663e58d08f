//go:build linux

// Package tune changes what a host does with packets and processes, and undoes it:
// sysctls, packet steering, interrupts, the NIC's queues, the clock, limits.
//
// A Profile says what shall be set and why. Host.Plan reads the host and makes of it
// the Changes that are needed, each with its value before. Plan.Apply makes them: each
// is in a journal on disk before it is made, one that fails undoes those before it, and
// what a killed process left is undone by Restore at the next start. Verify looks for
// the effect: packets on the CPUs of a mask, interrupts on those of a list.
//
//	host := tune.Host{}
//	profile, err := tune.Load("rps-rfs")
//	plan, err := host.Plan(profile, tune.Options{Interface: "eth0"})
//	undo, err := plan.Apply(ctx, tune.Owner{Who: "experiment irq.yaml"})
//	defer undo()
package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ceiling/internal/sys"
)

// Host is a machine to tune. The zero value is this one.
type Host struct {
	// Root of the tree that has /proc, /sys and /etc; "": "/". ethtool settings of NICs and
	// services exist below "/" only.
	Root string
	// State is the directory of the journal; "": /var/lib/ceiling/tuning below Root: it survives a
	// reboot, as do the files that a tuning writes.
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
	// Before and After are values as the kernel shows them. Absent reports whether the file did not
	// exist before.
	Before string `json:"before"`
	After  string `json:"after"`
	Absent bool   `json:"absent,omitempty"`
	// NewDirs is how many of its parent directories did not exist either.
	NewDirs int `json:"new_dirs,omitempty"`
	// Why as the profile has it.
	Why string `json:"why,omitempty"`
}

// Kinds of a Change.
const (
	KindValue   = "value"   // a file of /proc or /sys that holds one value; Path is below Root
	KindFile    = "file"    // a whole file on disk; Path is below Root
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
	// Notes say what the user has to do in addition.
	Notes []string `json:"notes,omitempty"`

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

// ErrTuned means that a tuning is already in force, or being made.
var ErrTuned = errors.New("this host is tuned already")

// Apply makes the changes, each noted on disk before it is made. If one fails, or reads back as
// another value, it undoes those before and returns an error. undo reverts all of them; it may be
// called twice.
func (p *Plan) Apply(ctx context.Context, by Owner) (undo func() error, err error) {
	err = p.host.inside(func(h *Host) error {
		j, err := h.begin(p, by)
		if err != nil {
			return err
		}
		defer j.close()
		if err := h.applyAll(ctx, j, p.Changes); err != nil {
			return h.giveUp(j, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := p.host.Revert()
		return err
	}, nil
}

// applyAll makes one change after another, then checks all of them again: otherwise the measurement
// would be of a program that overwrites one (tuned, irqbalance, a second manual tuning).
func (h *Host) applyAll(ctx context.Context, j *journal, changes []Change) error {
	for i := range changes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := j.note(entry{Change: &changes[i]}); err != nil {
			return err
		}
		if err := h.apply(&changes[i]); err != nil {
			return err
		}
	}
	for i := range changes {
		c := &changes[i]
		now, err := h.read(c)
		if err != nil {
			return err
		}
		if !same(c.Knob, now, c.After) {
			return fmt.Errorf("%s is %s again and was set to %s: another program changes it back; find it (tuned, irqbalance, a sysctl unit) and stop it first",
				c, shown(now), shown(c.After))
		}
	}
	return j.note(entry{Applied: true})
}

// apply writes one value and reads it back.
func (h *Host) apply(c *Change) error {
	if err := h.write(c, c.After); err != nil {
		return err
	}
	now, err := h.read(c)
	if err != nil {
		return err
	}
	if !same(c.Knob, now, c.After) {
		return fmt.Errorf("%s: the kernel set %s instead of %s; give a value that it accepts", c, shown(now), shown(c.After))
	}
	return nil
}

// giveUp undoes the changes made before an error.
func (h *Host) giveUp(j *journal, why error) error {
	if _, err := h.undo(j); err != nil {
		return fmt.Errorf("%w; and not all could be undone: %w; ceiling tune revert tries again", why, err)
	}
	return fmt.Errorf("%w; nothing is changed: what was set before it is undone", why)
}

// read returns a change's current value. An absent file is "", with fs.ErrNotExist.
func (h *Host) read(c *Change) (string, error) {
	text, err := h.backend().read(c.Kind, c.Path)
	if err != nil {
		return "", fmt.Errorf("%s: read %s: %w", c, c.Path, reason(err))
	}
	return text, nil
}

func (h *Host) write(c *Change, value string) error {
	if err := h.backend().write(c.Kind, c.Path, value); err != nil {
		return fmt.Errorf("%s: set %s to %s: %w", c, c.Path, shown(value), reason(err))
	}
	return nil
}

// shown formats a value for a sentence.
func shown(value string) string {
	if first, _, more := strings.Cut(value, "\n"); more {
		return fmt.Sprintf("%q…", first)
	}
	if value == "" {
		return "nothing"
	}
	return value
}

// reason explains the usual cause of a kernel file's error.
func reason(err error) error {
	hint := ""
	switch {
	case errors.Is(err, errReadOnly):
		hint = "mounted read-only, as in a container; tune on the host itself"
	case errors.Is(err, fs.ErrPermission):
		hint = "only root may, and not in a container; run it with sudo on the host"
	case errors.Is(err, errInvalid):
		hint = "the kernel takes another range"
	case errors.Is(err, errIO):
		hint = "the kernel manages it and does not allow changes"
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, hint)
}

// root returns the root of the host's tree.
func (h *Host) root() string {
	if h.Root == "" {
		return "/"
	}
	return h.Root
}

// tree returns the host's files.
func (h *Host) tree() fs.FS { return os.DirFS(h.root()) }

// state returns the directory of the journal.
func (h *Host) state() string {
	if h.State != "" {
		return h.State
	}
	return filepath.Join(h.root(), "var/lib/ceiling/tuning")
}

// netnsDir has a file for each named network namespace.
const netnsDir = "/run/netns"

// inside runs f in the host's network namespace.
func (h *Host) inside(f func(*Host) error) error {
	if h.Namespace == "" {
		return f(h)
	}
	if strings.ContainsRune(h.Namespace, '/') {
		return fmt.Errorf("invalid network namespace name %q; ip netns lists them", h.Namespace)
	}
	return sys.InNetworkNamespaceAt(filepath.Join(netnsDir, h.Namespace), func() error { return f(h) })
}

// reversed returns the order in which changes are undone.
func reversed(changes []Change) []Change {
	back := slices.Clone(changes)
	slices.Reverse(back)
	return back
}
