package sys

import "runtime"

// HoldThread locks the calling goroutine to its OS thread until release.
func HoldThread() (release func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
