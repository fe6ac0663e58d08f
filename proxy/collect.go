package proxy

import "slices"

// A destination that cannot take chunks is asked once the whole body is here: the request is then as
// if the client had sent its length.

// collectedMost bounds such a body where the location has no bound: it stays in memory.
const collectedMost = 1 << 20

// collect takes what has come of a chunked body, and goes on with the request when that is all.
func collect(x *exchange) {
	c, a := x.client, additionsOf(&x.inbound)
	if !a.collecting {
		a.collecting = true
		if x.request.ExpectContinue && x.request.Minor > 0 {
			c.conn.write(goAhead)
		}
	}
	c.conn.expire(c.conn.loop.site.timeouts.idle)
	most := x.location.bodyBytes
	if most == 0 {
		most = collectedMost
	}
	for {
		part, n, done, err := x.body.Next(c.in.b[c.at:])
		c.at += n
		a.body = append(a.body, part...)
		switch {
		case err != nil:
			c.conn.loop.counts.badRequests++
			x.answer(400, err.Error())
			return
		case int64(len(a.body)) > most:
			x.answer(413, "the body is larger than allowed")
			return
		case done:
			collected(x, a)
			return
		}
		if n == 0 {
			break
		}
	}
	if c.at > x.headEnd { // what was taken has no use
		c.in.b = slices.Delete(c.in.b, x.headEnd, c.at)
		c.at = x.headEnd
	}
	c.conn.resume()
}

var goAhead = []byte("HTTP/1.1 100 Continue\r\n\r\n") // read-only

// collected puts the body behind the head, and chooses a destination again.
func collected(x *exchange, a *additions) {
	c := x.client
	c.in.b = slices.Concat(c.in.b[:x.headEnd], a.body, c.in.b[c.at:])
	c.at = x.headEnd
	x.request.SetLength(int64(len(a.body)))
	a.collecting, a.body = false, nil
	x.unread()
	limitTotal(x)
	x.dispatch(nil)
}
