package proxy

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/http1"
	"ceiling/proxy/compress"
	"ceiling/proxy/route"
)

// Heads are forwarded as received, in runs between omitted lines: those that concern a single
// connection, frame the message, or say who came before. Our own lines replace them. Nothing is
// decoded and re-encoded.

// appendRequest appends the request's head for its destination.
func (x *exchange) appendRequest(b []byte) []byte {
	c, q, d := x.client, &x.request, x.destination
	head := c.in.b[x.headAt:x.headEnd]
	lines := x.lines()
	b = append(b, q.Method...)
	b = append(b, ' ')
	b = x.appendTarget(b)
	b = append(b, " HTTP/1.1\r\n"...)
	at := len(b)
	if d.host != "" || x.absolute() || q.Minor == 0 && !hasHost(lines) {
		authority, _, _ := route.SplitTarget(q.Target)
		b = append(b, "Host: "...)
		b = append(b, cmp.Or(d.host, string(authority), string(q.Host), d.upstream.target.Host)...)
		b = append(b, "\r\n"...)
	}
	if d.level != compress.None {
		x.offered(head, lines)
	}
	b = x.appendLines(b, head, lines)
	if d.upstream.http2 && x.takesTrailers() {
		b = append(b, "te: trailers\r\n"...)
	}
	switch {
	case q.Chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case q.HasLength:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, q.ContentLength, 10)
		b = append(b, "\r\n"...)
	}
	if x.upgrade {
		b = append(b, "Connection: upgrade\r\n"...)
	}
	b = x.appendForwarded(b, head, lines)
	b = append(b, c.conn.loop.site.via...)
	if d.loopMark != nil {
		b = append(b, d.loopMark.line...)
	}
	b = x.location.request.apply(b, at)
	if field := c.conn.loop.site.clientField; field != "" && c.subject != "" {
		b = appendField(b, field, c.subject)
	}
	if x.added != nil {
		b = append(b, x.added.request...)
	}
	return append(b, "\r\n"...)
}

// absolute reports whether the target has an authority, which replaces the Host field (RFC 9112,
// section 3.2.2).
func (x *inbound) absolute() bool {
	first := x.request.Target[0]
	return first != '/' && first != '*'
}

// hasHost reports whether a Host field is present; an HTTP/1.0 request needs none.
func hasHost(lines []http1.Line) bool {
	return slices.ContainsFunc(lines, func(l http1.Line) bool { return l.Is == http1.Host })
}

// appendLines appends the lines to forward.
func (x *exchange) appendLines(b, head []byte, lines []http1.Line) []byte {
	if len(lines) == 0 {
		return b
	}
	from := lines[0].At
	for i := range lines {
		line := &lines[i]
		if line.Is == http1.Other && !line.Hop() || x.passes(line) {
			continue
		}
		b = append(b, head[from:line.At]...)
		from = line.End
	}
	return append(b, head[from:len(head)-2]...)
}

// passes reports whether a request line is forwarded to the destination.
func (x *exchange) passes(line *http1.Line) bool {
	switch line.Is {
	case http1.Shadow, http1.ContentLength, http1.TransferEncoding, http1.Connection, http1.KeepAlive,
		http1.ProxyConnection, http1.TE, http1.HTTP2Settings, http1.Proxy,
		http1.ForwardedFor, http1.ForwardedProto, http1.ForwardedHost:
		return false
	case http1.Forwarded:
		return x.client.trusted
	case http1.Relayed:
		return x.client.trusted && !line.Hop()
	case http1.Trailer:
		if !x.destination.upstream.http2 {
			return false
		}
	case http1.Upgrade:
		return x.upgrade
	case http1.Host:
		return x.destination.host == "" && !x.absolute()
	case http1.Expect:
		return x.request.ExpectContinue && x.request.Minor > 0
	}
	return !line.Hop()
}

// appendTarget appends the target in origin form (RFC 9112, section 3.2.1), unchanged unless the
// destination edits it.
func (x *exchange) appendTarget(b []byte) []byte {
	d, target := x.destination, x.request.Target
	if target[0] != '/' || d.base != "" || len(d.replace) > 0 {
		_, path, query := route.SplitTarget(target)
		if target[0] == '*' {
			return append(b, '*')
		}
		if to := d.edited(path); inLine(to) {
			path = to
		}
		b = append(b, d.base...)
		if len(path) == 0 || path[0] != '/' {
			b = append(b, '/')
		}
		b = append(b, path...)
		if query != nil {
			b = append(b, '?')
			b = append(b, query...)
		}
		return b
	}
	return append(b, target...)
}

// edited returns a path as the destination's transformers make it.
func (d *destination) edited(path []byte) []byte {
	for i := range d.replace {
		path = d.replace[i].apply(path)
	}
	return path
}

// apply edits a path. A pattern with a slash in front is a prefix; only a regular expression or a
// text without the slash is looked for elsewhere.
func (r *replacement) apply(path []byte) []byte {
	if r.re != nil {
		return r.re.ReplaceAll(path, []byte(r.new))
	}
	if r.old[0] != '/' {
		return bytes.ReplaceAll(path, []byte(r.old), []byte(r.new))
	}
	rest, found := route.CutPrefix(path, r.old)
	switch {
	case !found:
		return path
	case strings.HasSuffix(r.old, "/"):
		return append([]byte(strings.TrimSuffix(r.new, "/")), rest...)
	}
	return append([]byte(r.new), rest...)
}

// inLine reports whether a path can be part of a request line: an edit must not make another of it.
func inLine(path []byte) bool {
	return !bytes.ContainsFunc(path, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '?' || c == '#' })
}

// appendForwarded appends who the request comes from. It believes what the client says about that
// if the client is a trusted proxy.
func (x *inbound) appendForwarded(b, head []byte, lines []http1.Line) []byte {
	c := x.client
	b = append(b, "X-Forwarded-For: "...)
	proto, host := []byte(nil), []byte(nil)
	if c.trusted {
		for i := range lines {
			switch line := &lines[i]; line.Is {
			case http1.ForwardedFor:
				b = append(b, line.Value(head)...)
				b = append(b, ", "...)
			case http1.ForwardedProto:
				proto = line.Value(head)
			case http1.ForwardedHost:
				host = line.Value(head)
			}
		}
	}
	b = append(b, c.name...)
	b = append(b, "\r\nX-Forwarded-Proto: "...)
	if len(proto) > 0 {
		b = append(b, proto...)
	} else {
		b = append(b, c.scheme...)
	}
	if len(host) == 0 {
		host = x.request.Host
	}
	if len(host) > 0 {
		b = append(b, "\r\nX-Forwarded-Host: "...)
		b = append(b, host...)
	}
	return append(b, "\r\n"...)
}

// appendResponse appends the response head for the client, and decides how to frame the body.
func (x *exchange) appendResponse(b []byte, r *http1.Response, head []byte) []byte {
	c, l := x.client, x.client.conn.loop
	x.chunked = false
	bodiless := r.Status == 204 || r.Status == 304 || string(x.request.Method) == "HEAD"
	vary := x.destination.level != compress.None && x.consider(r, head)
	open := !bodiless && (r.Chunked || r.UntilClose || x.coding != 0) // its end is unknown
	if open && c.conn.stream == nil {                                 // a stream's end is in its frames
		x.chunked = x.request.Minor > 0
		if !x.chunked {
			c.closing = true
		}
	}
	b = appendStatusLine(b, r.Status, r.Reason)
	at := len(b)
	b, dated := x.appendResponseLines(b, head)
	if vary {
		b = append(b, "Vary: Accept-Encoding\r\n"...)
	}
	if x.coding != 0 {
		b = x.appendPacked(b, head)
		if !bodiless {
			x.pack()
		}
	}
	switch {
	case x.chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case r.HasLength && r.Status != 204 && x.coding == 0:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, r.ContentLength, 10)
		b = append(b, "\r\n"...)
	}
	if !dated {
		b = l.appendDate(b)
	}
	return endHead(x, append(b, l.site.via...), at, contentHead)
}

func appendStatusLine[T string | []byte](b []byte, status int, reason T) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, reason...)
	return append(b, "\r\n"...)
}

// appendResponseLines appends the lines to forward, and reports whether they include a Date.
func (x *exchange) appendResponseLines(b, head []byte) (out []byte, dated bool) {
	lines := x.client.conn.loop.lines.List
	if len(lines) == 0 {
		return b, false
	}
	from := lines[0].At
	for i := range lines {
		line := &lines[i]
		switch line.Is {
		case http1.Date:
			dated = true
			continue
		case http1.Shadow, http1.ContentLength, http1.TransferEncoding, http1.Connection, http1.KeepAlive,
			http1.ProxyConnection, http1.TE, http1.Upgrade, http1.HTTP2Settings:
		case http1.Trailer:
			if x.client.conn.stream != nil && !line.Hop() {
				continue
			}
		default:
			if !line.Hop() && (x.coding == 0 || !staleWhenPacked(line.Name(head))) {
				continue
			}
		}
		b = append(b, head[from:line.At]...)
		from = line.End
	}
	return append(b, head[from:len(head)-2]...), dated
}

// appendInterim appends a 1xx response.
func (l *loop) appendInterim(b []byte, r *http1.Response, head []byte) []byte {
	return append(l.appendPlain(appendStatusLine(b, r.Status, r.Reason), head, http1.Other), "\r\n"...)
}

// appendSwitch appends a 101 response.
func appendSwitch(x *exchange, b []byte, r *http1.Response, head []byte) []byte {
	b = appendStatusLine(b, r.Status, r.Reason)
	at := len(b)
	b = x.client.conn.loop.appendPlain(b, head, http1.Other, http1.Date, http1.Upgrade)
	return append(editsOf(x, contentHead).apply(b, at), "Connection: upgrade\r\n\r\n"...)
}

// appendOpened appends the response for an opened WebSocket over HTTP/2. It omits
// Sec-WebSocket-Accept, which answers our key that the client does not know (RFC 8441, section
// 5).
func appendOpened(x *exchange, b, head []byte) []byte {
	b = appendStatus(b, 200)
	at := len(b)
	e := edits{without: []string{"sec-websocket-accept"}}
	b = e.apply(x.client.conn.loop.appendPlain(b, head, http1.Other, http1.Date), at)
	return append(editsOf(x, contentHead).apply(b, at), "\r\n"...)
}

// appendPlain appends the lines of some kinds.
func (l *loop) appendPlain(b, head []byte, which ...http1.Known) []byte {
	for i := range l.lines.List {
		if line := &l.lines.List[i]; slices.Contains(which, line.Is) && (!line.Hop() || line.Is == http1.Upgrade) {
			b = append(b, head[line.At:line.End]...)
		}
	}
	return b
}

func (l *loop) appendDate(b []byte) []byte {
	b = append(b, "Date: "...)
	b = append(b, l.date...)
	return append(b, "\r\n"...)
}

// appendConnection says whether the connection persists, if HTTP/1.x needs that to be explicit.
func (c *client) appendConnection(b []byte) []byte {
	switch {
	case c.closing, c.conn.loop.stopping && c.at == c.have(): // no other request has come
		c.closing = true
		return append(b, "Connection: close\r\n"...)
	case c.x.request.Minor == 0:
		return append(b, "Connection: keep-alive\r\n"...)
	}
	return b
}

// apply edits the lines from at on. It comes last, after all lines that could be meant: what is set
// is one field, whatever else has that name.
func (e edits) apply(b []byte, at int) []byte {
	if len(e.without) > 0 {
		out := at
		for at < len(b) {
			end := at + bytes.IndexByte(b[at:], '\n') + 1
			if name, _, _ := bytes.Cut(b[at:end], []byte{':'}); !named(name, e.without) {
				out += copy(b[out:], b[at:end])
			}
			at = end
		}
		b = b[:out]
	}
	return append(b, e.lines...)
}

// editsOf returns those of the response to x.
func editsOf(x *exchange, k headKind) (e edits) {
	secure := 0
	if x.client.secure() {
		secure = 1
	}
	switch {
	case x.destination != nil:
		e = x.destination.response[secure][k]
	case x.location != nil:
		e = x.location.response[secure][k]
	}
	if x.added != nil {
		e.lines = x.added.lines(e.lines)
	}
	return e
}

// endHead ends a head whose lines begin at at.
func endHead(x *exchange, b []byte, at int, k headKind) []byte {
	e := editsOf(x, k)
	b = x.client.appendConnection(e.apply(b, at))
	return append(b, "\r\n"...)
}
