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

// OpenBelow and LinkBelow take paths as bytes that end in a NUL, because a
// sampler that builds the same few paths ten times a second can then keep them
// in one buffer: the string forms of package syscall allocate twice per call.

// errUnterminated is a caller's mistake: the kernel would read past the path.
var errUnterminated = errors.New("path does not end in a NUL byte")

// OpenBelow opens path, which ends in a NUL, relative to the directory dir
// (unix.AT_FDCWD, -100, for the working directory), read-only and closed on
// exec. A directory of /proc/PID that is kept open this way never answers for
// a later process of the same number: it fails with ESRCH or ENOENT.
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

// LinkBelow reads the symbolic link path, which ends in a NUL, relative to the
// directory dir into dst and returns the length. A longer link is cut.
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

// FileDevice is where the contents of a file are.
type FileDevice struct {
	Major, Minor uint32 // of its file system, or the device that it is itself
	// Holds tells a file whose contents are on a device: a regular one, or a block device.
	Holds bool
}

// DeviceBelow tells where the contents of a file are, relative to the directory dir. path
// ends in a NUL. A server of files is not asked (AT_STATX_DONT_SYNC): one that hangs
// would hold up who asks.
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

// OpenFileCount is the number of files a process has open, asked from its
// directory /proc/PID/fd without listing it. Since Linux 6.2 the directory's
// size is that number (fs/proc/fd.c, proc_fd_getattr); before, the size is 0,
// which no caller that holds a file open can tell from "none": 0 means that it
// has to be counted.
func OpenFileCount(fdDirectory int) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fdDirectory, &st); err != nil {
		return 0, err
	}
	return int(st.Size), nil
}

// CopyFD answers a descriptor of its own for one of another process (Linux 5.6).
// It takes the right to trace that process. The caller closes it soon: as long as
// it is there, a connection that the process closes is not closed.
func CopyFD(pid, fd int) (int, error) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(process)
	return unix.PidfdGetfd(process, fd, 0)
}

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
