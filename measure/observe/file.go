//go:build linux

package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"ceiling/internal/sys"
)

// Limits of what is read from one kernel file. The largest in use is /proc/interrupts: 2,000 lines
// of 1,024 CPUs are 22 MB.
const (
	firstBufferBytes = 64 << 10
	maxFileBytes     = 32 << 20
)

var errFileTooLong = errors.New("longer than 32 MiB")

// atCWD is AT_FDCWD of openat(2): absolute paths and those of the working directory.
const atCWD = -100

// A reader holds the one buffer that all samplers read into. Its results are valid until the next
// read.
type reader struct {
	buf []byte
}

// whole reads a file from beginning to end. A read at offset 0 regenerates a procfs file; those
// with many records arrive about a page at a time, and only a read of 0 bytes is their end.
func (r *reader) whole(fd int) ([]byte, error) {
	n := 0
	for {
		m, err := r.more(fd, n)
		if err != nil {
			return nil, err
		}
		if m == 0 {
			return r.buf[:n], nil
		}
		n += m
	}
}

// single reads a file whose text the kernel makes in one piece (single_open in fs/proc): a read
// that leaves room in the buffer has had all of it, which saves the second call.
func (r *reader) single(fd int) ([]byte, error) {
	n := 0
	for {
		m, err := r.more(fd, n)
		if err != nil {
			return nil, err
		}
		n += m
		if m == 0 || n < len(r.buf) {
			return r.buf[:n], nil
		}
	}
}

// more reads once at offset n, appending to the buffer.
func (r *reader) more(fd, n int) (int, error) {
	if n == len(r.buf) {
		if n >= maxFileBytes {
			return 0, errFileTooLong
		}
		grown := make([]byte, max(firstBufferBytes, 2*n))
		copy(grown, r.buf)
		r.buf = grown
	}
	for {
		m, err := syscall.Pread(fd, r.buf[n:], int64(n))
		if err == syscall.EINTR {
			continue
		}
		return max(m, 0), err
	}
}

// below opens, reads and closes a file relative to a directory. The path must end in a NUL.
func (r *reader) below(dir int, path []byte) ([]byte, error) {
	fd, err := sys.OpenBelow(dir, path)
	if err != nil {
		return nil, err
	}
	text, err := r.whole(fd)
	syscall.Close(fd)
	return text, err
}

// openFile opens a file to read repeatedly.
func openFile(path string) (int, error) {
	fd, err := sys.OpenBelow(atCWD, append([]byte(path), 0))
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return fd, nil
}

// closeFile closes an open file; -1: none.
func closeFile(fd *int) {
	if *fd >= 0 {
		syscall.Close(*fd)
		*fd = -1
	}
}

// A path is a NUL-terminated path built in one buffer.
type path struct {
	b []byte
}

// of starts a path: of("task/").number(17).text("/stat").end() is
// "task/17/stat" and a NUL.
func (p *path) of(s string) *path {
	p.b = append(p.b[:0], s...)
	return p
}

func (p *path) text(s string) *path {
	p.b = append(p.b, s...)
	return p
}

func (p *path) number(n int) *path {
	p.b = strconv.AppendInt(p.b, int64(n), 10)
	return p
}

func (p *path) end() []byte {
	p.b = append(p.b, 0)
	return p.b
}

// hasPrefix is bytes.HasPrefix for a string.
func hasPrefix(p []byte, prefix string) bool {
	return len(p) >= len(prefix) && string(p[:len(prefix)]) == prefix
}

// A lister lists the numeric names in a procfs directory (/proc, /proc/PID/task, /proc/PID/fd)
// without allocating.
type lister struct {
	buf []byte
}

// listBufferBytes holds about a thousand entries of /proc per call.
const listBufferBytes = 32 << 10

var errDirent = errors.New("getdents64: a record is longer than its buffer or shorter than its head")

// numbers appends the numeric names in directory fd to out[:0], in the directory's order, which
// procfs keeps ascending.
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

// parseDirents appends the numeric names in one result of getdents64(2).
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
