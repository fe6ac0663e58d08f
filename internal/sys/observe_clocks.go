//go:build linux

package sys

import "golang.org/x/sys/unix"

// SamplingThreadNs is the CPU time of the calling thread, nanoseconds. The
// caller holds its goroutine to the thread between two readings.
func SamplingThreadNs() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0, err
	}
	return ts.Nano(), nil
}

// ProcessClockNs is the CPU time of all threads of a process, those that ended
// included, in nanoseconds: the clock that clock_getcpuclockid(3) names. Any
// process of the PID namespace may be asked (kernel/time/posix-cpu-timers.c,
// pid_for_clock). The clock's number is the complement of the PID over the
// three bits of CPUCLOCK_SCHED (2).
func ProcessClockNs(pid int) (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|2, &ts); err != nil {
		return 0, err
	}
	return ts.Nano(), nil
}
