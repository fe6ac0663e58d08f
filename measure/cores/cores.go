// Package cores reads the CPU topology of a host and divides its CPUs between load generator and
// server, so that the server's result does not depend on the CPU time the generator leaves it.
package cores

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
)

// Layout is the CPU topology. Unknown parts are nil.
type Layout struct {
	// Cores has the CPUs of each physical core (SMT siblings), each core once; Nodes the CPUs of
	// each NUMA node.
	Cores, Nodes [][]int
}

// ReadLayout reads the layout of this host from /sys.
func ReadLayout() Layout { return LayoutOf(os.DirFS("/")) }

// LayoutOf reads Documentation/ABI/stable/sysfs-devices-system-cpu and
// sysfs-devices-node below a root.
func LayoutOf(root fs.FS) Layout {
	return Layout{
		Cores: lists(root, "sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list"),
		Nodes: lists(root, "sys/devices/system/node/node[0-9]*/cpulist"),
	}
}

// lists reads every distinct CPU list of the files, by ascending first CPU. A node without CPUs has
// an empty list.
func lists(root fs.FS, pattern string) [][]int {
	names, err := fs.Glob(root, pattern)
	if err != nil {
		return nil // the pattern is a constant
	}
	var all [][]int
	for _, name := range names {
		b, err := fs.ReadFile(root, path.Clean(name))
		if err != nil {
			continue
		}
		cpus, err := spec.ParseCPUList(strings.TrimSpace(string(b)))
		if err == nil && !slices.ContainsFunc(all, func(have []int) bool { return slices.Equal(have, cpus) }) {
			all = append(all, cpus)
		}
	}
	slices.SortFunc(all, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return all
}

// node returns the index of a CPU's NUMA node; 0 if unknown.
func (l *Layout) node(cpu int) int {
	return max(slices.IndexFunc(l.Nodes, func(n []int) bool { return slices.Contains(n, cpu) }), 0)
}

// Sides are the CPUs that generator and server may use, ascending.
type Sides struct {
	Generator, Server []int
	// GeneratorPinned and ServerPinned mark a side that the user has pinned: it is not moved.
	GeneratorPinned, ServerPinned bool
	Layout                        Layout
	// Want is how many CPUs the generator can use.
	Want int
	// Quota of CPU time for both sides together (their cgroup's), in cores; 0: none.
	Quota float64
}

// Split is which CPUs each side gets.
type Split struct {
	Generator, Server []int
	// Parted reports whether the sides shared CPUs before.
	Parted bool
	// SharedCore reports whether two threads of one physical core are on different sides: each
	// slows the other.
	SharedCore bool
}

// String formats it for the user: "generator on CPU 0, server on CPUs 1-3".
func (s Split) String() string {
	text := fmt.Sprintf("generator on %s, server on %s", Name(s.Generator), Name(s.Server))
	if s.SharedCore {
		text += " (two threads of one physical core: each slows the other)"
	}
	return text
}

// Name returns "CPU 3", or "CPUs 0-3,8".
func Name(cpus []int) string {
	if len(cpus) == 1 {
		return "CPU " + strconv.Itoa(cpus[0])
	}
	return "CPUs " + Format(cpus)
}

// Apart gives the two sides separate CPUs, if they share any.
func (s Sides) Apart() (Split, error) {
	shared := Both(s.Generator, s.Server)
	if len(shared) == 0 {
		return s.split(s.Generator, s.Server, false), nil
	}
	generatorAlone, serverAlone := s.away(s.Generator, s.Server), s.away(s.Server, s.Generator)
	switch {
	case s.GeneratorPinned && s.ServerPinned:
		return Split{}, fmt.Errorf("generator and server are both pinned to %s, and a hog there takes from both; give each its own with --pin-generator and --pin-server", Name(shared))
	case s.GeneratorPinned && len(serverAlone) > 0:
		return s.split(s.Generator, serverAlone, true), nil
	case s.ServerPinned && len(generatorAlone) > 0:
		return s.split(generatorAlone, s.Server, true), nil
	case s.GeneratorPinned || s.ServerPinned:
		return Split{}, fmt.Errorf("one side is pinned to all CPUs that the other may use (%s); leave some to it with --pin-generator and --pin-server", Format(shared))
	case len(generatorAlone) > 0:
		return s.split(generatorAlone, s.Server, true), nil
	case len(serverAlone) > 0:
		return s.split(s.Generator, serverAlone, true), nil
	}
	return s.divide()
}

// away returns the CPUs of one side that the other may not use, preferably without those that share
// a core with the other's.
func (s Sides) away(of, other []int) []int {
	alone := without(of, other)
	var beside []int
	for _, core := range s.Layout.Cores {
		if len(Both(core, other)) > 0 {
			beside = append(beside, core...)
		}
	}
	if clear := without(alone, beside); len(clear) > 0 {
		return clear
	}
	return alone
}

// divide divides CPUs that both sides may use, by whole cores if there are two. The generator gets
// as many as it can use, at least one and at most half, from as few NUMA nodes as possible; the
// server gets the rest.
func (s Sides) divide() (Split, error) {
	if len(s.Generator) < 2 {
		return Split{}, errors.New("generator and server have one CPU together; give this machine a second one, or generate the load from another machine")
	}
	units := s.units()
	budget := len(s.Generator)
	if s.Quota > 0 && s.Quota < float64(budget) {
		if budget = int(s.Quota); budget < 2 {
			return Split{}, fmt.Errorf("the cgroup of generator and server grants both together %.2g CPUs: separate CPUs would not separate them; raise its quota to 2, or generate the load from another machine", s.Quota)
		}
		units = within(units, budget)
	}
	var generator, server []int
	for i, unit := range units {
		switch {
		case i == 0 || i < len(units)/2 && len(generator) < s.Want:
			generator = append(generator, unit...)
		case len(server) == 0 || len(generator)+len(server)+len(unit) <= budget:
			server = append(server, unit...)
		}
	}
	slices.Sort(generator)
	slices.Sort(server)
	return s.split(generator, server, true), nil
}

// units returns what must not be split: physical cores, node by node. A CPU of unknown core is its
// own unit, and so is each CPU of a single core.
func (s Sides) units() [][]int {
	var units [][]int
	alone := s.Generator
	for _, core := range s.Layout.Cores {
		if mine := Both(core, s.Generator); len(mine) > 0 {
			units, alone = append(units, mine), without(alone, mine)
		}
	}
	if len(units) == 1 && len(alone) == 0 {
		units, alone = nil, s.Generator
	}
	for _, cpu := range alone {
		units = append(units, []int{cpu})
	}
	slices.SortStableFunc(units, func(a, b []int) int {
		return cmp.Or(cmp.Compare(s.Layout.node(a[0]), s.Layout.node(b[0])), cmp.Compare(a[0], b[0]))
	})
	return units
}

// within keeps one thread per core, and at most as many cores as the quota grants CPUs, if there
// are enough cores: a quota counts threads, and two threads of one core do less work than two
// cores.
func within(units [][]int, budget int) [][]int {
	if len(units) < budget {
		return units
	}
	var single [][]int
	for _, unit := range units[:budget] {
		single = append(single, unit[:1])
	}
	return single
}

func (s Sides) split(generator, server []int, parted bool) Split {
	return Split{Generator: generator, Server: server, Parted: parted, SharedCore: slices.ContainsFunc(s.Layout.Cores, func(core []int) bool {
		return len(Both(core, generator)) > 0 && len(Both(core, server)) > 0
	})}
}

// Both returns the CPUs in a and in b.
func Both(a, b []int) []int { return sift(a, b, true) }

// without returns those in a and not in b.
func without(a, b []int) []int { return sift(a, b, false) }

func sift(a, b []int, in bool) []int {
	var found []int
	for _, cpu := range a {
		if slices.Contains(b, cpu) == in {
			found = append(found, cpu)
		}
	}
	return found
}

// Format formats ascending CPUs as flags and the kernel take them: 0-3,8.
func Format(cpus []int) string { return spec.FormatCPUList(cpus) }
