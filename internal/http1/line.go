package http1

import "bytes"

// lines splits received bytes into lines. A line that lies in one buffer is a view of it; only a
// split one is copied. Every byte is examined once, however small the pieces.
type lines struct {
	partial []byte // the beginning of a split line; nil most of the time
	size    int    // bytes of the complete lines of this section (head, trailer, chunk line)
}

type lineIs uint8

const (
	lineWhole lineIs = iota
	lineSplit        // b ended before the line did
	lineLong         // the section exceeds its limit
	lineBare         // the line ends in LF without CR
)

// next returns the first line of b without its CRLF, valid until the next call, and the number of
// bytes taken from b. limit bounds the section in bytes.
func (l *lines) next(b []byte, limit int) (line []byte, n int, is lineIs) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return nil, len(b), l.keep(b, limit)
	}
	line, n = b[:i+1], i+1
	if len(l.partial) > 0 {
		if is := l.keep(line, limit); is == lineLong {
			return nil, n, is
		}
		line, l.partial = l.partial, l.partial[:0]
	}
	l.size += len(line)
	if l.size > limit {
		return nil, n, lineLong
	}
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return line[:len(line)-1], n, lineBare
	}
	return line[:len(line)-2], n, lineWhole
}

func (l *lines) keep(b []byte, limit int) lineIs {
	if l.size+len(l.partial)+len(b) > limit {
		return lineLong
	}
	l.partial = append(l.partial, b...)
	return lineSplit
}

// free drops the section and releases its memory.
func (l *lines) free() { *l = lines{} }
