package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"

	"ceiling/internal/hpack"
	"ceiling/internal/websocket"
)

// A header block of HTTP/2 becomes a head of HTTP/1.1, which goes the way of all heads:
// the parser that every request passes decides what is one. Here is held what that
// parser cannot see any more: what would be another line, another request or another
// framing once it stands in text (RFC 9113, sections 8.2, 8.3 and 10.3).

// rewriter makes heads of blocks. It keeps its memory from one to the next.
type rewriter struct {
	out                     []byte
	method, path, authority []byte
	protocol                []byte // that CONNECT asks for (RFC 8441)
	cookies                 []byte
	have                    uint8  // the pseudo-fields that came, and the first other
	host                    bool   // a Host field stands in out
	lines                   []byte // of trailers, as HTTP/1.1 has them
	length                  int64  // of the body, as the block says; unknownLength: it does not
	key                     string // Sec-WebSocket-Key of a WebSocket that is asked for; "": none is
	status                  int    // the answer that the request gets at once; 0: none
	why                     string
}

// unknownLength is the length of a body that its head does not tell.
const unknownLength = -1

var nameHost, nameCookie, nameHead = []byte("host"), []byte("cookie"), []byte("HEAD") // read-only

// What a block has had.
const (
	hadMethod = 1 << iota
	hadScheme
	hadPath
	hadAuthority
	hadProtocol
	hadField
)

var (
	// errMalformed is a request that is none: its stream is reset (RFC 9113, section 8.1.1).
	errMalformed = errors.New("malformed request")
	// errBlock is a block that says far more than any head may, in few bytes.
	errBlock = errors.New("header block too long")
)

// listFactor is how many times a head's limit a block's fields may come to. All of a
// block has to be read for the decoder's sake, and a byte may stand for 4 KiB of the table.
const listFactor = 16

// fieldOverhead is what a field counts beyond its text (RFC 9113, section 6.5.2).
const fieldOverhead = 32

// request writes the head of a block behind out. whole says that no body follows. The
// answer in status, where there is one, stands in place of the head. errMalformed concerns
// the stream, other errors the connection.
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
	if bad || w.status == 0 && whole && w.length > 0 { // a length, and no body
		return w.out, errMalformed
	}
	w.end(whole)
	return w.out, nil
}

// end closes the head.
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

// field takes one field; false where the request is malformed.
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
	case "cookie": // each is a field of its own here, and one field there (section 8.2.3)
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
	case "sec-websocket-key", "sec-websocket-accept": // ours takes their place (RFC 8441, section 5)
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

// pseudo takes what stands in the first line in HTTP/1.1, and the authority.
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
	if had == 0 || w.have&(had|hadField) != 0 { // unknown, twice, or behind other fields
		return false
	}
	w.have |= had
	return true
}

// line writes the request line and the Host field, once the pseudo-fields are there.
func (w *rewriter) line() bool {
	connect, extended := string(w.method) == "CONNECT", w.have&hadProtocol != 0
	switch {
	case w.status != 0:
		return true
	case connect && !extended:
		if w.have&(hadScheme|hadPath) != 0 || len(w.authority) == 0 { // section 8.5
			return false
		}
		w.status, w.why = 405, "this is no forward proxy"
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
	if extended { // GET in HTTP/1.1, with a key that HTTP/2 does without (RFC 8441, section 5)
		w.method, w.key = append(w.method[:0], "GET"...), newKey()
	}
	w.out = append(append(w.out, w.method...), ' ')
	w.out = append(append(w.out, w.path...), " HTTP/1.1\r\n"...)
	if len(w.authority) > 0 {
		w.write(nameHost, w.authority)
	}
	return true
}

// newKey is one of chance. It is no secret: it tells an answer from one to somebody else.
func newKey() string {
	var nonce [16]byte
	binary.NativeEndian.PutUint64(nonce[:], rand.Uint64())
	binary.NativeEndian.PutUint64(nonce[8:], rand.Uint64())
	return websocket.Key(nonce)
}

// sameHost takes a Host field, which says what the authority does or stands in its place.
func (w *rewriter) sameHost(value []byte) bool {
	switch {
	case w.host || len(w.authority) > 0 && !bytes.EqualFold(value, w.authority):
		w.status, w.why = 400, "the authority and Host differ"
	case len(w.authority) == 0:
		w.write(nameHost, value)
	}
	w.host = true
	return true
}

// trailers reads a block of trailers into lines, of which there are none where the block is
// larger than most.
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

// nameBytes are those of a token (RFC 9110, section 5.6.2) without capitals.
var nameBytes = newNameBytes() // read-only

func newNameBytes() (set [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz") {
		set[c] = true
	}
	return set
}

// plainValue accepts what cannot end a line, nor be read as another value: no control
// bytes, no blanks at either end.
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

// digits reads a length, which is below 10^17.
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
