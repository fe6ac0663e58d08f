package proxy

import (
	"bytes"
	"crypto/rand"
	"fmt"

	"ceiling/proxy/files"
)

// serveFile responds with a file.
func (x *exchange) serveFile(s *files.Site, clean []byte) {
	c, l, q := x.client, x.client.conn.loop, &x.request
	if m := string(q.Method); m != "GET" && m != "HEAD" || c.conn.isWebSocket() {
		x.answer(405, "files can only be read")
		return
	}
	w := files.WantsOf(c.in.b[x.headAt:x.headEnd], x.lines())
	if x.destination.response.edits("content-encoding") { // a sibling's could not be said
		w.Accepts = nil
	}
	f, one := l.files.LookUp(s, x.destination.edited(clean), &w, l.now)
	if f.Directory {
		x.toDirectory()
		return
	}
	switch {
	case one == nil && x.location.tryFiles && x.tried&1 == 0:
		x.tried |= 1
		x.destination = nil
		x.dispatch(clean)
		return
	case one == nil:
		x.answer(404, "no such file")
		return
	}
	l.counts.filesServed++
	if x.bodyState != bodyWhole {
		c.closing = true
	}
	x.state = answerOwn
	status, from, to := w.Decide(one)
	if w.Several != nil && x.destination.response.edits("content-type") { // the parts' heads need their own type
		w.Several, status, from, to = nil, 200, 0, int64(len(one.Data))
	}
	if one.Packs && status == 200 && !w.HasRange() && x.sendPacked(s, one, w.Accepts) {
		return
	}
	if status == 200 && !c.closing && !l.stopping && q.Minor == 1 && len(q.Method) == 3 && !one.Mapped && !one.Packs && !c.secure() &&
		x.added == nil {
		x.status, x.sentBytes = 200, int64(len(one.Data))
		c.conn.write(freshPage(one, l, editsOf(x, contentHead)))
		c.finish()
		return
	}
	if w.Several != nil {
		x.sendRanges(one, w.Several)
		return
	}
	x.sendFile(one, status, from, to)
}

// freshPage returns the complete response of a small file with this second's date.
func freshPage(f *files.File, l *loop, e edits) []byte {
	if f.PageSecond != l.second || f.Page == nil {
		b := appendStatus(f.Page[:0], 200)
		at := len(b)
		b = append(b, f.Lines...)
		b = fmt.Appendf(b, "Content-Length: %d\r\n", len(f.Data))
		b = e.apply(l.appendDate(b), at)
		b = append(b, "\r\n"...)
		f.Page, f.PageSecond = append(b, f.Data...), l.second
	}
	return f.Page
}

// sendFile sends the head and bytes of a file.
func (x *exchange) sendFile(f *files.File, status int, from, to int64) {
	c, l := x.client, x.client.conn.loop
	x.status = uint16(status)
	out := c.conn.buffer()
	b := appendStatus(out.b, status)
	at := len(b)
	switch {
	case status == 304 && f.Packs && x.knowsPacked([]byte(f.ETag)):
		b = appendPackedLines(b, f)
	case status != 412:
		if b = append(b, f.Lines...); f.Packs && !f.Negotiated {
			b = append(b, "Vary: Accept-Encoding\r\n"...)
		}
	}
	switch status {
	case 206:
		b = fmt.Appendf(b, "Content-Range: bytes %d-%d/%d\r\n", from, to-1, len(f.Data))
	case 416:
		b = fmt.Appendf(b, "Content-Range: bytes */%d\r\n", len(f.Data))
	}
	if status != 304 {
		b = fmt.Appendf(b, "Content-Length: %d\r\n", to-from)
	}
	out.b = endHead(x, l.appendDate(b), at, contentHead)
	if len(x.request.Method) == 4 || to == from {
		c.finish()
		return
	}
	x.sentBytes = to - from
	if !f.Mapped {
		c.conn.write(f.Data[from:to])
		c.finish()
		return
	}
	x.file = lent{f, int(to - from)}
	f.Hold()
	if c.conn.lend(f.Data[from:to]); c.conn.fd < 0 {
		return
	}
	c.conn.deferDrain()
	c.conn.expire(l.site.timeouts.idle)
}

// fileTimeout ends a file's exchange if nothing of it was sent since the last time.
func (x *exchange) fileTimeout() {
	c := x.client
	left := c.conn.unsent()
	if left >= x.file.left {
		c.conn.loop.counts.clientTimeouts++
		c.fail("the client does not read")
		return
	}
	x.file.left = left
	c.conn.expire(c.conn.loop.site.timeouts.idle)
}

// toDirectory redirects to the path with a slash, which an index's relative links need.
func (x *exchange) toDirectory() {
	path, query, asked := bytes.Cut(x.request.Target, []byte{'?'})
	for len(path) > 1 && path[1] == '/' { // "//host/" would lead elsewhere
		path = path[1:]
	}
	to := append(append([]byte("Location: "), path...), '/')
	if asked {
		to = append(append(to, '?'), query...)
	}
	reply(x, 301, redirectHead, append(to, "\r\n"...), nil)
}

// boundary between the parts: 128 random bits, which no file contains by chance.
var boundary = rand.Text() // read-only

// sendRanges sends the head and the parts (RFC 9110, section 14.6).
func (x *exchange) sendRanges(f *files.File, parts []files.Range) {
	c, l := x.client, x.client.conn.loop
	kind, lines, _ := bytes.Cut(f.Lines, []byte("\r\n")) // the first says the type
	heads, end := make([][]byte, len(parts)), fmt.Appendf(nil, "\r\n--%s--\r\n", boundary)
	total := int64(len(end))
	for i, p := range parts {
		heads[i] = fmt.Appendf(nil, "\r\n--%s\r\n%s\r\nContent-Range: bytes %d-%d/%d\r\n\r\n", boundary, kind, p.From, p.To-1, len(f.Data))
		total += int64(len(heads[i])) + p.To - p.From
	}
	x.status = 206
	out := c.conn.buffer()
	b := appendStatus(out.b, 206)
	at := len(b)
	b = append(b, lines...)
	if f.Packs && !f.Negotiated {
		b = append(b, "Vary: Accept-Encoding\r\n"...)
	}
	b = fmt.Appendf(b, "Content-Type: multipart/byteranges; boundary=%s\r\nContent-Length: %d\r\n", boundary, total)
	out.b = endHead(x, l.appendDate(b), at, contentHead)
	if len(x.request.Method) == 4 {
		c.finish()
		return
	}
	x.sentBytes = total
	for i, p := range parts {
		c.conn.write(heads[i])
		if f.Mapped {
			if c.conn.lend(f.Data[p.From:p.To]); c.conn.fd < 0 {
				return
			}
		} else {
			c.conn.write(f.Data[p.From:p.To])
		}
	}
	c.conn.write(end)
	if !f.Mapped {
		c.finish()
		return
	}
	c.conn.flush()
	x.file = lent{f, int(total)}
	f.Hold()
	c.conn.deferDrain()
	c.conn.expire(l.site.timeouts.idle)
}
