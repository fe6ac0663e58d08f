package race

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"

	"ceiling/internal/sys"
)

// tree are the living processes that descend from root, and root, in ascending
// order.
func tree(root int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	parents := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // not a process
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		parent, state, err := parseStat(text)
		if err != nil {
			return nil, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		if state != 'Z' && state != 'X' {
			parents[pid] = parent
		}
	}
	if _, ok := parents[root]; !ok {
		return nil, fmt.Errorf("process %d has ended", root)
	}
	return descendants(root, parents), nil
}

func descendants(root int, parents map[int]int) []int {
	of := map[int][]int{}
	for pid, parent := range parents {
		of[parent] = append(of[parent], pid)
	}
	list := []int{root}
	for i := 0; i < len(list); i++ {
		list = append(list, of[list[i]]...)
	}
	slices.Sort(list)
	return list
}

// gone tells that a process ended while it was looked at.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// parseStat reads state and parent, the third and the fourth field. The second,
// the name, may have blanks and brackets in it (proc_pid_stat(5)).
func parseStat(text []byte) (parent int, state byte, err error) {
	i := bytes.LastIndexByte(text, ')')
	f := bytes.Fields(text[i+1:])
	if i < 0 || len(f) < 2 {
		return 0, 0, fmt.Errorf("%q is no line of it", text)
	}
	parent, err = strconv.Atoi(string(f[1]))
	return parent, f[0][0], err
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
		kilobytes, err := parsePss(text)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/smaps_rollup: %w", pid, err)
		}
		sum += kilobytes << 10
	}
	return sum, nil
}

func parsePss(text []byte) (kilobytes uint64, err error) {
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == "Pss:" {
			return strconv.ParseUint(string(f[1]), 10, 64)
		}
	}
	return 0, errors.New("no Pss in it")
}
