//go:build linux

package perturb

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"ceiling/experiment/spec"
	"ceiling/internal/sys"
)

// Pinned are processes whose threads were pinned to some CPUs.
type Pinned struct{ note *note }

// pinnedTask is one process with the former CPUs of its threads.
type pinnedTask struct {
	PID        int           `json:"pid"`
	StartTicks uint64        `json:"start_ticks"`
	CPUs       []int         `json:"cpus"` // of the main thread: for threads created in between
	Threads    map[int][]int `json:"threads"`
}

// Pin pins every thread of some processes to the given CPUs until Restore. The processes must be
// the user's own, unless run as root. On failure nothing is changed, or the error says what is.
func Pin(pids, cpus []int) (*Pinned, error) {
	n, err := newNote()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		t, err := readTask(pid)
		if err != nil {
			return nil, err
		}
		n.Processes = append(n.Processes, t)
	}
	if err := n.write(); err != nil {
		return nil, err
	}
	for i := range n.Processes {
		if err := n.Processes[i].pin(func(int) []int { return cpus }); err != nil {
			return nil, errors.Join(err, n.undo())
		}
	}
	return &Pinned{n}, nil
}

// Restore gives every thread its former CPUs, and threads created in between those of their
// process. It leaves processes that have ended alone.
func (p *Pinned) Restore() error { return p.note.undo() }

func readTask(pid int) (pinnedTask, error) {
	t := pinnedTask{PID: pid, Threads: map[int][]int{}}
	var err error
	if t.StartTicks, err = StartTicks(pid); err != nil {
		return t, err
	}
	tids, err := sys.Threads(pid)
	if err != nil {
		return t, err
	}
	for _, tid := range tids {
		cpus, err := sys.AllowedCPUs(tid)
		if errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return t, err
		}
		t.Threads[tid] = cpus
	}
	t.CPUs = t.Threads[pid]
	return t, nil
}

// walksMost bounds the walks over the threads of a process that keeps creating new ones.
const walksMost = 10

// pin walks the threads until a walk finds no new one: a thread created during a walk inherits its
// parent's CPUs.
func (t *pinnedTask) pin(cpus func(tid int) []int) error {
	done := map[int]bool{}
	for range walksMost {
		tids, err := sys.Threads(t.PID)
		if err != nil {
			return err
		}
		found := false
		for _, tid := range tids {
			if done[tid] {
				continue
			}
			done[tid], found = true, true
			if err := sys.Pin(tid, cpus(tid)); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		if !found {
			return nil
		}
	}
	return fmt.Errorf("process %d makes threads faster than they can be pinned", t.PID)
}

// restoreTasks restores the threads' CPUs. It skips processes that have ended, or whose PID has
// been reused.
func restoreTasks(tasks []pinnedTask) error {
	var failed error
	for i := range tasks {
		t := &tasks[i]
		if start, err := StartTicks(t.PID); err != nil || start != t.StartTicks {
			continue
		}
		err := t.pin(func(tid int) []int {
			if had, ok := t.Threads[tid]; ok {
				return had
			}
			return t.CPUs
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("restore the CPUs of process %d: %w", t.PID, err))
		}
	}
	return failed
}

// AllowedTo returns the CPUs that threads of some processes may use, ascending.
func AllowedTo(pids []int) ([]int, error) {
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

// allowedHere returns the CPUs that this process may use, or those of the list.
func allowedHere(pinned string) ([]int, error) {
	if pinned != "" {
		return spec.ParseCPUList(pinned)
	}
	return sys.AllowedCPUs(0)
}
