package load

import "ceiling/internal/ring"

// Long bodies. Without conditions the engine does not look at bodies: the head has the length. So if a
// connection's responses are long, it asks the kernel for each head with a single receive, which
// brings the first 16 KiB, and for the rest of the body without a copy (ring.Discard). With 350,000
// bytes that saves a third of the CPU time per request, with 2 MB half; with 48,000 it would save
// nothing (docs/decisions/034-long-bodies.md).

// longBody is the length from which on the rest of a body, after the part that came with its head,
// is discarded, in bytes.
const longBody = 64 << 10

// reads is how a connection is read.
type reads uint8

const (
	asItComes reads = iota // all that arrives, each piece an event
	turning                // the same until the current long body ends, then singly
	singly                 // one piece at a time, so that the next may be discarded
)

// read starts reading a new connection, in the mode that suited the previous ones.
func (w *worker) read(i uint32, c *conn) {
	if w.long {
		c.reads = singly
		w.ring.ReceiveOnce(int(c.fd), c.tag(i))
		return
	}
	w.ring.Receive(int(c.fd), c.tag(i))
}

// meets records that the rest of a body is long, if it is. Discarding is not for TLS, which has to decrypt
// it, for unix sockets, which always copy, or for pipelining, where the next response may follow.
func (w *worker) meets(c *conn) {
	long := c.reads == asItComes && c.reader.Rest() >= longBody
	if long && w.tls == nil && w.pipelining == 1 && !w.shared.To.turn(0).IsUnix() && !w.readsBodies() {
		c.reads, w.long = turning, true
	}
}

// readsBodies reports whether somebody looks at the bodies of responses.
func (w *worker) readsBodies() bool {
	return w.seen.checks != nil || w.feeder != nil && w.feeder.composing.Answers
}

// readOn requests the next piece on a connection in a mode other than asItComes. To turn, it waits
// for the body's end: the server sends nothing between that and the next request, so the kernel has
// no more pieces to deliver.
func (w *worker) readOn(i uint32, c *conn, t ring.Tag) {
	switch rest := c.reader.Rest(); {
	case c.tag(i) != t: // closed by now
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

// discarded handles a discarded part of a body.
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
