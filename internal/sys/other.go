//go:build !linux

package sys

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// errLinux is what the other systems say to what only Linux can do.
var errLinux = fmt.Errorf("needs Linux, and this is %s", runtime.GOOS) // read-only

// ThreadCPUNs is not measured here: 0.
func ThreadCPUNs() int64 { return 0 }

// ThreadID returns the process's ID.
func ThreadID() int { return os.Getpid() }

// SharpTimers does nothing: timers have no slack that could be taken from them.
func SharpTimers() error { return nil }

// RunDelay is not measured here.
type RunDelay struct{}

// OpenRunDelay fails.
func OpenRunDelay() (*RunDelay, error) { return nil, errLinux }

// Ns fails.
func (*RunDelay) Ns() (int64, error) { return 0, errLinux }

// Close does nothing.
func (*RunDelay) Close() error { return nil }

// AllowedCPUs lists the CPUs of this host, for any thread.
func AllowedCPUs(int) ([]int, error) {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus, nil
}

// Pin fails.
func Pin(_ int, cpus []int) error { return fmt.Errorf("pin to CPUs %v: %w", cpus, errLinux) }

// Threads fails.
func Threads(int) ([]int, error) { return nil, errLinux }

// began is when MonotonicNs was 0.
var began = time.Now() // read-only

// MonotonicNs returns a time that only this process has, in nanoseconds.
func MonotonicNs() int64 { return int64(time.Since(began)) }

// SleepUntil sleeps until a time of MonotonicNs.
func SleepUntil(ns int64) { time.Sleep(time.Duration(ns - MonotonicNs())) }

// NapUntil is SleepUntil.
func NapUntil(ns int64) { SleepUntil(ns) }

// SamplingThreadNs fails.
func SamplingThreadNs() (int64, error) { return 0, errLinux }

// ProcessClockNs fails.
func ProcessClockNs(int) (int64, error) { return 0, errLinux }

// InNetworkNamespaceOf fails.
func InNetworkNamespaceOf(int, func() error) error { return errLinux }

// InNetworkNamespaceAt fails.
func InNetworkNamespaceAt(string, func() error) error { return errLinux }
