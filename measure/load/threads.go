package load

import (
	"errors"
	"os"
	"strings"

	"ceiling/internal/ring"
	"ceiling/internal/sys"
)

// onThreads reports whether each worker is an OS thread. Those of the portable engine are
// goroutines among many, which have no threads of their own to pin or to time.
func onThreads(c *Config) bool { return !ring.IsPortable(c.Engine) }

// hold keeps the calling worker on its thread, if it has one, until release.
func hold(c *Config) (release func()) {
	if onThreads(c) {
		return sys.HoldThread()
	}
	return func() {}
}

// threadID returns the kernel's ID of the calling worker's thread; without one that of the process.
func threadID(c *Config) int {
	if onThreads(c) {
		return sys.ThreadID()
	}
	return os.Getpid()
}

// cpuUsed returns the CPU time of the worker's thread; without one an equal part of the process's,
// since its threads serve all workers, in nanoseconds.
func cpuUsed(c *Config) int64 {
	if onThreads(c) {
		return sys.ThreadCPUNs()
	}
	user, system := sys.ProcessCPUNs()
	return (user + system) / int64(c.Threads)
}

// threadCPU returns the CPU time of the worker's thread; 0: it has none, and may be on another one
// at the next reading.
func threadCPU(c *Config) int64 {
	if onThreads(c) {
		return sys.ThreadCPUNs()
	}
	return 0
}

// busyFor returns which share of a time the CPU time is. A part of the process's may be more than the
// time: a worker without a thread is then busy.
func busyFor(c *Config, cpuNs, ns int64) float64 {
	busy := float64(cpuNs) / float64(ns)
	if !onThreads(c) {
		busy = min(busy, 1)
	}
	return busy
}

// pinProcess pins all threads of this process, present and future, to the CPUs.
func pinProcess(cpus []int) (undo func() error, err error) {
	before, err := sys.AllowedCPUs(0)
	if err != nil {
		return func() error { return nil }, err
	}
	set := func(cpus []int) error {
		threads, err := sys.Threads(os.Getpid())
		for _, id := range threads {
			if pinned := sys.Pin(id, cpus); pinned != nil && !strings.Contains(pinned.Error(), "no such process") {
				err = errors.Join(err, pinned)
			}
		}
		return err
	}
	return func() error { return set(before) }, set(cpus)
}
