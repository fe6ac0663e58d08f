// Package eventstream parses server-sent events (HTML, section 9.2.6, "interpreting an event
// stream") incrementally, in pieces of any size. It finds the ends of events and our marks in
// their data; it stores no events.
package eventstream

import (
	"bytes"
	"errors"
	"time"
)

// MaxLine limits a line, in bytes, to detect a server that never ends one.
const MaxLine = 1 << 20

// ErrLine is the error for a line over MaxLine.
var ErrLine = errors.New("event line over 1 MiB")

// ErrCut is the error for a stream that ended within an event, which browsers drop too.
var ErrCut = errors.New("event stream ended within an event")

// Mark is what an event says of itself, in data that is a JSON object as in
//
//	data: {"seq": 17, "unix_ns": 1732378123000000000, "monotonic_ns": 81234567890, "boot": "1f2e3d4c"}
//
// Each is 0, or nil, where the event lacks it.
type Mark struct {
	// Seq numbers the events from 1, the same for every subscriber.
	Seq uint64
	// UnixNs and MonotonicNs are the publication time, by CLOCK_REALTIME and by CLOCK_MONOTONIC
	// of the host that Boot identifies: the first eight characters of its
	// /proc/sys/kernel/random/boot_id. Boot is valid until the next call of Next.
	UnixNs, MonotonicNs int64
	Boot                []byte
}

// Reader reads the events of one connection. The zero value is ready.
type Reader struct {
	head  [len(byteOrderMark + "retry: ")]byte // the beginning of the line
	line  int                                  // length of the line so far
	field field                                // of the line
	after lineEnd
	begun bool // the stream is past its byte order mark
	data  bool // the current event has data
	marks
	// retry is what the stream asks for, in milliseconds; asking what the current line does, -1 if
	// that is no number.
	retry, asking int64
}

const byteOrderMark = "\xef\xbb\xbf"

// field is what a line is.
type field uint8

const (
	unknown    field = iota // its beginning is not complete
	dataField               // data of the event
	retryField              // how long to wait before reconnecting
	otherField              // a comment, or a field irrelevant to the end of an event
)

// lineEnd is what preceded the current byte: a CR ends a line alone or with an LF.
type lineEnd uint8

const (
	none lineEnd = iota
	carriageReturn
)

// Next consumes bytes of b up to the end of an event, or all of it. done reports that an event
// ended there, whose marks are in Mark. An error is final.
func (r *Reader) Next(b []byte) (n int, done bool, err error) {
	for n < len(b) {
		if r.after == carriageReturn {
			r.after = none
			if b[n] == '\n' {
				n++
				continue
			}
		}
		end := bytes.IndexByte(b[n:], '\n')
		piece := b[n:]
		if end >= 0 {
			piece = piece[:end]
		}
		if cr := bytes.IndexByte(piece, '\r'); cr >= 0 {
			end, piece, r.after = cr, piece[:cr], carriageReturn
		}
		if r.line+len(piece) > MaxLine {
			return n, false, ErrLine
		}
		r.take(piece)
		if end < 0 {
			return len(b), false, nil
		}
		if n += end + 1; r.endLine() {
			return n, true, nil
		}
	}
	return n, false, nil
}

// take interprets a piece of a line.
func (r *Reader) take(piece []byte) {
	if r.field == unknown {
		n := copy(r.head[r.line:], piece)
		r.line += n
		if piece = piece[n:]; r.line < len(r.head) {
			return
		}
		r.begin()
	}
	r.line += len(piece)
	switch r.field {
	case dataField:
		r.feed(piece)
	case retryField:
		r.asking = digitsOf(r.asking, piece)
	}
}

// begin finds out what a line is from its beginning.
func (r *Reader) begin() {
	head := r.head[:r.line]
	if !r.begun {
		r.begun = true
		head = bytes.TrimPrefix(head, []byte(byteOrderMark))
		r.line = len(head)
	}
	if value, found := bytes.CutPrefix(head, []byte("retry:")); found {
		r.field, r.asking = retryField, digitsOf(0, bytes.TrimPrefix(value, []byte(" ")))
		return
	}
	value, found := bytes.CutPrefix(head, []byte("data"))
	if r.field = otherField; !found || len(value) > 0 && value[0] != ':' {
		return
	}
	r.field = dataField
	if r.data {
		r.feed([]byte("\n")) // joins the lines
	} else {
		r.data = true
		r.marks.begin()
	}
	if len(value) > 0 {
		r.feed(value[1:])
	}
}

// endLine handles the end of a line, and reports whether it ended an event: one without data does
// not count.
func (r *Reader) endLine() (done bool) {
	if r.field == unknown {
		r.begin()
	}
	if r.line == 0 {
		done, r.data = r.data, false
	}
	if r.field == retryField && r.asking >= 0 {
		r.retry = r.asking
	}
	r.line, r.field = 0, unknown
	return done
}

// Mark returns the mark of the event that Next ended.
func (r *Reader) Mark() *Mark { return &r.mark }

// Retry returns how long the stream asks a client to wait before it reconnects; 0 if it does not. More
// than an hour counts as one.
func (r *Reader) Retry() time.Duration {
	return time.Duration(min(r.retry, int64(time.Hour/time.Millisecond))) * time.Millisecond
}

// EOF returns the error, if any, of the stream ending here.
func (r *Reader) EOF() error {
	if r.data || r.line > 0 {
		return ErrCut
	}
	return nil
}

// Reset prepares the reader for a new stream.
func (r *Reader) Reset() { *r = Reader{} }
