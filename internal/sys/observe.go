//go:build linux

package sys

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenBelow and LinkBelow take paths as bytes that end in a NUL, so that a sampler that builds the
// same few paths ten times a second can reuse one buffer: the string forms of package syscall
// allocate twice per call.

// errUnterminated is a caller's mistake: the kernel would read past the path.
var errUnterminated = errors.New("path does not end in a NUL byte")

// OpenBelow opens path, which ends in a NUL, relative to the directory dir (unix.AT_FDCWD, -100,
// for the working directory), read-only and close-on-exec. A /proc/PID directory kept open this way
// never refers to a later process with the same PID: it fails with ESRCH or ENOENT.
func OpenBelow(dir int, path []byte) (int, error) {
	if !terminated(path) {
		return -1, errUnterminated
	}
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&path[0])),
			unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return -1, errno
		}
		return int(fd), nil
	}
}

// LinkBelow reads the symbolic link path, which ends in a NUL, relative to the directory dir into
// dst and returns the length. A longer link is truncated.
func LinkBelow(dir int, path, dst []byte) (int, error) {
	if !terminated(path) {
		return 0, errUnterminated
	}
	if len(dst) == 0 {
		return 0, unix.EINVAL
	}
	n, _, errno := unix.Syscall6(unix.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(&path[0])),
		uintptr(unsafe.Pointer(&dst[0])), uintptr(len(dst)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// FileDevice is the device that holds the contents of a file.
type FileDevice struct {
	Major, Minor uint32 // of its file system, or of the file itself if it is a device
	// Holds reports whether a device holds the contents: for a regular file, or a block device.
	Holds bool
}

// DeviceBelow returns the device that holds a file, relative to the directory dir. path ends in a
// NUL. It does not query a file server (AT_STATX_DONT_SYNC): one that hangs would block the caller.
func DeviceBelow(dir int, path []byte) (FileDevice, error) {
	var st unix.Statx_t
	if !terminated(path) {
		return FileDevice{}, errUnterminated
	}
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(&path[0])), unix.AT_STATX_DONT_SYNC,
		unix.STATX_TYPE, uintptr(unsafe.Pointer(&st)), 0)
	if errno != 0 {
		return FileDevice{}, errno
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFBLK {
		return FileDevice{st.Rdev_major, st.Rdev_minor, true}, nil
	}
	return FileDevice{st.Dev_major, st.Dev_minor, kind == unix.S_IFREG}, nil
}

func terminated(path []byte) bool {
	return bytes.IndexByte(path, 0) == len(path)-1 && len(path) > 0
}

// OpenFileCount returns the number of files a process has open, without listing them: the size of
// its directory /proc/PID/fd, which path names relative to dir as in OpenBelow. Linux sets it since
// 6.2 (fs/proc/fd.c, proc_fd_getattr); before, the size is 0, which also means none: on 0 the caller
// must count them.
func OpenFileCount(dir int, path []byte) (int, error) {
	if !terminated(path) {
		return 0, errUnterminated
	}
	var st unix.Statx_t
	if _, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(&path[0])), 0, unix.STATX_SIZE,
		uintptr(unsafe.Pointer(&st)), 0); errno != 0 {
		return 0, errno
	}
	return int(st.Size), nil
}

// CopyFD duplicates a descriptor of another process into this one (Linux 5.6). It requires the
// right to trace that process. The caller must close it soon: while it is open, a connection that
// the process closes stays open.
func CopyFD(pid, fd int) (int, error) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(process)
	return unix.PidfdGetfd(process, fd, 0)
}

// SamplingThreadNs returns the CPU time of the calling thread, in nanoseconds. The caller must lock
// its goroutine to the thread between two readings.
func SamplingThreadNs() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0, err
	}
	return ts.Nano(), nil
}

// ProcessClockNs returns the CPU time of all threads of a process, including those that ended, in
// nanoseconds: the clock of clock_getcpuclockid(3). It works for any process of the PID namespace
// (kernel/time/posix-cpu-timers.c, pid_for_clock). The clock's number is the complement of the PID
// above the three bits of CPUCLOCK_SCHED (2).
func ProcessClockNs(pid int) (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|2, &ts); err != nil {
		return 0, err
	}
	return ts.Nano(), nil
}

// InNetworkNamespaceOf runs f on a thread that has joined a process's network namespace. Sockets
// that f opens stay in that namespace after it returns. It requires CAP_SYS_ADMIN unless the
// namespace is the caller's own, in which case it just runs f. f's error is returned unchanged.
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
		// If returning home fails, the goroutine ends locked, and the thread with it, so that no
		// other goroutine runs in the wrong namespace.
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
