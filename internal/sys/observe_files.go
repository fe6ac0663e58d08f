//go:build linux

package sys

import (
	"bytes"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The functions of this file take paths as bytes that end in a NUL, because a
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
