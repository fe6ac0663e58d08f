package proxy

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"ceiling/internal/http1"
)

// wants are the conditions of a file request: RFC 9110, sections 13 and 14.
type wants struct {
	accepts, types                       []byte // Accept-Encoding and Accept
	match, noneMatch, modifiedSince      []byte
	unmodifiedSince, rangeField, ifRange []byte
	several                              []byteRange // if more than one is sent
}

// want reads the head's fields that matter for a file.
func want(head []byte, lines []http1.Line) (w wants) {
	for i := range lines {
		line := &lines[i]
		if line.Is != http1.Other {
			continue
		}
		to := (*[]byte)(nil)
		switch name := line.Name(head); len(name) {
		case 5:
			to = pick(name, "range", &w.rangeField)
		case 6:
			to = pick(name, "accept", &w.types)
		case 8:
			to = firstPick(pick(name, "if-match", &w.match), pick(name, "if-range", &w.ifRange))
		case 13:
			to = pick(name, "if-none-match", &w.noneMatch)
		case 15:
			to = pick(name, "accept-encoding", &w.accepts)
		case 17:
			to = pick(name, "if-modified-since", &w.modifiedSince)
		case 19:
			to = pick(name, "if-unmodified-since", &w.unmodifiedSince)
		}
		if to != nil {
			*to = line.Value(head)
		}
	}
	return w
}

func pick(name []byte, lower string, to *[]byte) *[]byte {
	if equalFoldASCII(name, lower) {
		return to
	}
	return nil
}

func firstPick(a, b *[]byte) *[]byte {
	if a != nil {
		return a
	}
	return b
}

// serveFile responds with a file.
func (x *exchange) serveFile(s *fileSite, clean []byte) {
	c, l, q := x.client, x.client.loop, &x.request
	if m := string(q.Method); m != "GET" && m != "HEAD" || c.isWebSocket() {
		x.answer(405, "files can only be read")
		return
	}
	w := want(c.in.b[x.headAt:x.headEnd], x.lines())
	if x.destination.response.edits("content-encoding") { // a sibling's could not be said
		w.accepts = nil
	}
	f, one := l.files.lookUp(s, x.destination.edited(clean), &w, l.now)
	if f.directory {
		x.toDirectory()
		return
	}
	if one == nil {
		x.answer(404, "there is no such file")
		return
	}
	l.counts.filesServed++
	if x.bodyState != bodyWhole {
		c.closing = true
	}
	x.state = answerOwn
	status, from, to := w.decide(one)
	if w.several != nil && x.destination.response.edits("content-type") { // the parts' heads need their own type
		w.several, status, from, to = nil, 200, 0, int64(len(one.data))
	}
	if one.packs && status == 200 && w.rangeField == nil && x.sendPacked(s, one, w.accepts) {
		return
	}
	if status == 200 && !c.closing && !l.stopping && q.Minor == 1 && len(q.Method) == 3 && !one.mapped && !one.packs && !c.secure() {
		x.status, x.sentBytes = 200, int64(len(one.data))
		c.write(one.fresh(l, editsOf(x, contentHead)))
		c.finish()
		return
	}
	if w.several != nil {
		x.sendRanges(one, w.several)
		return
	}
	x.sendFile(one, status, from, to)
}

// lookUp returns what a request is for, and the file to send, nil if there is none.
func (k *fileCache) lookUp(s *fileSite, clean []byte, w *wants, now int64) (found, *file) {
	d := k.directory(s, now)
	if d == nil {
		return found{}, nil
	}
	f := k.get(s, d, clean, now)
	if f.name == "" || f.directory || f.instead && !navigates(clean, w.types) {
		return *f, nil
	}
	return *f, k.choose(s, d, f, w.accepts)
}

// choose returns the smallest variant that the client accepts.
func (k *fileCache) choose(s *fileSite, d *directory, f *found, accepts []byte) *file {
	siblings := false
	for i := 1; i < len(encodings); i++ {
		siblings = k.variant(s, d, f, i, true) != nil || siblings
	}
	if siblings && accepts != nil {
		for i := 1; i < len(encodings); i++ {
			if f.variants[i] != nil && acceptsCoding(accepts, encodings[i].name) {
				return f.variants[i]
			}
		}
	}
	return k.variant(s, d, f, 0, siblings)
}

// acceptsCoding reports whether an Accept-Encoding names a coding with a weight other than 0 (RFC
// 9110, section 12.5.3).
func acceptsCoding(field []byte, coding string) bool {
	for len(field) > 0 {
		part := field
		if i := bytes.IndexByte(field, ','); i >= 0 {
			part, field = field[:i], field[i+1:]
		} else {
			field = nil
		}
		name, weight, _ := bytes.Cut(part, []byte{';'})
		name = bytes.TrimSpace(name)
		if len(name) != len(coding) || !equalFoldASCII(name, coding) {
			continue
		}
		weight = bytes.TrimSpace(weight)
		if len(weight) < 2 {
			return true
		}
		q, err := strconv.ParseFloat(string(weight[2:]), 64)
		return err == nil && q > 0
	}
	return false
}

// decide returns the status of the response, and the bytes to send.
func (w *wants) decide(f *file) (status int, from, to int64) {
	size := int64(len(f.data))
	switch {
	case w.match != nil && !matchesTag(w.match, f.etag, false),
		w.match == nil && w.unmodifiedSince != nil && after(f, w.unmodifiedSince):
		return 412, 0, 0
	case w.noneMatch != nil && matchesTag(w.noneMatch, f.etag, true),
		w.noneMatch == nil && w.modifiedSince != nil && f.dated && sameDate(f, w.modifiedSince):
		return 304, 0, 0
	}
	if w.rangeField == nil || w.ifRange != nil && string(w.ifRange) != f.etag && !(f.dated && string(w.ifRange) == f.modified) {
		return 200, 0, size
	}
	if bytes.IndexByte(w.rangeField, ',') >= 0 {
		return w.decideSeveral(size)
	}
	from, to, ok, known := parseRange(w.rangeField, size)
	switch {
	case !known:
		return 200, 0, size
	case !ok:
		return 416, 0, 0
	}
	return 206, from, to
}

// matchesTag looks for an entity tag in a list. A weak one matches a strong one if weak is set.
func matchesTag(list []byte, etag string, weak bool) bool {
	for len(list) > 0 {
		part := list
		if i := bytes.IndexByte(list, ','); i >= 0 {
			part, list = list[:i], list[i+1:]
		} else {
			list = nil
		}
		part = bytes.TrimSpace(part)
		if weak {
			part = bytes.TrimPrefix(part, []byte("W/"))
		}
		if string(part) == etag || string(part) == "*" {
			return true
		}
	}
	return false
}

// after reports whether the file changed after a field's time, in whole seconds; false for an invalid
// date. A modification time that was set says nothing: then the last change counts.
func after(f *file, field []byte) bool {
	t, err := http.ParseTime(string(field))
	at := f.info.ModTime()
	if !f.dated {
		at = changeTime(f.info)
	}
	return err == nil && at.Unix() > t.Unix()
}

// sameDate reports whether a field's time is the file's, in whole seconds. An earlier file than the
// client's is another one: a deployment that was taken back.
func sameDate(f *file, field []byte) bool {
	if string(field) == f.modified {
		return true
	}
	t, err := http.ParseTime(string(field))
	return err == nil && f.info.ModTime().Unix() == t.Unix()
}

// parseRange parses one byte range: first-last, first- or -suffix (RFC 9110, section 14.1.2).
// known is false for what may be ignored: other units, several ranges, malformed ones. ok is
// false for a range outside the file.
func parseRange(field []byte, size int64) (from, to int64, ok, known bool) {
	spec, found := bytes.CutPrefix(field, []byte("bytes="))
	first, last, dash := bytes.Cut(spec, []byte{'-'})
	if !found || !dash || bytes.IndexByte(spec, ',') >= 0 {
		return 0, 0, false, false
	}
	a, errA := strconv.ParseUint(string(first), 10, 62)
	b, errB := strconv.ParseUint(string(last), 10, 62)
	switch {
	case len(first) == 0 && errB == nil:
		n := min(int64(b), size)
		return size - n, size, n > 0, true
	case errA != nil || len(last) > 0 && (errB != nil || b < a):
		return 0, 0, false, false
	case int64(a) >= size:
		return 0, 0, false, true
	case len(last) == 0:
		return int64(a), size, true, true
	}
	return int64(a), min(int64(b)+1, size), true, true
}

// fresh returns the complete response of a small file with this second's date.
func (f *file) fresh(l *loop, e edits) []byte {
	if f.second != l.second || f.page == nil {
		b := appendStatus(f.page[:0], 200)
		at := len(b)
		b = append(b, f.lines...)
		b = fmt.Appendf(b, "Content-Length: %d\r\n", len(f.data))
		b = e.apply(l.appendDate(b), at)
		b = append(b, "\r\n"...)
		f.page, f.second = append(b, f.data...), l.second
	}
	return f.page
}

// sendFile sends the head and bytes of a file.
func (x *exchange) sendFile(f *file, status int, from, to int64) {
	c, l := x.client, x.client.loop
	x.status = uint16(status)
	out := c.buffer()
	b := appendStatus(out.b, status)
	at := len(b)
	if status != 412 {
		b = append(b, f.lines...)
	}
	if f.packs && !f.negotiated {
		b = append(b, "Vary: Accept-Encoding\r\n"...)
	}
	switch status {
	case 206:
		b = fmt.Appendf(b, "Content-Range: bytes %d-%d/%d\r\n", from, to-1, len(f.data))
	case 416:
		b = fmt.Appendf(b, "Content-Range: bytes */%d\r\n", len(f.data))
	}
	if status != 304 {
		b = fmt.Appendf(b, "Content-Length: %d\r\n", to-from)
	}
	out.b = endHead(x, l.appendDate(b), at, contentHead)
	if len(x.request.Method) == 4 || to == from {
		c.finish()
		return
	}
	x.sentBytes = to - from
	if !f.mapped {
		c.write(f.data[from:to])
		c.finish()
		return
	}
	x.file = f
	f.refs++
	x.left = int(to - from)
	if c.lend(f.data[from:to]); c.fd < 0 {
		return
	}
	c.atEase()
	c.expire(l.site.timeouts.idle)
}

// fileTimeout ends a file's exchange if nothing of it was sent since the last time.
func (x *exchange) fileTimeout() {
	c := x.client
	left := c.unsent()
	if left >= x.left {
		c.loop.counts.clientTimeouts++
		c.fail("the client does not read")
		return
	}
	x.left = left
	c.expire(c.loop.site.timeouts.idle)
}

// toDirectory redirects to the path with a slash, which an index's relative links need.
func (x *exchange) toDirectory() {
	c, l := x.client, x.client.loop
	path, query, asked := bytes.Cut(x.request.Target, []byte{'?'})
	out := c.buffer()
	b := appendStatus(out.b, 301)
	at := len(b)
	b = append(b, "Location: "...)
	for len(path) > 1 && path[1] == '/' { // "//host/" would lead elsewhere
		path = path[1:]
	}
	b = append(append(b, path...), '/')
	if asked {
		b = append(append(b, '?'), query...)
	}
	b = append(b, "\r\nContent-Length: 0\r\n"...)
	b = l.appendDate(b)
	if x.bodyState != bodyWhole {
		c.closing = true
	}
	x.status, x.state = 301, answerOwn
	out.b = endHead(x, b, at, redirectHead)
	c.finish()
}
