package proxy

import (
	"bytes"
	"crypto/rand"
	"fmt"
)

// rangesMost is how many ranges one request may name. For more, and for overlapping or touching
// ones, the response is the whole file (as RFC 9110, section 14.2, allows): they would have it
// sent several times, or each byte with its own head.
const rangesMost = 10

// boundary between the parts: 128 random bits, which no file contains by chance.
var boundary = rand.Text() // read-only

type byteRange struct{ from, to int64 }

// decideSeveral is decide for a list of ranges. It ignores those outside the file.
func (w *wants) decideSeveral(size int64) (status int, from, to int64) {
	list, found := bytes.CutPrefix(w.rangeField, []byte("bytes="))
	if !found || bytes.Count(list, []byte{','}) >= rangesMost {
		return 200, 0, size
	}
	var parts []byteRange
	for spec := range bytes.SplitSeq(list, []byte{','}) {
		from, to, ok, known := parseRange(append([]byte("bytes="), bytes.TrimSpace(spec)...), size)
		if !known {
			return 200, 0, size
		}
		if !ok {
			continue
		}
		for _, p := range parts {
			if from <= p.to && p.from <= to {
				return 200, 0, size
			}
		}
		parts = append(parts, byteRange{from, to})
	}
	switch len(parts) {
	case 0:
		return 416, 0, 0
	case 1:
		return 206, parts[0].from, parts[0].to
	}
	w.several = parts
	return 206, 0, 0
}

// sendRanges sends the head and the parts (RFC 9110, section 14.6).
func (x *exchange) sendRanges(f *file, parts []byteRange) {
	c, l := x.client, x.client.loop
	kind, lines, _ := bytes.Cut(f.lines, []byte("\r\n")) // the first says the type
	heads, end := make([][]byte, len(parts)), fmt.Appendf(nil, "\r\n--%s--\r\n", boundary)
	total := int64(len(end))
	for i, p := range parts {
		heads[i] = fmt.Appendf(nil, "\r\n--%s\r\n%s\r\nContent-Range: bytes %d-%d/%d\r\n\r\n", boundary, kind, p.from, p.to-1, len(f.data))
		total += int64(len(heads[i])) + p.to - p.from
	}
	x.status = 206
	out := c.buffer()
	b := appendStatus(out.b, 206)
	at := len(b)
	b = append(b, lines...)
	if f.packs && !f.negotiated {
		b = append(b, "Vary: Accept-Encoding\r\n"...)
	}
	b = fmt.Appendf(b, "Content-Type: multipart/byteranges; boundary=%s\r\nContent-Length: %d\r\n", boundary, total)
	out.b = endHead(x, l.appendDate(b), at, contentHead)
	if len(x.request.Method) == 4 {
		c.finish()
		return
	}
	x.sentBytes = total
	for i, p := range parts {
		c.write(heads[i])
		if f.mapped {
			if c.lend(f.data[p.from:p.to]); c.fd < 0 {
				return
			}
		} else {
			c.write(f.data[p.from:p.to])
		}
	}
	c.write(end)
	if !f.mapped {
		c.finish()
		return
	}
	c.flush()
	x.file = f
	f.refs++
	x.left = int(total)
	c.atEase()
	c.expire(l.site.timeouts.idle)
}
