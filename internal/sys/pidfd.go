//go:build linux

package sys

import "golang.org/x/sys/unix"

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
