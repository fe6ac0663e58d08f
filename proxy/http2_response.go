package proxy

import (
	"bytes"

	"ceiling/internal/hpack"
)

// heads converts the loop's own HTTP/1.1 heads to header blocks. It caches the last one:
// successive responses are much alike.
type heads struct {
	name        []byte // scratch: a name in lower case
	text, block []byte // the last head, and its block
	status      int    // of the last head
	secure      bool   // a request's scheme
}

// headEnd ends a head.
var headEnd = []byte("\r\n\r\n") // read-only

// of returns the block of the head at the start of b, which has n bytes; n = 0 if it is
// incomplete.
func (h *heads) of(b []byte) (block []byte, status, n int) {
	if len(h.text) > 0 && len(b) >= len(h.text) && string(b[:len(h.text)]) == string(h.text) {
		return h.block, h.status, len(h.text)
	}
	n = bytes.Index(b, headEnd)
	if n < 0 {
		return nil, 0, 0
	}
	n += len(headEnd)
	const version = len("HTTP/1.1 ")
	code := b[version : version+3]
	h.status = int(code[0]-'0')*100 + int(code[1]-'0')*10 + int(code[2]-'0')
	h.text = append(h.text[:0], b[:n]...)
	h.block = hpack.AppendField(h.block[:0], nameStatus, code, false)
	lines := b[bytes.IndexByte(b, '\n')+1 : n-2]
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n')
		h.line(lines[:end-1])
		lines = lines[end+1:]
	}
	return h.block, h.status, n
}

var nameStatus = []byte(":status") // read-only

// line adds a field. Fields that frame a message or concern its connection are not allowed in
// HTTP/2 (RFC 9113, section 8.2.2).
func (h *heads) line(line []byte) {
	name, value := h.split(line)
	switch string(name) {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return
	}
	h.block = hpack.AppendField(h.block, name, value, false)
}

// split splits a line into its name in lower case, valid until the next call, and its value.
func (h *heads) split(line []byte) (name, value []byte) {
	at := bytes.IndexByte(line, ':')
	h.name = h.name[:0]
	for _, c := range line[:at] {
		if c-'A' < 26 {
			c |= 0x20
		}
		h.name = append(h.name, c)
	}
	return h.name, bytes.Trim(line[at+1:], " \t")
}
