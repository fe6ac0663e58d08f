package apps

import (
	"bytes"
	"io"
	"sync"
)

// shared is a writer of several applications.
type shared struct {
	mu sync.Mutex
	to io.Writer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(b)
}

// longestLine is where a line is broken that does not end.
const longestLine = 16 << 10

// lines passes whole lines on, each with a prefix. What cannot be written is lost:
// an application must not stand still because nobody reads its log.
type lines struct {
	prefix string
	to     io.Writer
	rest   []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 && len(l.rest) < longestLine {
			return len(b), nil
		}
		n, skip := i, i+1
		if i < 0 || i > longestLine {
			n, skip = longestLine, longestLine
		}
		l.line(l.rest[:n])
		l.rest = append(l.rest[:0], l.rest[skip:]...)
	}
}

func (l *lines) line(b []byte) {
	_, _ = l.to.Write(append(append([]byte(l.prefix), b...), '\n')) // lost, see above
}

// flush passes on what has no end of line.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.line(l.rest)
		l.rest = nil
	}
}
