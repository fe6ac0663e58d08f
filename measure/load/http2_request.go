package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"ceiling/internal/hpack"
	"ceiling/internal/http2"
)

// h2request is a request in HTTP/2 form: the frames of its head, in which only the stream
// identifier changes, and its body.
type h2request struct {
	head   []byte
	frames []uint32 // offsets in head at which the frames begin
	body   []byte
}

// forH2 adds the HTTP/2 form of the requests, if connections may speak it.
func (s *script) forH2(c *Config) (err error) {
	if c.Protocol != HTTP2 && (c.TLS == nil || !slices.Contains(c.TLS.Protocols, alpnH2)) {
		return nil
	}
	scheme := "http"
	if c.TLS != nil {
		scheme = "https"
	}
	s.h2, err = newH2Requests(c.Mix, scheme)
	return err
}

// newH2Requests converts the requests from their HTTP/1.1 form: the same fields without those of
// the connection (RFC 9113, section 8.2.2), in a block that depends on nothing before it.
func newH2Requests(mix []Request, scheme string) ([]h2request, error) {
	list := make([]h2request, 0, len(mix))
	for i := range mix {
		r, err := newH2Request(mix[i].Bytes, scheme)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

var errNoRequest = errors.New("load: a request is not in the form of HTTP/1.1")

func newH2Request(b []byte, scheme string) (r h2request, err error) {
	head, body, whole := bytes.Cut(b, []byte("\r\n\r\n"))
	first, rest, _ := bytes.Cut(head, []byte("\r\n"))
	words := bytes.SplitN(first, []byte(" "), 3)
	if !whole || len(words) != 3 {
		return r, errNoRequest
	}
	block := hpack.AppendField(nil, ":method", string(words[0]), false)
	block = hpack.AppendField(block, ":scheme", scheme, false)
	block = hpack.AppendField(block, ":path", string(words[1]), false)
	var fields []byte
	for line := range bytes.SplitSeq(rest, []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return r, errNoRequest
		}
		name, value = bytes.ToLower(name), bytes.TrimSpace(value)
		switch string(name) {
		case "host":
			block = hpack.AppendField(block, ":authority", string(value), false)
		case "transfer-encoding": // HTTP/2 has frames
			_, body = parts(b)
		case "connection", "keep-alive", "proxy-connection", "upgrade":
		case "te":
			if string(value) == "trailers" {
				fields = hpack.AppendField(fields, name, value, false)
			}
		default:
			fields = hpack.AppendField(fields, name, value, false)
		}
	}
	r.head = http2.AppendBlock(nil, 0, append(block, fields...), len(body) == 0, http2.DefaultFrame)
	for at := 0; at < len(r.head); at += http2.HeaderBytes + int(binary.BigEndian.Uint32(r.head[at:])>>8) {
		r.frames = append(r.frames, uint32(at))
	}
	r.body = body
	return r, nil
}

// appendHead adds the frames of the head for one stream.
func (r *h2request) appendHead(dst []byte, id uint32) []byte {
	n := len(dst)
	dst = append(dst, r.head...)
	for _, at := range r.frames {
		binary.BigEndian.PutUint32(dst[n+int(at)+5:], id)
	}
	return dst
}
