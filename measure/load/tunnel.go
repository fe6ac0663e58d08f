package load

import (
	"fmt"
	"syscall"

	"ceiling/internal/http1"
	"ceiling/internal/sys"
)

// tunnels are connections through a proxy that wait for the response to their CONNECT.
type tunnels struct {
	lines http1.Lines
	heads map[uint32][]byte // of responses that came in part, by connection
}

// causeProxyClosed is a proxy that closes the connection instead of answering a CONNECT.
const causeProxyClosed = "the proxy closed the connection instead of opening a tunnel"

// ask sends the CONNECT on a connection to the proxy (RFC 9110, section 9.3.6).
func (*tunnels) ask(w *worker, i uint32, c *conn) {
	c.state, c.since = tunnelling, w.clock()
	w.ring.Send(int(c.fd), w.shared.To.Tunnel, c.tag(i))
	w.tally.Written += uint64(len(w.shared.To.Tunnel))
}

// received handles the proxy's response to a CONNECT.
func (t *tunnels) received(w *worker, i uint32, c *conn, b []byte) {
	tag := c.tag(i)
	if t.heads == nil {
		t.heads = map[uint32][]byte{}
	}
	head := append(t.heads[i], b...)
	delete(t.heads, i)
	r, n, err := t.lines.ParseResponse(head, false)
	switch {
	case err == nil && n == 0 && len(head) > answerMost:
		err = http1.ErrHeaderTooLarge
	case err == nil && n == 0:
		t.heads[i] = head
		return
	}
	switch {
	case err != nil:
		w.abandon(i, c, PhaseConnect, "the proxy: "+err.Error())
	case r.Status < 200 || r.Status > 299:
		w.seen.readPage(pageOf{tag: c.tag(i)}, r.Status, head, true)
		w.abandon(i, c, PhaseConnect, fmt.Sprintf("the proxy answered CONNECT with %d", r.Status))
	default:
		w.reached(i, c)
		if rest := head[n:]; len(rest) > 0 && c.tag(i) == tag {
			w.arrived(i, c, tag, rest) // a server of HTTP/2 may speak first
		}
	}
}

// over handles a connection that ended during its CONNECT.
func (*tunnels) over(w *worker, i uint32, c *conn, no syscall.Errno) {
	cause := causeProxyClosed
	if no != 0 && no != syscall.EPIPE {
		cause = sys.ErrnoName(no)
	}
	w.abandon(i, c, PhaseConnect, cause)
}
