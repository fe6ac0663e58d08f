package race

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"ceiling/internal/sys"
)

// tree are the living processes that descend from root, and root, in ascending order.
func tree(root int) ([]int, error) {
	all, err := sys.Processes()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(all, func(_ int, p *sys.PIDStat) bool { return p.State == 'Z' || p.State == 'X' })
	if all[root] == nil {
		return nil, fmt.Errorf("process %d has ended", root)
	}
	list := []int{root}
	for i := 0; i < len(list); i++ {
		for pid, p := range all {
			if p.Parent == list[i] {
				list = append(list, pid)
			}
		}
	}
	slices.Sort(list)
	return list, nil
}

// clock is the CPU time of each process of a tree, nanoseconds.
type clock map[int]int64

// readClock reads the clocks of all processes of a tree, each exact to the
// nanosecond and with the threads that have ended (internal/sys.ProcessClockNs).
func readClock(root int) (clock, error) {
	pids, err := tree(root)
	if err != nil {
		return nil, err
	}
	c := clock{}
	for _, pid := range pids {
		if c[pid], err = sys.ProcessClockNs(pid); err != nil {
			return nil, fmt.Errorf("clock of process %d: %w", pid, err)
		}
	}
	return c, nil
}

// since is what the tree used between two readings. A process that was there
// before and is not any more took its time with it, which is an error; a new one
// counts whole.
func (c clock) since(before clock) (ns int64, err error) {
	for _, pid := range slices.Sorted(maps.Keys(before)) {
		if _, ok := c[pid]; !ok {
			return 0, fmt.Errorf("process %d ended during the run, and its CPU time is lost", pid)
		}
	}
	for pid, now := range c {
		ns += now - before[pid]
	}
	return ns, nil
}

// proportional is the memory of a tree, bytes: the sum of Pss of
// /proc/PID/smaps_rollup, in which a page that several processes share counts for
// each by its part.
func proportional(root int) (uint64, error) {
	pids, err := tree(root)
	if err != nil {
		return 0, err
	}
	var sum uint64
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, err
		}
		kilobytes, err := sys.FieldCount(text, "Pss")
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/smaps_rollup: %w", pid, err)
		}
		sum += kilobytes << 10
	}
	return sum, nil
}
