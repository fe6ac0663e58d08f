package take

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/sys"
	"ceiling/spec"
)

// sides are the CPUs that generator and server may use.
type sides struct {
	generator, server []int
	// Pinned tells which side a person has pinned: it is not moved.
	generatorPinned, serverPinned bool
	// cores are the CPUs that share a core, each core once.
	cores [][]int
	// want is how many CPUs the generator has a use for.
	want int
}

// apart gives the two sides CPUs of their own, where they are not so already.
// says is what was done, for the person; "" nothing.
func (s sides) apart() (generator, server []int, says string, err error) {
	shared := both(s.generator, s.server)
	if len(shared) == 0 {
		return s.generator, s.server, "", nil
	}
	generatorAlone, serverAlone := without(s.generator, s.server), without(s.server, s.generator)
	switch {
	case s.generatorPinned && s.serverPinned:
		return nil, nil, "", fmt.Errorf("generator and server are both pinned to CPU %s: what is taken from one is taken from the other; give each its own with --pin-generator and --pin-server", list(shared))
	case s.generatorPinned && len(serverAlone) > 0:
		generator, server = s.generator, serverAlone
	case s.serverPinned && len(generatorAlone) > 0:
		generator, server = generatorAlone, s.server
	case s.generatorPinned || s.serverPinned:
		return nil, nil, "", fmt.Errorf("one side is pinned to all CPUs that the other may use (%s); leave some to it with --pin-generator and --pin-server", list(shared))
	case len(generatorAlone) > 0:
		generator, server = generatorAlone, s.server
	case len(serverAlone) > 0:
		generator, server = s.generator, serverAlone
	default:
		if generator, server, err = s.divide(); err != nil {
			return nil, nil, "", err
		}
	}
	says = fmt.Sprintf("generator and server shared CPUs; for the time of each run they are pinned apart: the generator to %s, the server to %s", list(generator), list(server))
	if s.splitsCore(generator, server) {
		says += " (two threads of one core: what is taken from one side the other feels too)"
	}
	return generator, server, says, nil
}

// divide parts CPUs that both sides may use, by whole cores where there are
// two. The generator gets what it has a use for, but half at most.
func (s sides) divide() (generator, server []int, err error) {
	if len(s.generator) < 2 {
		return nil, nil, errors.New("generator and server have one CPU together: nothing can be taken from one of them alone; give the server a CPU of its own, or let it run on another host")
	}
	units := make([][]int, 0, len(s.generator))
	for _, core := range s.cores {
		if mine := both(core, s.generator); len(mine) > 0 {
			units = append(units, mine)
		}
	}
	if len(units) < 2 { // one core, or its layout is not known
		units = units[:0]
		for _, cpu := range s.generator {
			units = append(units, []int{cpu})
		}
	}
	for i, unit := range units {
		if i == 0 || (i < len(units)/2 && len(generator) < s.want) {
			generator = append(generator, unit...)
		} else {
			server = append(server, unit...)
		}
	}
	slices.Sort(generator)
	slices.Sort(server)
	return generator, server, nil
}

// splitsCore tells that a core has a CPU on both sides.
func (s sides) splitsCore(generator, server []int) bool {
	return slices.ContainsFunc(s.cores, func(core []int) bool {
		return len(both(core, generator)) > 0 && len(both(core, server)) > 0
	})
}

// both are the CPUs in a and in b; without are those in a and not in b.
func both(a, b []int) []int    { return sift(a, b, true) }
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

// list writes CPUs as the flags take them: 0-3,8.
func list(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		text := strconv.Itoa(cpus[i])
		if j > i {
			text += "-" + strconv.Itoa(cpus[j])
		}
		parts = append(parts, text)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// allowedTo are the CPUs that threads of some processes may use, ascending.
func allowedTo(pids []int) ([]int, error) {
	var cpus []int
	for _, pid := range pids {
		t, err := readTask(pid)
		if err != nil {
			return nil, err
		}
		for _, some := range t.Threads {
			cpus = append(cpus, some...)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// allowedHere are the CPUs that this process may use, or those of the list.
func allowedHere(pinned string) ([]int, error) {
	if pinned != "" {
		return spec.ParseCPUList(pinned)
	}
	return sys.AllowedCPUs(0)
}

// coresOf reads which of the CPUs share a core; nil where the kernel does not
// say (Documentation/admin-guide/cputopology.rst).
func coresOf(cpus []int) [][]int {
	var cores [][]int
	seen := map[string]bool{}
	for _, cpu := range cpus {
		b, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
		text := strings.TrimSpace(string(b))
		if err != nil || seen[text] {
			continue
		}
		seen[text] = true
		if core, err := spec.ParseCPUList(text); err == nil {
			cores = append(cores, core)
		}
	}
	return cores
}
