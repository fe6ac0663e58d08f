package controller

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// logger writes the server's messages, one line each: warnings and errors, not its notices. It is
// rate-limited, so that a flood of bad logins fills neither disk nor screen.
type logger struct {
	out     io.Writer
	written counter
	fatal   chan string // the first one; the server logs it and continues
}

const (
	linesPerSecond = 20
	longestLine    = 500
)

func newLogger(out io.Writer) *logger {
	return &logger{out: out, fatal: make(chan string, 1)}
}

func (l *logger) line(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	switch n := l.written.next(""); {
	case n == linesPerSecond:
		text = "more lines of this second are not written"
	case n > linesPerSecond:
		return
	case len(text) > longestLine:
		text = text[:longestLine] + "…"
	}
	fmt.Fprintf(l.out, "controller: %s\n", strings.Map(printable, text))
}

// printable keeps control characters from remote clients off the terminal.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// Noticef drops what the server considers normal, except a slow consumer, which it disconnects.
func (l *logger) Noticef(format string, a ...any) {
	if strings.Contains(format, "Slow Consumer") {
		l.line(format, a...)
	}
}

// Debugf is for connections that begin without TLS, which the server takes for load-balancer
// probes.
func (l *logger) Debugf(format string, a ...any) {
	if strings.Contains(format, "TLS handshake error") {
		l.line(format, a...)
	}
}

func (l *logger) Tracef(string, ...any)          {}
func (l *logger) Errorf(format string, a ...any) { l.line(format, a...) }

// Warnf drops that this server begins with TLS.
func (l *logger) Warnf(format string, a ...any) {
	if !strings.Contains(format, "TLS Handshake First") {
		l.line(format, a...)
	}
}

func (l *logger) Fatalf(format string, a ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, a...):
	default:
	}
}
