package selftest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"ceiling/internal/sys"
	"ceiling/measure/netns"
	"ceiling/server/planted"
)

// ground is what this host offers: a reason is empty where it does.
type ground struct {
	cpus         []int
	hierarchy    hierarchy
	inet6        bool // ::1 can be listened on
	noCPUs       string
	noNamespaces string
	noCgroup     string
	noDisk       string
	noDevice     string
	// paths of the software that was looked for, and packages of what is not
	// there, by name.
	paths, missing map[string]string
}

// survey finds out by trying.
func survey(ctx context.Context) (ground, error) {
	var g ground
	var err error
	if g.cpus, err = sys.AllowedCPUs(0); err != nil {
		return g, err
	}
	if len(g.cpus) < 2 {
		g.noCPUs = "this process may use one CPU only"
	}
	g.noNamespaces = tryNamespace(ctx)
	if g.hierarchy, err = cpuHierarchy(); err == nil {
		err = tryCgroup(g.hierarchy)
	}
	if err != nil {
		g.noCgroup = "no CPU cgroup can be made: " + err.Error()
	}
	if err := planted.TrySlowDisk(); err != nil {
		g.noDisk = "no slow disk can be made: " + err.Error()
	}
	if err := planted.TrySlowDevice(); err != nil {
		g.noDevice = "no slow block device can be made: " + err.Error()
	}
	if ln, err := net.Listen("tcp", "[::1]:0"); err == nil {
		g.inet6 = true
		err = ln.Close()
		if err != nil {
			return g, err
		}
	}
	return g, ctx.Err()
}

// probeNumber names what a survey makes; scenarios count from 1.
const probeNumber = 0

func tryNamespace(ctx context.Context) string {
	for _, name := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(name); err != nil {
			return "the command " + name + " is not installed (iproute2)"
		}
	}
	if os.Geteuid() != 0 {
		return "network namespaces take root"
	}
	n, err := newNamespace(ctx, probeNumber, link{packetsPerS: 1000})
	if err == nil {
		err = n.Remove()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func tryCgroup(h hierarchy) error {
	c, err := h.newCgroup(probeNumber, 1)
	if err == nil {
		err = c.remove()
	}
	return err
}

// lacks says why a scenario cannot be run here; "" it can.
func (g *ground) lacks(n need) string {
	switch {
	case n.twoCPUs && g.noCPUs != "":
		return g.noCPUs
	case n.namespaces && g.noNamespaces != "":
		return g.noNamespaces
	case n.cgroup && g.noCgroup != "":
		return g.noCgroup
	case n.slowDisk && g.noDisk != "":
		return g.noDisk
	case n.slowDevice && g.noDevice != "":
		return g.noDevice
	}
	return g.lacksSoftware(strings.Fields(n.software))
}

// sweep removes what processes have left that are gone: links, namespaces and
// cgroups. It answers their names.
func sweep() (removed []string, failed error) {
	removed, failed = netns.Sweep()
	h, err := cpuHierarchy()
	if err != nil {
		return removed, failed
	}
	for _, name := range list(h.root) {
		pid := netns.Owner(name)
		if pid == 0 || !netns.Gone(pid) {
			continue
		}
		if err := (&cgroup{filepath.Join(h.root, name)}).remove(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("left over by process %d: %w", pid, err))
			continue
		}
		removed = append(removed, "cgroup "+name)
	}
	return removed, failed
}

// list is what the first of the directories holds that is there.
func list(dirs ...string) []string {
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // nothing was ever made there
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	return nil
}
