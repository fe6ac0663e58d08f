package proxy

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"

	"ceiling/internal/hpack"
	"ceiling/internal/websocket"
)

// An HTTP/2 header block becomes an HTTP/1.1 head and takes the same path as all heads: the
// common parser decides whether it is valid. This file rejects what that parser can no longer
// see: what would become another line, another request or another framing once written as text
// (RFC 9113, sections 8.2, 8.3 and 10.3).

// rewriter turns header blocks into heads. It reuses its memory.
type rewriter struct {
	out                     []byte
	method, path, authority []byte
	protocol                []byte // requested by CONNECT (RFC 8441)
	cookies                 []byte
	have                    uint8  // the pseudo-header fields seen, and whether a regular field was
	host                    bool   // out has a Host field
	lines                   []byte // trailers in HTTP/1.1 form
	length                  int64  // of the body, according to the block, or unknownLength
	key                     string // Sec-WebSocket-Key of a requested WebSocket; "" if none
	status                  int    // of an immediate response; 0 if none
	why                     string
}

// unknownLength is the length of a body whose head does not state it.
const unknownLength = -1

var nameHost, nameCookie, nameHead = []byte("host"), []byte("cookie"), []byte("HEAD") // read-only

// What a block has had so far.
const (
	hadMethod = 1 << iota
	hadScheme
	hadPath
	hadAuthority
	hadProtocol
	hadField
)

var (
	// errMalformed is for an invalid request: its stream is reset (RFC 9113, section 8.1.1).
	errMalformed = errors.New("malformed request")
	// errBlock is for a short block that expands far beyond any head limit.
	errBlock = errors.New("header block too long")
)

// listFactor is how many times the head limit a block's fields may add up to. The whole block
// must be read to keep the decoder's state, and one byte may refer to 4 KiB of the table.
const listFactor = 16

// fieldOverhead is what a field counts in addition to its text (RFC 9113, section 6.5.2).
const fieldOverhead = 32

// request appends the head of a block to out. whole means that no body follows. A response in
// status, if any, replaces the head. errMalformed concerns the stream, other errors the
// connection.
func (w *rewriter) request(out []byte, d *hpack.Decoder, block []byte, most int, whole bool) ([]byte, error) {
	*w = rewriter{out: out, method: w.method[:0], path: w.path[:0], authority: w.authority[:0], protocol: w.protocol[:0],
		cookies: w.cookies[:0], lines: w.lines[:0], length: unknownLength}
	size, bad := 0, false
	d.Begin(block)
	for {
		f, more, err := d.Next()
		if err != nil {
			return w.out, err
		}
		if !more {
			break
		}
		if size += len(f.Name) + len(f.Value) + fieldOverhead; size > listFactor*most {
			return w.out, errBlock
		}
		switch {
		case bad || w.status != 0:
		case size > most:
			w.status, w.why = 431, "the header is too large"
		default:
			bad = !w.field(f.Name, f.Value)
		}
	}
	if !bad && w.status == 0 && w.have&hadField == 0 {
		bad = !w.line()
	}
	if bad || w.status == 0 && whole && w.length > 0 { // a length, but no body
		return w.out, errMalformed
	}
	w.end(whole)
	return w.out, nil
}

// end completes the head.
func (w *rewriter) end(whole bool) {
	if len(w.cookies) > 0 {
		w.write(nameCookie, w.cookies)
	}
	switch {
	case w.key != "":
		w.out = append(append(w.out, "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: "...), w.key...)
		w.out = append(w.out, "\r\n"...)
	case !whole && w.length == unknownLength:
		w.out = append(w.out, "transfer-encoding: chunked\r\n"...)
	}
	w.out = append(w.out, "\r\n"...)
}

// field handles one field; false if the request is malformed.
func (w *rewriter) field(name, value []byte) bool {
	if len(name) > 0 && name[0] == ':' {
		return w.pseudo(name[1:], value)
	}
	if !plainName(name) || !plainValue(value) {
		return false
	}
	if w.have&hadField == 0 {
		w.have |= hadField
		if good := w.line(); !good || w.status != 0 {
			return good
		}
	}
	switch string(name) {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return false
	case "te":
		if string(value) != "trailers" {
			return false
		}
	case "host":
		return w.sameHost(value)
	case "cookie": // HTTP/2 may split cookies, HTTP/1.1 has one field (section 8.2.3)
		if len(w.cookies) > 0 {
			w.cookies = append(w.cookies, "; "...)
		}
		w.cookies = append(w.cookies, value...)
		return true
	case "content-length":
		n, ok := digits(value)
		if !ok || w.length != unknownLength || w.key != "" {
			return false
		}
		w.length = n
	case "sec-websocket-key", "sec-websocket-accept": // replaced by ours (RFC 8441, section 5)
		if w.key != "" {
			return true
		}
	}
	w.write(name, value)
	return true
}

func (w *rewriter) write(name, value []byte) { w.out = appendLine(w.out, name, value) }

func appendLine(b, name, value []byte) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, value...), "\r\n"...)
}

// pseudo handles what HTTP/1.1 has in the first line, and the authority.
func (w *rewriter) pseudo(name, value []byte) bool {
	had := uint8(0)
	switch string(name) {
	case "method":
		had, w.method = hadMethod, append(w.method, value...)
	case "scheme":
		had = hadScheme
		if string(value) != "https" && string(value) != "http" {
			w.status, w.why = 400, "the scheme is neither http nor https"
		}
	case "path":
		had, w.path = hadPath, append(w.path, value...)
	case "authority":
		had, w.authority = hadAuthority, append(w.authority, value...)
	case "protocol":
		had, w.protocol = hadProtocol, append(w.protocol, value...)
	}
	if had == 0 || w.have&(had|hadField) != 0 { // unknown, repeated, or after regular fields
		return false
	}
	w.have |= had
	return true
}

// line writes the request line and the Host field, once the pseudo-header fields are complete.
func (w *rewriter) line() bool {
	connect, extended := string(w.method) == "CONNECT", w.have&hadProtocol != 0
	switch {
	case w.status != 0:
		return true
	case connect && !extended:
		if w.have&(hadScheme|hadPath) != 0 || len(w.authority) == 0 { // section 8.5
			return false
		}
		w.status, w.why = 405, "not a forward proxy"
		return true
	case w.have&(hadMethod|hadScheme|hadPath) != hadMethod|hadScheme|hadPath, len(w.method) == 0, len(w.path) == 0:
		return false
	case w.path[0] != '/' && string(w.path) != "*", extended && !connect:
		return false
	case extended && string(w.protocol) != "websocket": // RFC 9220, section 3
		w.status, w.why = 501, "CONNECT is for WebSockets"
		return true
	case !visible(w.method), !visible(w.path), !visible(w.authority):
		w.status, w.why = 400, "the method, path or authority is malformed"
		return true
	}
	if extended { // GET in HTTP/1.1, with a key, which HTTP/2 omits (RFC 8441, section 5)
		w.method, w.key = append(w.method[:0], "GET"...), newKey()
	}
	w.out = append(append(w.out, w.method...), ' ')
	w.out = append(append(w.out, w.path...), " HTTP/1.1\r\n"...)
	if len(w.authority) > 0 {
		w.write(nameHost, w.authority)
	}
	return true
}

// newKey returns a random key. It is no secret: it only ties a response to its request.
func newKey() string {
	var nonce [16]byte
	binary.NativeEndian.PutUint64(nonce[:], rand.Uint64())
	binary.NativeEndian.PutUint64(nonce[8:], rand.Uint64())
	return websocket.Key(nonce)
}

// sameHost handles a Host field, which must equal the authority or replaces it.
func (w *rewriter) sameHost(value []byte) bool {
	switch {
	case w.host || len(w.authority) > 0 && !sameAuthority(value, w.authority, ":443"): // it is spoken over TLS alone
		w.status, w.why = 400, "the authority and Host differ"
	case len(w.authority) == 0:
		w.write(nameHost, value)
	}
	w.host = true
	return true
}

// trailers parses a block of trailers into lines; none if the block exceeds most.
func (w *rewriter) trailers(d *hpack.Decoder, block []byte, most int) error {
	size, bad := 0, false
	w.lines = w.lines[:0]
	d.Begin(block)
	for {
		f, more, err := d.Next()
		switch {
		case err != nil:
			return err
		case !more && bad:
			return errMalformed
		case !more:
			return nil
		}
		if size += len(f.Name) + len(f.Value) + fieldOverhead; size > listFactor*most {
			return errBlock
		}
		bad = bad || !plainName(f.Name) || !plainValue(f.Value)
		switch {
		case bad:
		case size > most:
			w.lines = w.lines[:0]
		default:
			w.lines = appendLine(w.lines, f.Name, f.Value)
		}
	}
}

// plainName accepts a token in lower case (RFC 9113, section 8.2.1).
func plainName(name []byte) bool {
	for _, c := range name {
		if !nameBytes[c] {
			return false
		}
	}
	return len(name) > 0
}

// nameBytes are the bytes of a token (RFC 9110, section 5.6.2) except capitals.
var nameBytes = newNameBytes() // read-only

func newNameBytes() (set [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz") {
		set[c] = true
	}
	return set
}

// plainValue accepts what cannot end a line or be read as another value: no control bytes, no
// blanks at either end.
func plainValue(v []byte) bool {
	for _, c := range v {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return len(v) == 0 || !blank(v[0]) && !blank(v[len(v)-1])
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

// visible accepts what does not end a word of the request line.
func visible(v []byte) bool {
	for _, c := range v {
		if c <= ' ' || c >= 0x7f || c == '#' {
			return false
		}
	}
	return true
}

// digits parses a length below 10^17.
func digits(v []byte) (n int64, ok bool) {
	for _, c := range v {
		if c-'0' > 9 {
			return 0, false
		}
		if n = n*10 + int64(c-'0'); n >= 1e17 {
			return 0, false
		}
	}
	return n, len(v) > 0
}
