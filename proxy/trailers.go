package proxy

import (
	"bytes"

	"ceiling/internal/hpack"
	"ceiling/internal/http1"
)

// Trailers are fields behind a body. Those of a response go to a client that speaks HTTP/2,
// or has sent TE: trailers; those of a request to a destination with HTTP/2. Others
// are dropped, as RFC 9110, section 6.5.1, allows everywhere.

// appendTrailers appends the lines that are passed on: without fields that have no place
// behind a body, and without those that the location takes away.
func appendTrailers(dst, lines []byte, drop []string) []byte {
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n') + 1
		if name := lines[:bytes.IndexByte(lines, ':')]; !untrailed(name) && !named(name, drop) {
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

// takesTrailers tells whether a client of HTTP/1.1 has said that it takes trailers
// (RFC 9110, section 10.1.4).
func (x *inbound) takesTrailers() bool {
	head, lines := x.client.in.b[x.headAt:x.headEnd], x.lines()
	for i := range lines {
		if lines[i].Is == http1.TE && http1.HasToken(lines[i].Value(head), "trailers") {
			return true
		}
	}
	return false
}

// endChunks ends a response in chunks.
func (x *exchange) endChunks(trailers []byte) {
	c := x.client
	if len(trailers) > 0 && x.takesTrailers() {
		c.write(lastChunk[:len("0\r\n")])
		c.write(appendTrailers(nil, trailers, x.location.response.drop))
		c.write(lastChunk[len("0\r\n"):])
		return
	}
	c.write(lastChunk)
}

// trailerNameMost is longer than each of untrailedNames.
const trailerNameMost = 32

// untrailed tells a field that says how a message is framed, routed, authenticated, coded or
// to be answered, which is for a head alone (RFC 9110, section 6.5.1). An
// underscore counts as the hyphen that CGI makes of it.
func untrailed(name []byte) bool {
	var lower [trailerNameMost]byte
	n := copy(lower[:], name)
	for i, c := range lower[:n] {
		switch {
		case c-'A' < 26:
			lower[i] = c | 0x20
		case c == '_':
			lower[i] = '-'
		}
	}
	for _, prefix := range untrailedPrefixes {
		if bytes.HasPrefix(lower[:n], []byte(prefix)) {
			return true
		}
	}
	return len(name) <= trailerNameMost && untrailedNames[string(lower[:n])]
}

var untrailedPrefixes = []string{"if-", "proxy-", "x-forwarded-", "sec-websocket-"} // read-only

var untrailedNames = newUntrailedNames() // read-only

func newUntrailedNames() map[string]bool {
	set := map[string]bool{}
	for _, name := range []string{
		"transfer-encoding", "content-length", "connection", "keep-alive", "te", "trailer", "upgrade", "http2-settings", // framing
		"host", "forwarded", "x-real-ip", "via", "cdn-loop", "max-forwards", // routing
		"authorization", "www-authenticate", "cookie", "set-cookie", // authentication
		"content-encoding", "content-type", "content-range", // content
		"cache-control", "pragma", "expect", "range", "age", "date", "expires", "location", "retry-after", "vary", "warning", // controls
	} {
		set[name] = true
	}
	return set
}
