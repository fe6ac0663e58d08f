package ring

import (
	"syscall"
	"time"
)

// TransientAccept tells errors of one connection, or of a moment, after which
// an Accept goes on by itself, from errors of the listener, which end it.
func TransientAccept(e syscall.Errno) bool {
	return e == syscall.ECONNABORTED || e == syscall.EPERM || e == syscall.EPROTO || exhausted(e)
}

// exhausted tells the errors that trying again at once meets again.
func exhausted(e syscall.Errno) bool {
	switch e {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS:
		return true
	}
	return false
}

// restFor is how long a listener is left alone after the process, or the
// machine, has run out of descriptors or memory. Trying again at once would
// find the same and fill a core with it.
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

// over appends to list the listeners that have rested; while some rest it
// shortens the timeout to the end of it.
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
