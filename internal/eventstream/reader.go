// Package eventstream parses server-sent events (HTML, section 9.2.6, "interpreting an event
// stream") incrementally, in pieces of any size. It finds the ends of events; it stores none.
package eventstream

import (
	"bytes"
	"errors"
)

// MaxLine limits a line, in bytes, to detect a server that never ends one.
const MaxLine = 1 << 20

// ErrLine is the error for a line over MaxLine.
var ErrLine = errors.New("event line over 1 MiB")

const byteOrderMark = "\xef\xbb\xbf"

// Reader reads the events of one response. The zero value is ready.
type Reader struct {
	head  [len(byteOrderMark + "data:")]byte // the beginning of the line
	line  int                                // length of the line so far
	cr    bool                               // a CR was last, which ends a line alone or with an LF
	begun bool                               // the stream is past its byte order mark
	data  bool                               // the current event has data
}

// Next consumes bytes of b up to the end of an event, or all of it. done reports that an event
// ended there. An error is final.
func (r *Reader) Next(b []byte) (n int, done bool, err error) {
	for n < len(b) {
		if r.cr {
			r.cr = false
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
			end, piece, r.cr = cr, piece[:cr], true
		}
		if r.line+len(piece) > MaxLine {
			return n, false, ErrLine
		}
		copy(r.head[min(r.line, len(r.head)):], piece)
		r.line += len(piece)
		if end < 0 {
			return len(b), false, nil
		}
		if n += end + 1; r.endLine() {
			return n, true, nil
		}
	}
	return n, false, nil
}

// endLine handles the end of a line, and reports whether it ended an event: one without data does
// not count.
func (r *Reader) endLine() (done bool) {
	head := r.head[:min(r.line, len(r.head))]
	if !r.begun {
		r.begun = true
		head = bytes.TrimPrefix(head, []byte(byteOrderMark))
	}
	if len(head) == 0 {
		done, r.data = r.data, false
	}
	if value, is := bytes.CutPrefix(head, []byte("data")); is && (len(value) == 0 || value[0] == ':') {
		r.data = true
	}
	r.line = 0
	return done
}
