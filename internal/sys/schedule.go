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

// Scheduling policies used here (sched(7)).
const (
	policyOther = 0 // SCHED_OTHER
	policyFIFO  = 1 // SCHED_FIFO
	// resetOnFork keeps threads that this one starts from inheriting the policy.
	resetOnFork = 0x01 // SCHED_FLAG_RESET_ON_FORK
)

// SetFIFO gives the calling thread the real-time policy SCHED_FIFO: it runs as soon as it is
// runnable, before every ordinary thread, until it sleeps. It requires root or CAP_SYS_NICE, and
// real-time bandwidth in the CPU cgroup. The caller must lock its goroutine to the thread.
func SetFIFO(priority int) error {
	a := unix.SchedAttr{Policy: policyFIFO, Flags: resetOnFork, Priority: uint32(priority)}
	if err := unix.SchedSetAttr(0, &a, 0); err != nil {
		return errors.Join(errors.New("ask for the policy SCHED_FIFO"), err)
	}
	return nil
}

// SetNormal gives the calling thread its original policy.
func SetNormal() error {
	a := unix.SchedAttr{Policy: policyOther}
	if err := unix.SchedSetAttr(0, &a, 0); err != nil {
		return errors.Join(errors.New("ask for the policy SCHED_OTHER"), err)
	}
	return nil
}

// SetLowLatency makes the calling thread an ordinary one with short slices and with the lowest nice
// value it may have.
func SetLowLatency(slice time.Duration) error {
	if setSlice(slice, -20) == nil {
		return nil
	}
	return SetShortSlice(slice)
}

// SetShortSlice makes the calling thread an ordinary one with short slices, so that it runs soon after
// it wakes (Linux 6.12 and later; earlier kernels ignore it: kernel/sched/syscalls.c,
// __setparam_fair), but no longer than others.
func SetShortSlice(slice time.Duration) error {
	if err := setSlice(slice, 0); err != nil {
		return errors.Join(errors.New("ask for short slices"), err)
	}
	return nil
}

func setSlice(slice time.Duration, nice int32) error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{Policy: policyOther, Flags: resetOnFork, Nice: nice, Runtime: uint64(slice)}, 0)
}

// MonotonicNs returns CLOCK_MONOTONIC, in nanoseconds: the same for all processes of this host.
func MonotonicNs() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // the clock always exists
	}
	return ts.Nano()
}

// SleepUntil sleeps until a time of CLOCK_MONOTONIC. It does not notify Go's scheduler, so the
// thread keeps its P and does not have to find one when it wakes.
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

// NapUntil is SleepUntil, but a signal ends it early: Go uses one to stop a thread for a garbage
// collection. The caller reads the clock and naps again. Notifying Go's scheduler of the nap would
// cost 35 µs each time, to hand the P to another thread and get it back.
func NapUntil(ns int64) {
	ts := unix.NsecToTimespec(ns)
	_, _, _ = syscall.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	runtime.KeepAlive(&ts)
}
