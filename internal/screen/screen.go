// Package screen emulates as much of a terminal as tests need: it interprets a program's output
// and returns the visible text.
package screen

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Screen is a terminal's content, including what has scrolled away. It is safe for concurrent
// use.
type Screen struct {
	mu            sync.Mutex
	width, height int
	cells         [][]rune
	row, col      int
	above         []string
	hidden        bool
	asked         []string
	unknown       []string
	rest          []byte
	last          rune
}

// New returns an empty screen of that many columns and rows.
func New(width, height int) *Screen {
	s := &Screen{width: width, height: height}
	for range height {
		s.cells = append(s.cells, s.empty())
	}
	return s
}

func (s *Screen) empty() []rune { return []rune(strings.Repeat(" ", s.width)) }

// Text returns the scrolled and the visible text, without trailing blanks.
func (s *Screen) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := slices.Clone(s.above)
	for _, c := range s.cells {
		lines = append(lines, strings.TrimRight(string(c), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// CursorHidden reports whether the program has hidden the cursor.
func (s *Screen) CursorHidden() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hidden
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

// Write implements io.Writer.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	for len(s.rest) > 0 {
		n := s.one(s.rest)
		if n == 0 {
			break // an incomplete sequence
		}
		s.rest = s.rest[n:]
	}
	return len(p), nil
}

// one interprets a character or a sequence and returns its length, 0 if it is incomplete.
func (s *Screen) one(b []byte) int {
	switch b[0] {
	case '\r':
		s.col = 0
		return 1
	case '\n':
		s.down()
		return 1
	case '\b':
		s.col = max(s.col-1, 0)
		return 1
	case '\t':
		s.col = min(s.col/8*8+8, s.width-1)
		return 1
	case 0x1b:
		return s.escape(b)
	}
	if b[0] < 0x20 {
		return 1
	}
	if !utf8.FullRune(b) {
		return 0
	}
	r, n := utf8.DecodeRune(b)
	s.put(r)
	return n
}

func (s *Screen) put(r rune) {
	if s.col >= s.width {
		s.col = 0
		s.down()
	}
	s.cells[s.row][s.col] = r
	s.col++
	s.last = r
}

func (s *Screen) down() {
	if s.row < s.height-1 {
		s.row++
		return
	}
	s.above = append(s.above, strings.TrimRight(string(s.cells[0]), " "))
	s.cells = append(s.cells[1:], s.empty())
}

// escape interprets a sequence (ECMA-48).
func (s *Screen) escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] == ']' { // a title, a colour: up to BEL or ST
		for i := 2; i < len(b); i++ {
			if b[i] == 7 {
				return i + 1
			}
			if b[i] == '\\' && b[i-1] == 0x1b {
				return i + 1
			}
		}
		return 0
	}
	if b[1] != '[' {
		if b[1] == 'M' {
			s.row = max(s.row-1, 0)
			return 2
		}
		s.unknown = append(s.unknown, strconv.Quote(string(b[:2])))
		return 2
	}
	for i := 2; i < len(b); i++ {
		if b[i] >= 0x40 && b[i] <= 0x7e {
			s.control(string(b[2:i]), b[i])
			return i + 1
		}
	}
	return 0
}

func (s *Screen) control(args string, final byte) {
	n := 1
	if v, err := strconv.Atoi(strings.Split(args, ";")[0]); err == nil {
		n = v
	}
	s.col = min(s.col, s.width-1)
	switch final {
	case 'A':
		s.row = max(s.row-n, 0)
	case 'B':
		s.row = min(s.row+n, s.height-1)
	case 'C':
		s.col = min(s.col+n, s.width-1)
	case 'D':
		s.col = max(s.col-n, 0)
	case 'G', '`':
		s.col = min(max(n-1, 0), s.width-1)
	case 'd':
		s.row = min(max(n-1, 0), s.height-1)
	case 'H':
		row, col, _ := strings.Cut(args, ";")
		y, _ := strconv.Atoi(row)
		x, _ := strconv.Atoi(col)
		s.row, s.col = min(max(y-1, 0), s.height-1), min(max(x-1, 0), s.width-1)
	case 'J', 'K', 'X':
		s.erase(final, args, n)
	case 'L', 'M':
		s.shift(final == 'L', n)
	case 'P', '@':
		line := s.cells[s.row]
		n = min(n, s.width-s.col)
		if final == 'P' {
			copy(line[s.col:], line[s.col+n:])
			copy(line[s.width-n:], s.empty())
		} else {
			copy(line[s.col+n:], line[s.col:])
			copy(line[s.col:s.col+n], s.empty())
		}
	case 'b':
		for range n {
			s.put(s.last)
		}
	case 'h', 'l':
		if args == "?25" {
			s.hidden = final == 'l'
		}
	case 'm':
	case 'p', 'n', 'c', 'u':
		s.asked = append(s.asked, args+string(final))
	default:
		s.unknown = append(s.unknown, strconv.Quote(args+string(final)))
	}
}

func (s *Screen) erase(final byte, args string, n int) {
	switch {
	case final == 'X':
		copy(s.cells[s.row][s.col:], []rune(strings.Repeat(" ", min(n, s.width-s.col))))
	case final == 'K' && (args == "" || args == "0"):
		copy(s.cells[s.row][s.col:], s.empty())
	case final == 'K' && args == "1":
		copy(s.cells[s.row][:s.col+1], s.empty())
	case final == 'K':
		s.cells[s.row] = s.empty()
	case args == "" || args == "0":
		copy(s.cells[s.row][s.col:], s.empty())
		for i := s.row + 1; i < s.height; i++ {
			s.cells[i] = s.empty()
		}
	default:
		for i := range s.cells {
			s.cells[i] = s.empty()
		}
	}
}

func (s *Screen) shift(insert bool, n int) {
	for range n {
		if insert {
			copy(s.cells[s.row+1:], s.cells[s.row:s.height-1])
			s.cells[s.row] = s.empty()
		} else {
			copy(s.cells[s.row:], s.cells[s.row+1:])
			s.cells[s.height-1] = s.empty()
		}
	}
}
