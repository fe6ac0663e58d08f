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

// prereqs is what this host offers.
type prereqs struct {
	cpus      []int
	hierarchy hierarchy
	inet6     bool // ::1 can be listened on
	// lack has why this host does not offer what a scenario may need, by the word in its needs.
	lack map[string]string
	// paths of the installed software, and packages of what is missing, by name.
	paths, missing map[string]string
}

// survey probes the host.
func survey(ctx context.Context) (prereqs, error) {
	g := prereqs{lack: map[string]string{}}
	var err error
	if g.cpus, err = sys.AllowedCPUs(0); err != nil {
		return g, err
	}
	if len(g.cpus) < 2 {
		g.lack["cores"] = "this process may use one CPU only"
	}
	if g.hierarchy, err = cpuHierarchy(); err == nil {
		err = tryCgroup(g.hierarchy)
	}
	for word, lacks := range map[string]struct {
		says string
		err  error
	}{
		"namespaces": {"", tryNamespace(ctx)},
		"cgroup":     {"no CPU cgroup can be made: ", err},
		"disk":       {"no slow disk can be made: ", planted.TrySlowDisk()},
		"device":     {"no slow block device can be made: ", planted.TrySlowDevice()},
	} {
		if lacks.err != nil {
			g.lack[word] = lacks.says + lacks.err.Error()
		}
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

func tryNamespace(ctx context.Context) error {
	for _, name := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(name); err != nil {
			return errors.New("the command " + name + " is not installed (iproute2)")
		}
	}
	if os.Geteuid() != 0 {
		return errors.New("network namespaces take root")
	}
	n, err := newNamespace(ctx, probeNumber, 0, 1000)
	if err == nil {
		err = n.Remove()
	}
	return err
}

func tryCgroup(h hierarchy) error {
	c, err := h.newCgroup(probeNumber, 1)
	if err == nil {
		err = c.remove()
	}
	return err
}

// lacks returns why a scenario cannot run here; "" if it can.
func (g *prereqs) lacks(needs string) string {
	all := strings.Fields(needs)
	for _, word := range all {
		if why := g.lack[word]; why != "" {
			return why
		}
	}
	return toInstall(g.missing, all)
}

// newNamespace creates a network namespace out of which so many bits or packets pass each second. If it fails, it
// removes what it has created.
func newNamespace(ctx context.Context, number int, bits, packets float64) (*netns.Namespace, error) {
	n, err := netns.New(ctx, number, 1)
	if err != nil {
		return nil, err
	}
	shape := netns.Shape{BitsPerS: bits}
	if packets > 0 {
		shape.LimitPackets(packets)
	}
	if err := n.ShapeInside(ctx, shape); err != nil {
		return nil, errors.Join(err, n.Remove())
	}
	return n, nil
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
