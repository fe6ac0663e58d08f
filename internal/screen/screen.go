// Package screen is a terminal for tests: an emulator that remembers what it was asked and what it
// does not know.
package screen

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// Screen is a terminal's content, including what has scrolled away. It is safe for concurrent use.
type Screen struct {
	mu             sync.Mutex
	terminal       *vt.Emulator
	asked, unknown []string
}

// New returns an empty screen of that many columns and rows.
func New(width, height int) *Screen {
	s := &Screen{terminal: vt.NewEmulator(width, height)}
	s.terminal.SetLogger(logger{s})
	// What a program asks is not answered: nobody reads the answer.
	for _, query := range []int{'c', ansi.Command('>', 0, 'c'), 'n', ansi.Command('?', 0, 'n'), ansi.Command(0, '$', 'p'),
		ansi.Command('?', '$', 'p'), ansi.Command('?', 0, 'u')} {
		s.terminal.RegisterCsiHandler(query, func(ansi.Params) bool {
			s.asked = append(s.asked, string(ansi.Cmd(query).Final()))
			return true
		})
	}
	return s
}

// logger gets the sequences that the emulator ignores, and others.
type logger struct{ s *Screen }

func (l logger) Printf(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); strings.HasPrefix(text, "unhandled") {
		l.s.unknown = append(l.s.unknown, text)
	}
}

// Write implements io.Writer.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.terminal.Write(p)
}

// Text returns the scrolled and the visible text, without trailing blanks.
func (s *Screen) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, line := range s.terminal.Scrollback().Lines() {
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return strings.TrimRight(strings.Join(append(lines, s.terminal.String()), "\n"), "\n")
}

// CursorHidden reports whether the program has hidden the cursor.
func (s *Screen) CursorHidden() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.terminal.CursorHidden()
}

// Asked returns the sequences that a terminal would have answered on its input.
func (s *Screen) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Unknown returns the ignored sequences: the content may differ from a real terminal's.
func (s *Screen) Unknown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unknown)
}
