//go:build linux

package sys

import (
	"errors"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Policies of the scheduler that are asked for here (sched(7)).
const (
	policyOther = 0 // SCHED_OTHER
	policyFIFO  = 1 // SCHED_FIFO
	// resetOnFork keeps the policy from threads that this one starts.
	resetOnFork = 0x01 // SCHED_FLAG_RESET_ON_FORK
)

// BeRealTime gives the calling thread the real-time policy SCHED_FIFO: it runs
// as soon as it can, before every ordinary thread, until it sleeps. It takes
// root or CAP_SYS_NICE, and a CPU cgroup that has real-time to give. The caller
// holds its goroutine to the thread.
func BeRealTime(priority int) error {
	a := unix.SchedAttr{Policy: policyFIFO, Flags: resetOnFork, Priority: uint32(priority)}
	if err := unix.SchedSetAttr(0, &a, 0); err != nil {
		return errors.Join(errors.New("ask for the policy SCHED_FIFO"), err)
	}
	return nil
}

// BeOrdinary gives the calling thread the policy that it began with.
func BeOrdinary() error {
	a := unix.SchedAttr{Policy: policyOther}
	if err := unix.SchedSetAttr(0, &a, 0); err != nil {
		return errors.Join(errors.New("ask for the policy SCHED_OTHER"), err)
	}
	return nil
}

// BePrompt makes the calling thread an ordinary one that asks for short slices,
// so that it runs soon after it wakes (Linux 6.12 and later; earlier kernels
// take no notice: kernel/sched/syscalls.c, __setparam_fair), with the lowest
// nice value it may have.
func BePrompt(slice time.Duration) error {
	var err error
	for _, nice := range []int32{-20, 0} {
		a := unix.SchedAttr{Policy: policyOther, Flags: resetOnFork, Nice: nice, Runtime: uint64(slice)}
		if err = unix.SchedSetAttr(0, &a, 0); err == nil {
			return nil
		}
	}
	return errors.Join(errors.New("ask for short slices"), err)
}

// MonotonicNs is CLOCK_MONOTONIC, nanoseconds: one time for all processes of
// this host.
func MonotonicNs() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // the clock is always there
	}
	return ts.Nano()
}

// SleepUntil sleeps until CLOCK_MONOTONIC says so. It does not tell Go's
// scheduler, so the thread wakes without having to find a processor first, and
// keeps the one it has meanwhile.
func SleepUntil(ns int64) {
	ts := unix.NsecToTimespec(ns)
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&ts)), 0, 0,
			0)
		if errno != unix.EINTR {
			break
		}
	}
	runtime.KeepAlive(&ts)
}

// NapUntil is SleepUntil, but a signal ends it early: Go asks a thread by one to
// stop for a collection of garbage. The caller reads the clock and naps again.
// Telling Go's scheduler of the nap would cost 35 µs each time, for handing the
// processor to another thread and getting it back.
func NapUntil(ns int64) {
	ts := unix.NsecToTimespec(ns)
	_, _, _ = syscall.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	runtime.KeepAlive(&ts)
}
