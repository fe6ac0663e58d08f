//go:build linux

// Package sys wraps the kernel: threads, affinity, limits, clocks. Apart from internal/ring it is
// the only importer of golang.org/x/sys.
package sys

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ThreadCPUNs returns the CPU time of the calling OS thread, in nanoseconds
// (CLOCK_THREAD_CPUTIME_ID).
func ThreadCPUNs() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0 // the clock exists since Linux 2.6.12 and takes no other error
	}
	return ts.Nano()
}

// ThreadID returns the kernel's ID of the calling OS thread.
func ThreadID() int { return unix.Gettid() }

// SharpTimers removes the 50 µs of slack from the calling thread's timers (PR_SET_TIMERSLACK), so
// that waits end on time.
func SharpTimers() error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl PR_SET_TIMERSLACK", err)
	}
	return nil
}

// RunDelay reads how long threads waited for a CPU while they could run. It
// holds one open file per thread.
type RunDelay struct{ file *os.File }

// OpenRunDelay opens the file of the calling OS thread; kernels without
// CONFIG_SCHED_INFO have none.
func OpenRunDelay() (*RunDelay, error) {
	f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/schedstat", unix.Gettid()))
	if err != nil {
		return nil, err
	}
	return &RunDelay{f}, nil
}

// Ns returns the run-queue delay since the thread began, in nanoseconds: the second
// field of schedstat (kernel/sched/stats.h, sched_info.run_delay).
func (r *RunDelay) Ns() (int64, error) {
	var buf [80]byte
	n, err := r.file.ReadAt(buf[:], 0)
	if n == 0 {
		return 0, err
	}
	f := bytes.Fields(buf[:n])
	if len(f) < 2 {
		return 0, errors.New("schedstat: fewer than two fields")
	}
	return strconv.ParseInt(string(f[1]), 10, 64)
}

// Close closes the file.
func (r *RunDelay) Close() error { return r.file.Close() }

// AllowedCPUs lists the CPUs that a thread may run on; 0 is the calling thread.
func AllowedCPUs(tid int) ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		return nil, os.NewSyscallError("sched_getaffinity", err)
	}
	cpus := make([]int, 0, set.Count())
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// Pin restricts a thread to the given CPUs; 0 is the calling thread.
func Pin(tid int, cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
		if !set.IsSet(cpu) {
			return fmt.Errorf("pin: CPU %d is beyond the %d that a set holds", cpu, len(set)*64)
		}
	}
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		return fmt.Errorf("pin thread %d to CPUs %v: %w", tid, cpus, err)
	}
	return nil
}

// Threads lists the thread ids of a process, ascending.
func Threads(pid int) ([]int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, e := range entries {
		if id, err := strconv.Atoi(strings.TrimSpace(e.Name())); err == nil {
			ids = append(ids, id)
		}
	}
	sort.Ints(ids)
	return ids, nil
}

// RaiseOpenFiles raises the soft limit of open files to at least want if the
// hard limit allows it, and returns the resulting limit.
func RaiseOpenFiles(want uint64) (soft, hard uint64, err error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, 0, os.NewSyscallError("getrlimit", err)
	}
	if l.Cur >= want || l.Cur == l.Max {
		return l.Cur, l.Max, nil
	}
	l.Cur = min(want, l.Max)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, 0, os.NewSyscallError("setrlimit RLIMIT_NOFILE", err)
	}
	return l.Cur, l.Max, nil
}
