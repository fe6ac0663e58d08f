package tune

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/nic"
	"ceiling/internal/sys"
	"ceiling/measure/cores"
)

// Cores says which CPUs have which role.
type Cores struct {
	// All are the online CPUs; Near those of the NIC's NUMA node.
	All  []int `json:"all"`
	Near []int `json:"near"`
	// Interrupts serve the NIC, one thread of each core; Workers are the CPUs of all other cores,
	// on all nodes. On a machine with one core they are the same.
	Interrupts []int `json:"interrupts"`
	Workers    []int `json:"workers"`
}

// interruptShare: one of so many near cores serves interrupts.
const interruptShare = 4

// coresOf divides a host's CPUs. A core that serves interrupts is reserved as a whole: they would
// slow its other thread.
func coresOf(root fs.FS, of *nic.Interface, asked []int) (Cores, error) {
	all, err := spec.ParseCPUList(sys.FileText(root, "sys/devices/system/cpu/online"))
	if err != nil {
		return Cores{}, fmt.Errorf("which CPUs are online: %w", err)
	}
	c := Cores{All: all, Near: all}
	layout := cores.LayoutOf(root)
	if of.Node >= 0 && of.Node < len(layout.Nodes) {
		if near := cores.Both(all, layout.Nodes[of.Node]); len(near) > 0 {
			c.Near = near
		}
	}
	core := func(cpu int) []int {
		for _, siblings := range layout.Cores {
			if slices.Contains(siblings, cpu) {
				return siblings
			}
		}
		return []int{cpu}
	}
	if len(asked) > 0 {
		if foreign := cores.Both(asked, all); len(foreign) != len(asked) {
			return c, fmt.Errorf("%s: not all of them are online (%s are)", cores.Name(asked), cores.Format(all))
		}
		c.Interrupts = asked
	} else {
		var firsts []int
		for _, cpu := range c.Near {
			if siblings := core(cpu); cpu == siblings[0] || !slices.Contains(firsts, siblings[0]) {
				firsts = append(firsts, cpu)
			}
		}
		n := max(1, len(firsts)/interruptShare)
		if served := max(of.Rx, len(of.IRQs)); served > 0 {
			n = min(n, served)
		}
		c.Interrupts = firsts[:n]
	}
	var taken []int
	for _, cpu := range c.Interrupts {
		taken = append(taken, core(cpu)...)
	}
	for _, cpu := range all {
		if !slices.Contains(taken, cpu) {
			c.Workers = append(c.Workers, cpu)
		}
	}
	if len(c.Workers) == 0 {
		c.Workers = all
	}
	return c, nil
}

// set returns the CPUs of a profile's keyword.
func (c *Cores) set(word string) ([]int, error) {
	switch word {
	case "all":
		return c.All, nil
	case "near":
		return c.Near, nil
	case "interrupts":
		return c.Interrupts, nil
	case "workers":
		return c.Workers, nil
	case "none":
		return nil, nil
	}
	cpus, err := spec.ParseCPUList(word)
	if err != nil {
		return nil, fmt.Errorf("%q names no CPUs; give all, near, interrupts, workers, none or a list as in 0-3,8", word)
	}
	return cpus, nil
}

// Leaves reports whether a change makes that value of its setting.
func (c *Change) Leaves(value string) bool { return same(c.Knob, c.After, value) }

// same reports whether two values of a knob are equivalent: masks with a different number of zeros,
// lists in another form, blanks.
func same(knob, a, b string) bool {
	a, b = strings.Join(strings.Fields(a), " "), strings.Join(strings.Fields(b), " ")
	if a == b {
		return true
	}
	parse := spec.ParseCPUList
	switch knob {
	case knobRPS, knobXPS:
		parse = nic.ParseMask
	case knobIRQ:
	default:
		return false
	}
	x, err1 := parse(a)
	y, err2 := parse(b)
	return err1 == nil && err2 == nil && slices.Equal(x, y)
}
