//go:build linux

package ring

import (
	"syscall"
	"time"
)

// TransientAccept reports whether an error affects one connection, or only the moment, so that an
// Accept continues by itself. Other errors are the listener's and end it.
func TransientAccept(e syscall.Errno) bool {
	return e == syscall.ECONNABORTED || e == syscall.EPERM || e == syscall.EPROTO || exhausted(e)
}

// exhausted reports whether an immediate retry would fail again.
func exhausted(e syscall.Errno) bool {
	switch e {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS:
		return true
	}
	return false
}

// restFor is how long a listener pauses after the process, or the machine, has run out of
// descriptors or memory. Retrying at once would fail again and saturate a core.
const restFor = 10 * time.Millisecond

// rest holds listeners until restFor is over.
type rest struct {
	tags  []Tag
	until time.Time
}

func (r *rest) add(t Tag) {
	r.tags = append(r.tags, t)
	r.until = time.Now().Add(restFor)
}

// over appends to list the listeners whose pause is over; while others pause it shortens the
// timeout to the earliest end.
func (r *rest) over(list []Tag, timeout time.Duration) ([]Tag, time.Duration) {
	if len(r.tags) == 0 {
		return list, timeout
	}
	left := time.Until(r.until)
	if left > 0 {
		return list, min(timeout, left)
	}
	list = append(list, r.tags...)
	r.tags = r.tags[:0]
	return list, timeout
}
