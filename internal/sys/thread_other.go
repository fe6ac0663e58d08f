//go:build !linux

package sys

import "runtime"

// HoldThread locks the calling goroutine to its OS thread until release.
func HoldThread() (release func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// ThreadCPUNs is not measured here: 0.
func ThreadCPUNs() int64 { return 0 }
