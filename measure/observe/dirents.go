package observe

import (
	"encoding/binary"
	"errors"
	"syscall"

	"ceiling/internal/sys"
)

// A lister lists the numbers that are names in a directory of procfs (/proc,
// /proc/PID/task, /proc/PID/fd) without allocating.
type lister struct {
	buf []byte
}

// listBufferBytes holds about a thousand entries of /proc per call.
const listBufferBytes = 32 << 10

var errDirent = errors.New("getdents64: a record is longer than its buffer or shorter than its head")

// numbers appends the names of the directory fd that are numbers to out[:0],
// in the directory's order, which procfs keeps ascending.
func (l *lister) numbers(fd int, out []int) ([]int, error) {
	out = out[:0]
	if l.buf == nil {
		l.buf = make([]byte, listBufferBytes)
	}
	if _, err := syscall.Seek(fd, 0, 0); err != nil {
		return out, err
	}
	for {
		n, err := syscall.ReadDirent(fd, l.buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return out, err
		}
		if n <= 0 {
			return out, nil
		}
		if out, err = parseDirents(l.buf[:n], out); err != nil {
			return out, err
		}
	}
}

// struct linux_dirent64: inode and offset of 8 bytes each, the record's length
// of 2, a type of 1, then the name and a NUL.
const (
	direntLength = 16
	direntName   = 19
)

// parseDirents appends the names in one answer of getdents64(2) that are
// numbers.
func parseDirents(p []byte, out []int) ([]int, error) {
	for len(p) > 0 {
		if len(p) < direntName {
			return out, errDirent
		}
		size := int(binary.NativeEndian.Uint16(p[direntLength:]))
		if size < direntName || size > len(p) {
			return out, errDirent
		}
		name := p[direntName:size]
		v, n := sys.LeadingDecimal(name)
		if n > 0 && (n == len(name) || name[n] == 0) && v < 1<<31 {
			out = append(out, int(v))
		}
		p = p[size:]
	}
	return out, nil
}
