package proxy

import (
	"bytes"
	"net/http"

	"ceiling/internal/hpack"
	"ceiling/internal/http2"
)

// HTTP/1.1 heads from and to header blocks, for destinations with HTTP/2.

// request returns the header block of the request head at the start of b, which has n bytes; n =
// 0 if it is incomplete. It caches the last one, as for responses.
func (h *heads) request(b []byte, secure bool) (block []byte, n int) {
	if len(h.text) > 0 && len(b) >= len(h.text) && string(b[:len(h.text)]) == string(h.text) && secure == h.secure {
		return h.block, len(h.text)
	}
	if n = bytes.Index(b, headEnd) + len(headEnd); n < len(headEnd) {
		return nil, 0
	}
	h.text, h.secure = append(h.text[:0], b[:n]...), secure
	first := bytes.IndexByte(b, '\n') + 1
	line, lines := b[:first-len(" HTTP/1.1\r\n")], b[first:n-2]
	at := bytes.IndexByte(line, ' ')
	h.block = hpack.AppendField(h.block[:0], nameMethod, line[:at], false)
	scheme := "http"
	if secure {
		scheme = "https"
	}
	h.block = hpack.AppendField(h.block, ":scheme", scheme, false)
	h.block = hpack.AppendField(h.block, namePath, line[at+1:], false)
	for rest := lines; len(rest) > 0; rest = rest[bytes.IndexByte(rest, '\n')+1:] {
		if len(rest) > len("host:") && rest[len("host")] == ':' && equalFold(rest[:len("host")], "host") {
			_, value := h.split(rest[:bytes.IndexByte(rest, '\r')])
			h.block = hpack.AppendField(h.block, nameAuthority, value, false)
			break
		}
	}
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n')
		h.requestLine(lines[:end-1])
		lines = lines[end+1:]
	}
	return h.block, n
}

var nameMethod, namePath, nameAuthority = []byte(":method"), []byte(":path"), []byte(":authority") // read-only

// requestLine adds a field of a request. It marks credentials as sensitive, so that
// intermediaries behind the destination's end do not put them in a table (RFC 7541, section
// 7.1.3).
func (h *heads) requestLine(line []byte) {
	name, value := h.split(line)
	sensitive := false
	switch string(name) {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "host":
		return
	case "authorization", "proxy-authorization":
		sensitive = true
	}
	h.block = hpack.AppendField(h.block, name, value, sensitive)
}

// tableNotice announces that there is no dynamic table, once the other end has asked for a
// smaller one (RFC 7541, section 4.2).
type tableNotice struct{ resized, told bool }

// appendBlock appends the frames of a header block.
func (t *tableNotice) appendBlock(b []byte, id uint32, block []byte, last bool) []byte {
	if t.resized && !t.told {
		t.told = true
		block = append([]byte{tableSizeNone}, block...)
	}
	return http2.AppendBlock(b, id, block, last, http2.DefaultFrame)
}

// recents remembers the last streams of a connection after they are gone.
type recents [recentIDs]uint32

func (r *recents) begin(id uint32)     { r[id>>1%recentIDs] = id }
func (r *recents) disregard(id uint32) { r[id>>1%recentIDs] = id | disregarded }

// was reports about a stream that is not open: whether it ever was, and whether it was ended here
// while the other end was still sending.
func (r *recents) was(id uint32) (opened, ours bool) {
	have := r[id>>1%recentIDs]
	if have&^disregarded > id { // overwritten since: the frame may have been in transit for long
		return true, true
	}
	return have&^disregarded == id, have == id|disregarded
}

// replies converts responses' header blocks to HTTP/1.1 heads. It caches the last one: without a
// dynamic table, equal blocks mean the same.
type replies struct {
	block, text []byte // the last block, and its head
	effect      hpack.Effect
	status      int
	length      int64 // of the body, according to the block, or unknownLength
	why         string
	scratch     []byte
}

// read reads a block. errMalformed concerns the stream, and why says what is wrong; other errors
// concern the connection.
func (r *replies) read(d *hpack.Decoder, block []byte, most int) error {
	if len(r.block) > 0 && string(block) == string(r.block) && (r.effect == hpack.Stateless || !d.HasTable()) {
		return nil
	}
	*r = replies{block: r.block[:0], text: r.text[:0], scratch: r.scratch, length: unknownLength}
	size := 0
	d.Begin(block)
	for {
		f, more, err := d.Next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if size += len(f.Name) + len(f.Value) + fieldOverhead; size > listFactor*most {
			return errBlock
		}
		switch {
		case r.why != "":
		case size > most:
			r.why = "the header is too large"
		default:
			r.why = r.field(f.Name, f.Value)
		}
	}
	if r.why == "" && r.status == 0 {
		r.why = "a head without a status"
	}
	if r.why != "" {
		return errMalformed
	}
	r.text = append(r.text, "\r\n"...)
	if r.effect = d.Effect(); r.effect != hpack.Stateful {
		r.block = append(r.block, block...)
	}
	return nil
}

// field handles one field, and returns what is wrong with it.
func (r *replies) field(name, value []byte) string {
	switch {
	case len(name) > 0 && name[0] == ':':
		return r.pseudo(name, value)
	case r.status == 0:
		return "a field before the status"
	case !plainName(name):
		return "a malformed name of a field"
	case !plainValue(value):
		return "a malformed value of a field"
	}
	switch string(name) {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te":
		return "a field of HTTP/1.1's connections"
	case "content-length":
		n, ok := digits(value)
		if !ok || r.length != unknownLength {
			return "a malformed Content-Length, or two"
		}
		r.length = n
	}
	r.text = appendLine(r.text, name, value)
	return ""
}

// pseudo handles the status, which must precede everything else.
func (r *replies) pseudo(name, value []byte) string {
	if string(name) != ":status" || r.status != 0 {
		return "a pseudo-field out of place"
	}
	n, ok := digits(value)
	switch {
	case !ok || len(value) != 3 || n < 100:
		return "a malformed status"
	case n == 101:
		return "status 101, which HTTP/2 does not have"
	}
	r.status = int(n)
	r.text = append(append(r.text, "HTTP/1.1 "...), value...)
	r.text = append(append(append(r.text, ' '), http.StatusText(r.status)...), "\r\n"...)
	return ""
}

// empty returns the head with a length of 0, valid until the next call.
func (r *replies) empty() []byte {
	r.scratch = append(r.scratch[:0], r.text[:len(r.text)-len("\r\n")]...)
	r.scratch = append(r.scratch, "content-length: 0\r\n\r\n"...)
	return r.scratch
}
