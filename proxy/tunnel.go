package proxy

import (
	"bytes"
	"math"
	"syscall"

	"ceiling/internal/http1"
	"ceiling/internal/http2"
	"ceiling/internal/websocket"
)

// A tunnel passes bytes on as they come, in both directions, each by itself: a
// side that has sent its last byte may still receive.

// upgrade makes the connection a tunnel, if that was asked for.
func (p *peer) upgrade(r *http1.Response, head, rest []byte) {
	c := p.client
	x := c.x
	if !x.upgrade {
		p.loop.counts.badResponses++
		p.give(502, "the destination switched protocols without being asked")
		return
	}
	st := c.stream
	if st != nil {
		if wrong := websocket.CheckSwitch(head, p.loop.lines.List, st.key); wrong != 0 {
			p.loop.counts.badResponses++
			p.declined("the destination's WebSocket handshake: " + wrong.Error())
			return
		}
		st.code = http2.Cancel // RFC 8441, section 5: what a RST is in TCP
		p.byPieces()
	}
	p.loop.counts.tunnels++
	p.state = peerTunnel
	x.status, x.state = 101, answerPassing
	if st != nil {
		x.status = 200
	}
	p.pool.upstream.worked()
	x.trial = false
	x.uncount() // a tunnel is no request any more
	out := c.buffer()
	if st != nil {
		out.b = p.loop.appendOpened(out.b, head)
	} else {
		out.b = p.loop.appendSwitch(out.b, r, head)
	}
	out.b = append(out.b, rest...)
	p.freeIn()
	p.deadline = 0
	c.state = atTunnel
	x.touch()
	if c.at < c.have() { // the client did not wait
		p.write(c.in.b[c.at:])
	}
	c.keepHead()
	c.resume()
	if c.eof {
		p.halfClose()
	}
}

// declined answers a client that asked for a WebSocket over HTTP/2 and gets none: an answer
// of 2xx would say that it has one (RFC 8441, section 5). The destination has done what it is
// for, and is not left out for it.
func (p *peer) declined(why string) {
	c := p.client
	p.pool.upstream.worked()
	c.x.trial, c.x.peer = false, nil
	p.abandon()
	c.x.answer(502, why)
}

// byPieces has the peer received from piece by piece, so that a stream which is not read
// holds little: a connection has 128 of them.
func (p *peer) byPieces() {
	if p.intake == intakeStream {
		p.pause()
		p.intake = intakePiece // the event that is being handled is followed by the next receive
	}
}

// keepHead keeps nothing of what was received but the head, for the log.
func (c *client) keepHead() {
	x := c.x
	head := bytes.Clone(c.in.b[x.headAt:x.headEnd])
	c.loop.parcels.put(c.in)
	c.in, c.at = &parcel{head}, len(head)
	x.headAt, x.headEnd = 0, len(head)
	c.loop.linesOf = nil
	x.lines()
}

// tunnelled takes bytes of the client.
func (p *peer) tunnelled(data []byte) {
	p.client.x.receivedBytes += int64(len(data))
	p.write(data)
	p.up.busy(&p.client.conn, &p.conn, len(data))
}

// halfClose: the client sends nothing more.
func (p *peer) halfClose() {
	p.up.state = directionEnded
	p.atEase()
}

// shut closes a direction whose last byte is out, and the tunnel after the second.
func (p *peer) shut(d *direction, to *conn) {
	d.state = directionShut
	if to.stream != nil {
		to.stream.endTunnel()
	} else {
		_ = syscall.Shutdown(int(to.fd), syscall.SHUT_WR) // it fails when the other end is gone, which the next event tells
	}
	if p.up.state == directionShut && p.down.state == directionShut {
		if st := p.client.stream; st != nil {
			st.silent = true // both have said their end
		}
		p.client.end()
	}
}

// direction is one of a tunnel's.
type direction struct {
	state directionState
	full  uint8 // full pieces in a row
}

// directionState goes from each to the next.
type directionState uint8

const (
	directionOpen  directionState = iota
	directionEnded                // its source sends nothing more; what it sent is not all out
	directionShut
)

// busy counts the full pieces in a row, and splices the direction when
// there were enough.
func (d *direction) busy(from, to *conn, n int) {
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
