package files

import (
	"bytes"
	"net/http"
	"strconv"

	"ceiling/internal/http1"
)

// Wants are the conditions of a file request: RFC 9110, sections 13 and 14.
type Wants struct {
	Accepts, types                       []byte // Accept-Encoding and Accept
	match, noneMatch, modifiedSince      []byte
	unmodifiedSince, rangeField, ifRange []byte
	Several                              []Range // if more than one is sent
}

// WantsOf reads the head's fields that matter for a file.
func WantsOf(head []byte, lines []http1.Line) (w Wants) {
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
			to = pick(name, "accept-encoding", &w.Accepts)
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
	if bytes.EqualFold(name, []byte(lower)) {
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

// HasRange reports whether a part is asked for.
func (w *Wants) HasRange() bool { return w.rangeField != nil }

// Decide returns the status of the response, and the bytes to send.
func (w *Wants) Decide(f *File) (status int, from, to int64) {
	size := int64(len(f.Data))
	switch {
	case w.match != nil && !matchesTag(w.match, f.ETag, false),
		w.match == nil && w.unmodifiedSince != nil && after(f, w.unmodifiedSince):
		return 412, 0, 0
	case w.noneMatch != nil && matchesTag(w.noneMatch, f.ETag, true),
		w.noneMatch == nil && w.modifiedSince != nil && f.dated && sameDate(f, w.modifiedSince):
		return 304, 0, 0
	}
	if w.rangeField == nil || w.ifRange != nil && string(w.ifRange) != f.ETag && !(f.dated && string(w.ifRange) == f.modified) {
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
func after(f *File, field []byte) bool {
	t, err := http.ParseTime(string(field))
	at := f.info.ModTime()
	if !f.dated {
		at = changeTime(f.info)
	}
	return err == nil && at.Unix() > t.Unix()
}

// sameDate reports whether a field's time is the file's, in whole seconds. An earlier file than the
// client's is another one: a deployment that was taken back.
func sameDate(f *File, field []byte) bool {
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

// rangesMost is how many ranges one request may name. For more, and for overlapping or touching
// ones, the response is the whole file (as RFC 9110, section 14.2, allows): they would have it
// sent several times, or each byte with its own head.
const rangesMost = 10

// Range is a part of a file, up to To.
type Range struct{ From, To int64 }

// decideSeveral is Decide for a list of ranges. It ignores those outside the file.
func (w *Wants) decideSeveral(size int64) (status int, from, to int64) {
	list, found := bytes.CutPrefix(w.rangeField, []byte("bytes="))
	if !found || bytes.Count(list, []byte{','}) >= rangesMost {
		return 200, 0, size
	}
	var parts []Range
	for spec := range bytes.SplitSeq(list, []byte{','}) {
		from, to, ok, known := parseRange(append([]byte("bytes="), bytes.TrimSpace(spec)...), size)
		if !known {
			return 200, 0, size
		}
		if !ok {
			continue
		}
		for _, p := range parts {
			if from <= p.To && p.From <= to {
				return 200, 0, size
			}
		}
		parts = append(parts, Range{from, to})
	}
	switch len(parts) {
	case 0:
		return 416, 0, 0
	case 1:
		return 206, parts[0].From, parts[0].To
	}
	w.Several = parts
	return 206, 0, 0
}
