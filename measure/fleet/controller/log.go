package controller

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// logger writes the server's messages, one line each: warnings and errors, not its notices. It is
// rate-limited, so that a flood of bad logins fills neither disk nor screen.
type logger struct {
	out    io.Writer
	fatal  chan string   // the first one; the server logs it and continues
	broken chan struct{} // signalled when NATS could not write

	mu     sync.Mutex
	second int64 // in which the lines are counted
	lines  int
	left   int  // lines not written
	failed bool // a write failure has been reported
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

// printable keeps control characters from remote clients off the terminal.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
		return ' '
	}
	return r
}

// Noticef drops what the server considers normal, except a slow consumer, which it disconnects.
func (l *logger) Noticef(format string, a ...any) {
	if strings.Contains(format, "Slow Consumer") {
		l.nats(format, a...)
	}
}

// Debugf is for connections that begin without TLS, which the server takes for load-balancer
// probes.
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

// nats drops what the gate has logged better, and what is expected.
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

// report marks that a write failed; false if that was already reported.
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

// mend clears that mark.
func (l *logger) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = false
}
