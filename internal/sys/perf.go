//go:build linux

package sys

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PerfClock is a perf event that interrupts its CPU at a rate and writes the running thread, with
// its stack, into a ring: the software event cpu-clock, which needs no hardware counters.
type PerfClock struct {
	fd int
	// Ring is the page of the ring's counters, followed by the ring. nil if the samples go into
	// another event's.
	Ring []byte
}

// PerfClockConfig says what to sample.
type PerfClockConfig struct {
	// PID is a thread, -1: whatever runs on the CPU; CPU -1: any.
	PID, CPU int
	// Inherit also samples what that thread starts.
	Inherit bool
	// Hz samples per second of CPU time.
	Hz int
	// Kernel includes samples in the kernel, and the kernel's part of a stack.
	Kernel bool
	// MaxStack bounds the frames of a stack.
	MaxStack int
	// Pages of the ring, a power of two.
	Pages int
	// Into is the event whose ring takes the samples; nil: its own.
	Into *PerfClock
}

// Fields of a sample, in this order (include/uapi/linux/perf_event.h).
const perfSample = unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CALLCHAIN

// OpenPerfClock opens the event, which does not count before Enable. EACCES and EPERM:
// /proc/sys/kernel/perf_event_paranoid or a seccomp filter forbids it.
func OpenPerfClock(c PerfClockConfig) (*PerfClock, error) {
	a := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Sample: uint64(c.Hz), Sample_type: perfSample,
		Bits: unix.PerfBitDisabled | unix.PerfBitFreq | unix.PerfBitExcludeHv | unix.PerfBitExcludeIdle |
			unix.PerfBitTask | unix.PerfBitSampleIDAll,
		// No wakeups: the ring is read by the clock.
		Wakeup: 1 << 31, Sample_max_stack: uint16(c.MaxStack),
	}
	if !c.Kernel {
		a.Bits |= unix.PerfBitExcludeKernel | unix.PerfBitExcludeCallchainKernel
	}
	if c.Inherit {
		a.Bits |= unix.PerfBitInherit
	}
	fd, err := unix.PerfEventOpen(&a, c.PID, c.CPU, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("perf_event_open", err)
	}
	p := &PerfClock{fd: fd}
	if c.Into != nil {
		err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, c.Into.fd)
	} else {
		p.Ring, err = unix.Mmap(fd, 0, (1+c.Pages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map the ring of a perf event: %w", err), unix.Close(fd))
	}
	return p, nil
}

// Enable begins the sampling.
func (p *PerfClock) Enable() error { return unix.IoctlSetInt(p.fd, unix.PERF_EVENT_IOC_ENABLE, 0) }

// Disable ends it; the ring keeps its contents.
func (p *PerfClock) Disable() error { return unix.IoctlSetInt(p.fd, unix.PERF_EVENT_IOC_DISABLE, 0) }

// Close closes the event and its ring.
func (p *PerfClock) Close() error {
	var err error
	if p.Ring != nil {
		err = unix.Munmap(p.Ring)
		p.Ring = nil
	}
	return errors.Join(err, unix.Close(p.fd))
}
