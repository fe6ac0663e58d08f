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

// prereqs is what this host offers: an empty reason means that it does.
type prereqs struct {
	cpus         []int
	hierarchy    hierarchy
	inet6        bool // ::1 can be listened on
	noCPUs       string
	noNamespaces string
	noCgroup     string
	noDisk       string
	noDevice     string
	// paths of the installed software, and packages of what is missing, by name.
	paths, missing map[string]string
}

// survey probes the host.
func survey(ctx context.Context) (prereqs, error) {
	var g prereqs
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

// probeNumber is the number in names that a survey creates; scenarios count from 1.
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

// lacks returns why a scenario cannot run here; "" if it can.
func (g *prereqs) lacks(n need) string {
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

// sweep removes links, namespaces and cgroups left behind by processes that are gone, and returns
// their names.
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

// list returns the content of the first directory that exists.
func list(dirs ...string) []string {
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // never created
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	return nil
}
