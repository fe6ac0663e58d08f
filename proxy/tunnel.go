package proxy

import (
	"bytes"

	"ceiling/internal/http1"
)

// A tunnel passes bytes on as they come, in both directions, each by itself: a
// side that has sent its last byte may still receive.

// upgrade makes the connection a tunnel, if that was asked for.
func (p *peer) upgrade(r *http1.Response, head, rest []byte) {
	c := p.client
	x := c.x
	if !x.upgrade {
		p.loop.counts.badResponses++
		p.give(502, "the destination switches protocols that nobody asked to be switched")
		return
	}
	p.loop.counts.tunnels++
	p.state, p.answered = peerTunnel, true
	x.status, x.answering = 101, true
	p.pool.upstream.worked()
	x.trial = false
	x.uncount() // a tunnel is no request any more
	out := c.buffer()
	out.b = p.loop.appendSwitch(out.b, r, head)
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
	busy(&p.up, &p.client.conn, &p.conn, len(data))
}

// halfClose: the client sends nothing more.
func (p *peer) halfClose() { p.atEase() }

// tunnelOver ends the tunnel when both directions have ended.
func (c *client) tunnelOver() {
	if c.x.shut && c.x.peer.shut {
		c.end()
	}
}
