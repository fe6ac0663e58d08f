// Package eventstream parses server-sent events (HTML, section 9.2.6, "interpreting an event
// stream") incrementally, in pieces of any size. It finds the ends of events and our marks in
// their data; it stores no events.
package eventstream

import (
	"bytes"
	"errors"
)

const (
	// MaxLine limits a line, in bytes, to detect a server that never ends one.
	MaxLine = 1 << 20
	// kept is how much of a split line is kept: marks are at its beginning.
	kept = 512
)

// ErrLine is the error for a line over MaxLine.
var ErrLine = errors.New("event line over 1 MiB")

// ErrCut is the error for a stream that ended within an event, which browsers drop too.
var ErrCut = errors.New("event stream ended within an event")

// Mark is what an event says of itself, in its first 512 bytes of data as in
//
//	data: {"seq":17,"unix_ns":1732378123000000000,"monotonic_ns":81234567890,"boot":"1f2e3d4c"}
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
	part  []byte // start of a split line, at most kept bytes
	line  int    // length of that line so far
	after lineEnd
	begun bool // the stream is past its byte order mark
	data  bool // the current event has data
	mark  Mark
	boot  [8]byte
}

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
		if end < 0 {
			r.keep(piece)
			return len(b), false, nil
		}
		n += end + 1
		line := piece
		if r.line > 0 {
			r.keep(piece)
			line = r.part
		}
		done := r.take(line, r.line == 0 && len(piece) == 0)
		r.part, r.line = r.part[:0], 0
		if done {
			return n, true, nil
		}
	}
	return n, false, nil
}

// keep stores a piece of a line.
func (r *Reader) keep(piece []byte) {
	r.line += len(piece)
	r.part = append(r.part, piece[:min(len(piece), kept-len(r.part))]...)
}

// take interprets a line, of which at least the beginning is available, and reports whether it
// ended an event: one without data does not count.
func (r *Reader) take(line []byte, empty bool) (done bool) {
	if !r.begun {
		r.begun = true
		if line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")); len(line) == 0 {
			empty = true
		}
	}
	if empty {
		done, r.data = r.data, false
		return done
	}
	rest, found := bytes.CutPrefix(line, []byte("data"))
	if !found || len(rest) > 0 && rest[0] != ':' {
		return false // a comment, or a field irrelevant to the end of an event
	}
	if !r.data {
		r.data = true
		r.readMark(rest[:min(len(rest), kept)])
	}
	return false
}

// readMark parses our marks in the first line of an event's data.
func (r *Reader) readMark(b []byte) {
	r.mark = Mark{Seq: uint64(number(b, `"seq":`)), UnixNs: number(b, `"unix_ns":`)}
	if r.mark.UnixNs == 0 {
		return
	}
	if r.mark.MonotonicNs = number(b, `"monotonic_ns":`); r.mark.MonotonicNs == 0 {
		return
	}
	if _, after, found := bytes.Cut(b, []byte(`"boot":"`)); found && len(after) > len(r.boot) && after[len(r.boot)] == '"' {
		r.mark.Boot = r.boot[:copy(r.boot[:], after)]
	}
}

// number parses the number after name, of at most 19 digits; 0 if there is none.
func number(b []byte, name string) (v int64) {
	at := bytes.Index(b, []byte(name))
	if at < 0 {
		return 0
	}
	for i, c := range b[at+len(name):] {
		if c-'0' > 9 {
			break
		}
		if i == 18 && v > (1<<63-1-9)/10 {
			return 0
		}
		if i > 18 {
			return 0
		}
		v = v*10 + int64(c-'0')
	}
	return v
}

// Mark returns the mark of the event that Next ended.
func (r *Reader) Mark() *Mark { return &r.mark }

// EOF returns the error, if any, of the stream ending here.
func (r *Reader) EOF() error {
	if r.data || r.line > 0 {
		return ErrCut
	}
	return nil
}

// Reset prepares the reader for a new stream.
func (r *Reader) Reset() { *r = Reader{part: r.part[:0]} }
