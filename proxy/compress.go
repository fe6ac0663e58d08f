package proxy

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/molecule-man/go-brrr"

	"ceiling/internal/http1"
	"ceiling/proxy/config"
)

// The loop compresses responses piece by piece as they arrive, if a location asks for it. That
// takes time from the loop's other clients, so the levels are low. A file with a precompressed
// sibling costs nothing.

// codings for responses, in order of preference; 0 is none.
var codings = [...]string{"", "zstd", "br", "gzip"} // read-only

const (
	// leastPacked is the size below which a body stays uncompressed: it fits into a packet
	// anyway.
	leastPacked = 512
	// mostPackedFile is the largest file that is compressed as a whole and cached.
	mostPackedFile = 256 << 10
	// mostPacked bounds a loop's cache of such files, in bytes.
	mostPacked = 32 << 20
	// windowBits is log2 of the zstd and brotli window, which determines a stream's memory.
	windowBits = 17
)

// packLevel is a compression level; 0 compresses nothing.
type packLevel uint8

const (
	packNothing packLevel = iota
	packFast
	packMiddle
	packSmall
)

// levels has the level of each coding, by packLevel.
var levels = [...]struct {
	zstd zstd.EncoderLevel
	br   int
	gzip int
}{{}, {zstd.SpeedFastest, 1, 1}, {zstd.SpeedDefault, 4, 5}, {zstd.SpeedBetterCompression, 6, 9}} // read-only

// packLevelOf returns the level that a destination, or its location, asks for.
func packLevelOf(whole bool, list []config.Transformer) packLevel {
	for _, t := range list {
		if t.Type == "compressResponse" {
			switch t.Options.Level {
			case 1:
				return packFast
			case 2:
				return packSmall
			}
			return packMiddle
		}
	}
	if whole {
		return packMiddle
	}
	return packNothing
}

// bestCoding returns the coding that an Accept-Encoding prefers; of equals, our first (RFC 9110,
// section 12.5.3).
func bestCoding(field []byte) (best uint8) {
	most := 0.0
	for i := 1; i < len(codings); i++ {
		if q := weightOf(field, codings[i]); q > most {
			best, most = uint8(i), q
		}
	}
	return best
}

// weightOf returns the weight that a field gives a coding, by its name or by "*".
func weightOf(field []byte, coding string) float64 {
	rest := 0.0
	for part := range bytes.SplitSeq(field, []byte{','}) {
		name, weight, weighed := bytes.Cut(part, []byte{';'})
		q := 1.0
		if weighed {
			var err error
			text, found := strings.CutPrefix(strings.ToLower(string(bytes.TrimSpace(weight))), "q=")
			if q, err = strconv.ParseFloat(text, 64); err != nil || !found || !(q >= 0 && q <= 1) {
				q = 0
			}
		}
		switch name = bytes.TrimSpace(name); {
		case len(name) == len(coding) && equalFoldASCII(name, coding):
			return q
		case string(name) == "*":
			rest = q
		}
	}
	return rest
}

// packable reports whether a content type compresses well.
func packable(kind []byte) bool {
	text := strings.ToLower(string(kind))
	text, _, _ = strings.Cut(text, ";")
	switch text = strings.TrimSpace(text); text {
	case "application/javascript", "application/json", "application/xml", "application/wasm", "application/x-javascript",
		"application/manifest+json", "application/rtf", "application/vnd.ms-fontobject", "font/ttf", "font/otf", "image/bmp", "image/x-icon",
		"image/vnd.microsoft.icon":
		return true
	}
	return strings.HasPrefix(text, "text/") || strings.HasSuffix(text, "+xml") || strings.HasSuffix(text, "+json")
}

// consider decides whether to compress a response. vary means that another client might have
// received it compressed.
func (x *exchange) consider(r *http1.Response, head []byte) (vary bool) {
	x.coding = 0
	if x.destination.level == packNothing || r.Status != 200 || r.HasLength && r.ContentLength < leastPacked {
		return false
	}
	kind := []byte(nil)
	lines := x.client.loop.lines.List
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
	if !packable(kind) {
		return false
	}
	if st := x.client.stream; x.offer == 0 || st == nil || !st.session.packing() {
		x.coding = x.offer
	}
	return true
}

// offered notes what the client accepts, while the lines of its request are available.
func (x *outbound) offered(head []byte, lines []http1.Line) {
	x.offer = 0
	for i := range lines {
		if lines[i].Is == http1.Other && string(bytes.ToLower(lines[i].Name(head))) == "accept-encoding" {
			x.offer = bestCoding(lines[i].Value(head))
		}
	}
}

// staleWhenPacked reports whether a field is wrong for a body in another coding.
func staleWhenPacked(name []byte) bool {
	return named(name, []string{"etag", "accept-ranges", "content-md5", "digest", "content-digest"})
}

// appendPacked appends the lines of a compressed response. Its entity tag is weak: the bytes
// differ, the content does not (RFC 9110, section 8.8.1).
func (x *exchange) appendPacked(b, head []byte) []byte {
	b = append(b, "Content-Encoding: "...)
	b = append(append(b, codings[x.coding]...), "\r\n"...)
	lines := x.client.loop.lines.List
	for i := range lines {
		if lines[i].Is == http1.Other && equalFold(lines[i].Name(head), "etag") {
			b = appendWeak(b, lines[i].Value(head))
		}
	}
	return b
}

func equalFold(name []byte, lower string) bool {
	return len(name) == len(lower) && equalFoldASCII(name, lower)
}

func appendWeak(b, tag []byte) []byte {
	b = append(b, "ETag: "...)
	if !bytes.HasPrefix(tag, []byte("W/")) {
		b = append(b, "W/"...)
	}
	return append(append(b, tag...), "\r\n"...)
}

// encoder is the common interface of the three libraries.
type encoder interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

// packer compresses one response at a time.
type packer struct {
	encoder
	coding uint8
	level  packLevel
	x      *exchange
}

// packerOut is the packer as its encoder's sink.
type packerOut packer

// Write passes the encoder's output to the client.
func (k *packerOut) Write(b []byte) (int, error) {
	x := k.x
	x.sentBytes += int64(len(b))
	out := x.client.room(len(b) + chunkFrame)
	switch {
	case len(b) == 0: // an empty chunk would end the body
	case x.chunked:
		out.b = appendChunk(out.b, b)
	default:
		out.b = append(out.b, b...)
	}
	return len(b), nil
}

// newEncoder creates an encoder. The options are our constants, so an error is a bug.
func newEncoder(coding uint8, level packLevel, to io.Writer) encoder {
	switch codings[coding] {
	case "zstd":
		e, err := zstd.NewWriter(to, zstd.WithEncoderLevel(levels[level].zstd), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(1<<windowBits), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic("proxy: zstd: " + err.Error())
		}
		return e
	case "br":
		e, err := brrr.NewWriterOptions(to, levels[level].br, brrr.WriterOptions{LGWin: windowBits})
		if err != nil {
			panic("proxy: brotli: " + err.Error())
		}
		return e
	}
	e, err := gzip.NewWriterLevel(to, levels[level].gzip)
	if err != nil {
		panic("proxy: gzip: " + err.Error())
	}
	return e
}

// sparePackers bounds the packers of one kind that a loop keeps.
const sparePackers = 8

// pack starts compressing.
func (x *exchange) pack() {
	l, level := x.client.loop, x.destination.level
	kept := &l.packers[x.coding][level]
	var k *packer
	if n := len(*kept); n > 0 {
		k, *kept = (*kept)[n-1], (*kept)[:n-1]
	} else {
		k = &packer{coding: x.coding, level: level}
		k.encoder = newEncoder(k.coding, k.level, (*packerOut)(k))
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
	l := x.client.loop
	x.packer, k.x = nil, nil
	if kept := &l.packers[k.coding][k.level]; err == nil && len(*kept) < sparePackers {
		*kept = append(*kept, k)
	}
	return err
}

// packFile returns a file in a coding, compressed once; nil if that does not pay.
func (k *fileCache) packFile(s *fileSite, f *file, coding uint8) []byte {
	n := len(f.data)
	if coding == 0 || n < leastPacked || n > mostPackedFile {
		return nil
	}
	if f.packed[coding] == nil && k.packed+n <= mostPacked {
		var b bytes.Buffer
		e := newEncoder(coding, s.level, &b)
		if _, err := e.Write(f.data); err != nil || e.Close() != nil || b.Len() >= n {
			return nil
		}
		f.packed[coding] = b.Bytes()
		f.packedBytes += b.Len()
		k.packed += b.Len()
	}
	return f.packed[coding]
}

// sendPacked sends a file compressed, if the client accepts that; false if not.
func (x *exchange) sendPacked(s *fileSite, f *file, accepts []byte) bool {
	c, l := x.client, x.client.loop
	coding := bestCoding(accepts)
	data := l.files.packFile(s, f, coding)
	if data == nil {
		return false
	}
	out := c.buffer()
	b := appendStatus(out.b, 200)
	at := len(b)
	for line := range strings.SplitAfterSeq(string(f.lines), "\r\n") {
		if !strings.HasPrefix(line, "ETag: ") && !strings.HasPrefix(line, "Vary: ") && !strings.HasPrefix(line, "Accept-Ranges: ") {
			b = append(b, line...)
		}
	}
	b = appendWeak(b, []byte(f.etag))
	b = append(append(b, "Vary: Accept-Encoding\r\nContent-Encoding: "...), codings[coding]...)
	b = append(b, "\r\nContent-Length: "...)
	b = append(strconv.AppendInt(b, int64(len(data)), 10), "\r\n"...)
	out.b = endHead(x, l.appendDate(b), at, contentHead)
	x.status = 200
	if len(x.request.Method) != 4 {
		x.sentBytes = int64(len(data))
		if c.stream != nil { // a hundred copies for one client would be too many
			c.lend(data)
		} else {
			c.write(data)
		}
	}
	c.finish()
	return true
}
