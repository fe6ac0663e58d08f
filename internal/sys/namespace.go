package sys

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// InNetworkNamespaceAt runs f on a thread of its own that has joined the network
// namespace which a file names (/run/netns/NAME, /proc/PID/ns/net), and that has a
// mount of sysfs which shows it: /sys shows the namespace it was mounted in. Of
// /proc, the calling thread's own files show it: /proc/sys/net and
// /proc/thread-self/net. The thread ends with f. It takes CAP_SYS_ADMIN. The error of
// f comes back as it is.
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
	// Without this the mount below would be everybody's.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("setns", err)
	}
	return os.NewSyscallError("mount", unix.Mount("sysfs", "/sys", "sysfs", 0, ""))
}
