//go:build linux

package sys

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// InNetworkNamespaceAt runs f on its own thread, which has joined the network namespace of a file
// (/run/netns/NAME, /proc/PID/ns/net) and has a sysfs mount of it: /sys shows the namespace it was
// mounted in. In /proc only the calling thread's own files show it: /proc/sys/net and
// /proc/thread-self/net. The thread ends with f. It requires CAP_SYS_ADMIN. f's error is returned
// unchanged.
func InNetworkNamespaceAt(path string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never released: the thread ends with the goroutine
		if err := enter(path); err != nil {
			done <- fmt.Errorf("join network namespace %s: %w", path, err)
			return
		}
		done <- f()
	}()
	return <-done
}

func enter(path string) error {
	there, err := os.Open(path)
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	// Without this the mount below would affect every process.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("setns", err)
	}
	return os.NewSyscallError("mount", unix.Mount("sysfs", "/sys", "sysfs", 0, ""))
}
