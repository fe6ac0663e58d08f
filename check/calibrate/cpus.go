package calibrate

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"ceiling/experiment/spec"
	"ceiling/internal/sys"
)

// division is the assignment of CPUs.
type division struct {
	generator int
	floor     []int
	caveats   []string
}

// floorCPUsMost limits the CPUs of the floor server: a request costs it about as much as the
// generator, so four clearly suffice, while 64 connections over 100 CPUs would each wake a
// separate one.
const floorCPUsMost = 4

// divide gives the generator one CPU and the floor server the next ones that do not share a core
// with it. The generator gets the second CPU: interrupts and kernel work gather on the first, and
// the last ones are the slow cores of hybrid machines. siblings are CPU lists ("0,64").
func divide(allowed []int, siblings []string) division {
	if len(allowed) == 1 {
		return division{allowed[0], allowed, []string{"generator and floor server share the only CPU: what each can do without the other is derived from its CPU time"}}
	}
	d := division{generator: allowed[1]}
	shared := map[int]bool{}
	for _, list := range siblings {
		group, err := spec.ParseCPUList(list)
		if err != nil || !slices.Contains(group, d.generator) {
			continue
		}
		for _, cpu := range group {
			shared[cpu] = true
		}
	}
	others := slices.Concat(allowed[2:], allowed[:1])
	for _, cpu := range others {
		if !shared[cpu] && len(d.floor) < floorCPUsMost {
			d.floor = append(d.floor, cpu)
		}
	}
	if len(d.floor) == 0 {
		d.floor = others[:min(len(others), floorCPUsMost)]
		d.caveats = append(d.caveats, fmt.Sprintf("generator and floor server share a core: CPU %d is a sibling of %s", d.generator,
			cpuList(d.floor)))
	}
	slices.Sort(d.floor)
	return d
}

// pinRounds limits the rescans of a process that creates threads; threads created by a pinned
// thread inherit its affinity.
const pinRounds = 10

// pinAll pins every thread of a process to the given CPUs.
func pinAll(pid int, cpus []int) error {
	pinned := map[int]bool{}
	for range pinRounds {
		threads, err := sys.Threads(pid)
		if err != nil {
			return err
		}
		found := false
		for _, tid := range threads {
			if pinned[tid] {
				continue
			}
			found, pinned[tid] = true, true
			if err := sys.Pin(tid, cpus); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		if !found {
			return nil
		}
	}
	return fmt.Errorf("process %d makes threads faster than they can be pinned", pid)
}
