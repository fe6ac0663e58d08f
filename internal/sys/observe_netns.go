//go:build linux

package sys

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// InNetworkNamespaceOf runs f on a thread that has joined the network
// namespace of a process. Sockets that f opens stay in that namespace when it
// has returned. It takes CAP_SYS_ADMIN unless the namespace is the caller's
// own, in which case f runs without joining anything. The error of f comes
// back as it is.
func InNetworkNamespaceOf(pid int, f func() error) error {
	same, err := sameNetworkNamespace(pid)
	if err != nil {
		return err
	}
	if same {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		// The goroutine ends locked on failure to return, and with it the
		// thread, so that no other goroutine ever runs in the wrong namespace.
		runtime.LockOSThread()
		home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("open own network namespace: %w", err)
			return
		}
		defer unix.Close(home)
		err = joinAndRun(pid, f)
		if back := unix.Setns(home, unix.CLONE_NEWNET); back == nil {
			runtime.UnlockOSThread()
		} else {
			err = errors.Join(err, fmt.Errorf("return from the network namespace of process %d: %w", pid, back))
		}
		done <- err
	}()
	return <-done
}

func joinAndRun(pid int, f func() error) error {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open network namespace of process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("join network namespace of process %d: %w", pid, err)
	}
	return f()
}

func sameNetworkNamespace(pid int) (bool, error) {
	var own, other unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &own); err != nil {
		return false, fmt.Errorf("look at own network namespace: %w", err)
	}
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &other); err != nil {
		return false, fmt.Errorf("look at network namespace of process %d: %w", pid, err)
	}
	return own.Dev == other.Dev && own.Ino == other.Ino, nil
}
