package proxy

import (
	"bytes"
	"strings"

	"ceiling/internal/hpack"
	"ceiling/internal/http1"
)

// Trailers are fields after a body. A response's go to a client that speaks HTTP/2 or has sent
// TE: trailers; a request's go to a destination with HTTP/2. Others are dropped, as RFC 9110,
// section 6.5.1, always allows.

// appendTrailers appends the lines to forward: without fields not allowed after a body, and
// without those that the location removes.
func appendTrailers(dst, lines []byte, drop []string) []byte {
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n') + 1
		if name := lines[:bytes.IndexByte(lines, ':')]; !forbiddenTrailer(name) && !named(name, drop) {
			dst = append(dst, lines[:end]...)
		}
		lines = lines[end:]
	}
	return dst
}

// appendTrailerBlock appends the header block of lines.
func (h *heads) appendTrailerBlock(dst, lines []byte) []byte {
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n')
		name, value := h.split(lines[:end-1])
		dst = hpack.AppendField(dst, name, value, false)
		lines = lines[end+1:]
	}
	return dst
}

// takesTrailers reports whether an HTTP/1.1 client has said that it accepts trailers (RFC 9110,
// section 10.1.4).
func (x *inbound) takesTrailers() bool {
	head, lines := x.client.in.b[x.headAt:x.headEnd], x.lines()
	for i := range lines {
		if lines[i].Is == http1.TE && http1.HasToken(lines[i].Value(head), "trailers") {
			return true
		}
	}
	return false
}

// endChunks ends a chunked response.
func (x *exchange) endChunks(trailers []byte) {
	c := x.client
	if len(trailers) > 0 && x.takesTrailers() {
		c.conn.write(lastChunk[:len("0\r\n")])
		c.conn.write(appendTrailers(nil, trailers, editsOf(x, contentHead).without))
		c.conn.write(lastChunk[len("0\r\n"):])
		return
	}
	c.conn.write(lastChunk)
}

// forbiddenTrailer reports whether a field says how to frame, route, authenticate, decode or answer a
// message, which only a head may do (RFC 9110, section 6.5.1).
func forbiddenTrailer(name []byte) bool {
	variable := variableOf(string(name))
	for _, prefix := range untrailedPrefixes {
		if strings.HasPrefix(variable, prefix) {
			return true
		}
	}
	return untrailedNames[variable] || http1.Classify(name) != http1.Other
}

var untrailedPrefixes = []string{"if-", "proxy-", "sec-websocket-"} // read-only

var untrailedNames = newUntrailedNames() // read-only

func newUntrailedNames() map[string]bool {
	set := map[string]bool{}
	for _, name := range []string{
		"cdn-loop", "authorization", "www-authenticate", "cookie", "set-cookie", // authentication
		"content-encoding", "content-type", "content-range", // content
		"cache-control", "pragma", "range", "age", "expires", "location", "retry-after", "vary", "warning", // controls
	} {
		set[name] = true
	}
	return set
}
