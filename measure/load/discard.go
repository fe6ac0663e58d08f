package load

import "ceiling/internal/ring"

// Long bodies. What an answer's body says nobody here wants to know: the head has
// its length. So where the answers of a connection are long, the kernel is asked for
// each head with a single receive, which brings the first 16 KiB, and for the rest
// of the body without a copy (ring.Discard). With 350,000 bytes that takes a third
// of the CPU time per request away, with 2 MB half; with 48,000 it would save nothing
// (docs/decisions/034-long-bodies.md).

// longBody is the rest of a body behind what came with its head from which on it
// is discarded, in bytes.
const longBody = 64 << 10

// reads is how a connection is read.
type reads uint8

const (
	asItComes reads = iota // all that comes, each piece an event
	turning                // likewise until the long body at hand ends, then singly
	singly                 // a piece at a time, so that the next may be discarded
)

// read begins to read a new connection, as it was best with the ones before.
func (w *worker) read(i uint32, c *conn) {
	if w.long {
		c.reads = singly
		w.ring.ReceiveOnce(int(c.fd), c.tag(i))
		return
	}
	w.ring.Receive(int(c.fd), c.tag(i))
}

// meets notes that the rest of a body is long. Over TLS it has to be opened, a unix
// socket copies it always, and behind a pipelined answer may be the next.
func (w *worker) meets(c *conn) {
	if w.tls == nil && w.pipelining == 1 && !w.Address.IsUnix() {
		c.reads, w.long = turning, true
	}
}

// readOn asks for what comes next on a connection that is not read as it comes,
// after a piece. To turn, it waits for the body's end: the server sends nothing
// between that and the next request, so that the kernel has no more pieces to give.
func (w *worker) readOn(i uint32, c *conn, t ring.Tag) {
	switch rest := c.reader.Rest(); {
	case c.tag(i) != t: // closed since
	case c.reads == turning:
		if c.reader.Idle() {
			c.reads = singly
			w.ring.Pause(t)
			w.ring.ReceiveOnce(int(c.fd), t)
		}
	case rest >= longBody:
		w.ring.Discard(int(c.fd), int(rest), t)
	default:
		w.ring.ReceiveOnce(int(c.fd), t)
	}
}

// discarded takes a part of a body that nobody has read.
func (w *worker) discarded(i uint32, c *conn, ev *ring.Event) {
	if ev.N == 0 {
		w.over(i, c, ev.Err)
		return
	}
	w.tally.Read += uint64(ev.N)
	if c.reader.Pass(int64(ev.N)) {
		last := w.whole(i, c)
		w.renew(i, c, 1)
		if last {
			return
		}
		w.transmit(i, c)
	}
	w.readOn(i, c, ev.Tag)
}
