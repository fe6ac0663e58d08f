package ring

import (
	"net"
	"sync"
	"time"
)

// sendQueue are the bytes that a connection has to write, and its end.
type sendQueue struct {
	mu      sync.Mutex
	conn    net.Conn
	b       []byte
	at      int   // b[:at] is written
	notify  []int // ends in b of the sends that are to be reported
	writing bool
	closed  bool
}

// connect reports whether the connection, which may have failed, is still wanted.
func (q *sendQueue) connect(conn net.Conn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed && conn != nil {
		_ = conn.Close() // nothing was sent
	}
	q.conn = conn
	return !q.closed
}

// add reports whether a write must be started.
func (q *sendQueue) add(list []outgoing) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range list {
		q.b = append(q.b, o.b...)
		if o.notify {
			q.notify = append(q.notify, len(q.b))
		}
	}
	start = !q.writing
	q.writing = true
	return start
}

func (q *sendQueue) bytes() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.b) - q.at
}

func (q *sendQueue) isWriting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.writing
}

// next returns what to write next; it stays valid until wrote.
func (q *sendQueue) next() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.b[q.at:min(len(q.b), q.at+4*bufferBytes)]
}

// wrote notes the end of a write, and returns how many sends it completed and whether there is more.
func (q *sendQueue) wrote(n int, err error) (notify int, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.at += n
	if err != nil { // those queued after it are not sent at all
		q.at, q.notify = len(q.b), q.notify[:0]
	}
	for notify < len(q.notify) && q.notify[notify] <= q.at {
		notify++
	}
	q.notify = append(q.notify[:0], q.notify[notify:]...)
	if more = q.at < len(q.b); more {
		return notify, true
	}
	q.b, q.at, q.writing = q.b[:0], 0, false
	if cap(q.b) > 4*bufferBytes {
		q.b = nil
	}
	if q.closed {
		_ = q.conn.Close() // the peer has what could be sent
	}
	return notify, false
}

// close closes the connection, after what is being written.
func (q *sendQueue) close(deadline time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	switch {
	case q.conn == nil:
	case q.writing:
		if err := q.conn.SetWriteDeadline(deadline); err != nil {
			_ = q.conn.Close() // it is not open any more
		}
	default:
		_ = q.conn.Close() // nothing is left to be sent
	}
}
