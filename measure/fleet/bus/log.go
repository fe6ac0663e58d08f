package bus

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// logger writes what the server has to say, a line each: warnings and errors,
// not its notices. It is bounded, so that a flood of bad logins fills no disk
// and no screen.
type logger struct {
	out    io.Writer
	fatal  chan string   // the first one; the server says fatal and goes on
	broken chan struct{} // told when NATS could not write

	mu     sync.Mutex
	second int64 // of the lines counted
	lines  int
	left   int  // lines that were not written
	failed bool // a write failed, and that was said
}

const (
	linesPerSecond = 20
	longestLine    = 500
)

func newLogger(out io.Writer) *logger {
	return &logger{out: out, fatal: make(chan string, 1), broken: make(chan struct{}, 1)}
}

func (l *logger) line(format string, a ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now().Unix(); now != l.second {
		if l.left > 0 {
			fmt.Fprintf(l.out, "controller: %d lines more like these were not written\n", l.left)
		}
		l.second, l.lines, l.left = now, 0, 0
	}
	if l.lines++; l.lines > linesPerSecond {
		l.left++
		return
	}
	text := strings.Map(printable, fmt.Sprintf(format, a...))
	if len(text) > longestLine {
		text = text[:longestLine] + "…"
	}
	fmt.Fprintf(l.out, "controller: %s\n", text)
}

// printable keeps what strangers send from moving a terminal's cursor.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
		return ' '
	}
	return r
}

// Noticef is for what the server thinks normal: all but a client that does not
// read, which is cut off.
func (l *logger) Noticef(format string, a ...any) {
	if strings.Contains(format, "Slow Consumer") {
		l.nats(format, a...)
	}
}

// Debugf is for connections that begin without TLS, which the server takes for
// the probes of a load balancer.
func (l *logger) Debugf(format string, a ...any) {
	if strings.Contains(format, "TLS handshake error") {
		l.nats(format, a...)
	}
}

func (l *logger) Tracef(string, ...any)          {}
func (l *logger) Warnf(format string, a ...any)  { l.nats(format, a...) }
func (l *logger) Errorf(format string, a ...any) { l.nats(format, a...) }
func (l *logger) Fatalf(format string, a ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, a...):
	default:
	}
}

// nats leaves out what the gate has said better, and what is as it should be.
func (l *logger) nats(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	if strings.Contains(text, "authentication error") || strings.Contains(text, "TLS Handshake First") {
		return
	}
	if strings.Contains(text, "rite error") || strings.Contains(text, "failed to store") || strings.Contains(text, "no space left") {
		if l.report() {
			l.line("%s", text)
		}
		return
	}
	l.line("%s", text)
}

// report tells that a write failed; false if that was told before.
func (l *logger) report() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed {
		return false
	}
	l.failed = true
	select {
	case l.broken <- struct{}{}:
	default:
	}
	return true
}

// mend forgets that.
func (l *logger) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = false
}
