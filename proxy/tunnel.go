package proxy

import (
	"bytes"
	"math"
	"syscall"

	"ceiling/internal/http1"
	"ceiling/internal/http2"
	"ceiling/internal/websocket"
)

// A tunnel forwards bytes as they arrive, each direction by itself: a side that has sent its last
// byte may still receive.

// upgrade makes the connection a tunnel, if that was requested.
func (p *peer) upgrade(r *http1.Response, head, rest []byte) {
	c := p.client
	x := c.x
	if !x.upgrade {
		p.conn.loop.counts.badResponses++
		p.give(502, "the destination switched protocols without being asked")
		return
	}
	if x.bodyState != bodyWhole { // what follows would be a body to one side, and the new protocol to the other
		p.conn.loop.counts.badResponses++
		c.closing = true
		p.give(502, "the destination switched protocols within the request's body")
		return
	}
	st := c.conn.stream
	if st != nil {
		if wrong := websocket.CheckSwitch(head, p.conn.loop.lines.List, st.key); wrong != 0 {
			p.conn.loop.counts.badResponses++
			p.declined("the destination's WebSocket handshake: " + wrong.Error())
			return
		}
		st.code = http2.Cancel // RFC 8441, section 5: the equivalent of a TCP RST
		p.byPieces()
	}
	p.conn.loop.counts.tunnels++
	p.state = peerTunnel
	x.status, x.state = 101, answerPassing
	if st != nil {
		x.status = 200
	}
	p.pool.upstream.worked()
	x.trial = false
	x.uncount() // a tunnel no longer counts as a request
	out := c.conn.buffer()
	if st != nil {
		out.b = appendOpened(x, out.b, head)
	} else {
		out.b = appendSwitch(x, out.b, r, head)
	}
	out.b = append(out.b, rest...)
	p.freeIn()
	p.conn.deadline = 0
	c.state = atTunnel
	x.touch()
	if c.at < c.have() { // the client did not wait
		p.conn.write(c.in.b[c.at:])
	}
	c.keepHead()
	c.conn.gulp()
	if c.eof {
		p.halfClose()
	}
}

// declined answers a client whose request for a WebSocket over HTTP/2 was declined: a 2xx
// response would say that it is open (RFC 8441, section 5). The destination works, so it is not
// ejected for it.
func (p *peer) declined(why string) {
	c := p.client
	p.pool.upstream.worked()
	c.x.trial, c.x.peer = false, nil
	p.abandon()
	c.x.answer(502, why)
}

// byPieces makes the peer receive piece by piece, so that an unread stream holds little: a
// connection has 128 of them.
func (p *peer) byPieces() {
	if p.conn.intake == intakeStream {
		p.conn.pause()
		p.conn.intake = intakePiece // the next receive follows the current event
	}
}

// keepHead drops the received bytes except the head, which the log needs.
func (c *client) keepHead() {
	x := c.x
	head := bytes.Clone(c.in.b[x.headAt:x.headEnd])
	c.conn.loop.parcels.put(c.in)
	c.in, c.at = &buffer{head}, len(head)
	x.headAt, x.headEnd = 0, len(head)
	c.conn.loop.linesOf = nil
	x.lines()
}

// tunnelled handles bytes from the client.
func (p *peer) tunnelled(data []byte) {
	p.client.x.receivedBytes += int64(len(data))
	p.conn.write(data)
	p.up.carried(&p.client.conn, &p.conn, len(data))
}

// halfClose: the client sends nothing more.
func (p *peer) halfClose() {
	p.up.state = directionEnded
	p.conn.notify()
	p.conn.deferDrain()
}

// shut closes a direction whose last byte was sent, and the tunnel after the second one.
func (p *peer) shut(d *direction, to *conn) {
	d.state = directionShut
	if to.stream != nil {
		to.stream.endTunnel()
	} else {
		_ = syscall.Shutdown(int(to.fd), syscall.SHUT_WR) // it fails if the other end is gone, as the next event reports
	}
	if p.up.state == directionShut && p.down.state == directionShut {
		if st := p.client.conn.stream; st != nil {
			st.silent = true // both have announced their end
		}
		p.client.end()
	}
}

// direction is one direction of a tunnel.
type direction struct {
	state directionState
	full  uint8 // full pieces in a row
}

// directionState only advances.
type directionState uint8

const (
	directionOpen  directionState = iota
	directionEnded                // its source has ended; some of its bytes are still unsent
	directionShut
)

// busy counts the consecutive full pieces, and splices the direction once there were enough.
func (d *direction) carried(from, to *conn, n int) {
	if n < fullPiece {
		d.full = 0
		return
	}
	if d.full++; d.full < busyPieces {
		return
	}
	d.full = 0
	if splices(from, to) {
		from.splice(to, math.MaxInt64)
	}
}
