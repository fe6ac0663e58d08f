package proxy

import (
	"bytes"
	"strconv"
	"strings"

	"ceiling/internal/http1"
	"ceiling/proxy/compress"
	"ceiling/proxy/files"
)

// consider decides whether to compress a response. vary means that another client might have
// received it compressed.
func (x *exchange) consider(r *http1.Response, head []byte) (vary bool) {
	x.coding = 0
	if r.Status == 304 {
		if x.knowsPacked(x.client.conn.loop.field(head, "etag")) {
			x.coding = x.offer
		}
		return true
	}
	if r.Status != 200 || r.HasLength && r.ContentLength < compress.Least {
		return false
	}
	kind := []byte(nil)
	lines := x.client.conn.loop.lines.List
	for i := range lines {
		if lines[i].Is != http1.Other {
			continue
		}
		switch name, value := lines[i].Name(head), lines[i].Value(head); strings.ToLower(string(name)) {
		case "content-type":
			kind = value
		case "content-encoding", "content-range":
			return false
		case "cache-control":
			if http1.HasToken(value, "no-transform") {
				return false
			}
		}
	}
	if !compress.Packable(kind) {
		return false
	}
	if st := x.client.conn.stream; x.offer == 0 || st == nil || !st.session.packing() {
		x.coding = x.offer
	}
	return true
}

// knowsPacked reports whether the client asks about the compressed form of what did not change: by the weak tag
// that it got with it.
func (x *inbound) knowsPacked(tag []byte) bool {
	return len(tag) > 0 && bytes.Contains(x.head(), append([]byte("W/"), tag...))
}

// offered notes what the client accepts, while the lines of its request are available.
func (x *outbound) offered(head []byte, lines []http1.Line) {
	x.offer = 0
	for i := range lines {
		if lines[i].Is == http1.Other && string(bytes.ToLower(lines[i].Name(head))) == "accept-encoding" {
			x.offer = compress.Best(lines[i].Value(head))
		}
	}
}

// staleWhenPacked reports whether a field is wrong for a body in another coding.
func staleWhenPacked(name []byte) bool {
	return named(name, []string{"etag", "accept-ranges", "content-md5", "digest", "content-digest", "repr-digest"})
}

// appendPacked appends the lines of a compressed response. Its entity tag is weak: the bytes
// differ, the content does not (RFC 9110, section 8.8.1).
func (x *exchange) appendPacked(b, head []byte) []byte {
	if x.status != 304 {
		b = append(b, "Content-Encoding: "...)
		b = append(append(b, compress.Codings[x.coding]...), "\r\n"...)
	}
	lines := x.client.conn.loop.lines.List
	for i := range lines {
		if lines[i].Is == http1.Other && equalFold(lines[i].Name(head), "etag") {
			b = appendWeak(b, lines[i].Value(head))
		}
	}
	return b
}

func appendWeak(b, tag []byte) []byte {
	b = append(b, "ETag: "...)
	if !bytes.HasPrefix(tag, []byte("W/")) {
		b = append(b, "W/"...)
	}
	return append(append(b, tag...), "\r\n"...)
}

// The loop compresses responses piece by piece as they arrive, if a location asks for it. That
// takes time from the loop's other clients, so the levels are low. A file with a precompressed
// sibling costs nothing.

// compressor compresses one response at a time.
type compressor struct {
	compress.Encoder
	coding uint8
	level  compress.Level
	x      *exchange
}

// packerOut is the packer as its encoder's sink.
type packerOut compressor

// Write passes the encoder's output to the client.
func (k *packerOut) Write(b []byte) (int, error) {
	x := k.x
	x.sentBytes += int64(len(b))
	out := x.client.conn.room(len(b) + chunkFrame)
	switch {
	case len(b) == 0: // an empty chunk would end the body
	case x.chunked:
		out.b = appendChunk(out.b, b)
	default:
		out.b = append(out.b, b...)
	}
	return len(b), nil
}

// sparePackers bounds the packers of one kind that a loop keeps.
const sparePackers = 8

// pack starts compressing.
func (x *exchange) pack() {
	l, level := x.client.conn.loop, x.destination.level
	kept := &l.packers[x.coding][level]
	var k *compressor
	if n := len(*kept); n > 0 {
		k, *kept = (*kept)[n-1], (*kept)[:n-1]
	} else {
		k = &compressor{coding: x.coding, level: level}
		k.Encoder = compress.NewEncoder(k.coding, k.level, (*packerOut)(k))
	}
	k.x, x.packer = x, k
	k.Reset((*packerOut)(k))
}

// packed ends the body, or a piece of it: it flushes all output.
func (x *exchange) packed(whole bool) error {
	k := x.packer
	if !whole {
		return k.Flush()
	}
	err := k.Close()
	l := x.client.conn.loop
	x.packer, k.x = nil, nil
	if kept := &l.packers[k.coding][k.level]; err == nil && len(*kept) < sparePackers {
		*kept = append(*kept, k)
	}
	return err
}

// sendPacked sends a file compressed, if the client accepts that; false if not.
func (x *exchange) sendPacked(s *files.Site, f *files.File, accepts []byte) bool {
	c, l := x.client, x.client.conn.loop
	coding := compress.Best(accepts)
	data := l.files.Pack(s, f, coding)
	if data == nil {
		return false
	}
	out := c.conn.buffer()
	b := appendStatus(out.b, 200)
	at := len(b)
	b = append(append(appendPackedLines(b, f), "Content-Encoding: "...), compress.Codings[coding]...)
	b = append(b, "\r\nContent-Length: "...)
	b = append(strconv.AppendInt(b, int64(len(data)), 10), "\r\n"...)
	out.b = endHead(x, l.appendDate(b), at, contentHead)
	x.status = 200
	if len(x.request.Method) != 4 {
		x.sentBytes = int64(len(data))
		if c.conn.stream != nil { // a hundred copies for one client would be too many
			c.conn.lend(data)
		} else {
			c.conn.write(data)
		}
	}
	c.finish()
	return true
}

// appendPackedLines appends the lines of a file's compressed form.
func appendPackedLines(b []byte, f *files.File) []byte {
	for line := range strings.SplitAfterSeq(string(f.Lines), "\r\n") {
		if !strings.HasPrefix(line, "ETag: ") && !strings.HasPrefix(line, "Vary: ") && !strings.HasPrefix(line, "Accept-Ranges: ") {
			b = append(b, line...)
		}
	}
	return append(appendWeak(b, []byte(f.ETag)), "Vary: Accept-Encoding\r\n"...)
}
