package report

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// besideLeast is how many columns a text needs beside what it hangs below.
const besideLeast = 24

// Fold breaks the lines of a text that are wider than the screen at their spaces: what
// is broken off hangs below the last column of its line. Elsewhere than on a screen the
// text stays as it is.
func (l Layout) Fold(text string) string {
	if !l.Screen {
		return text
	}
	var out []string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if ansi.StringWidth(line) <= l.columns() {
			out = append(out, line)
			continue
		}
		for ; i+1 < len(lines) && goesOn(line, lines[i+1]); i++ {
			line += " " + lines[i+1]
		}
		out = append(out, l.hung(line)...)
	}
	return strings.Join(out, "\n")
}

// goesOn: the next line is of the same paragraph, at the margin both of them, without
// columns.
func goesOn(line, next string) bool {
	r, _ := utf8.DecodeRuneInString(next)
	return !strings.HasPrefix(line, " ") && !strings.Contains(line, "  ") && unicode.IsLower(r)
}

// hung is a line in pieces that fit.
func (l Layout) hung(line string) []string {
	at := lastColumn(line, l.columns()-besideLeast)
	head, tail := line[:at], line[at:]
	indent := ansi.StringWidth(head)
	var out []string
	if l.columns()-indent < besideLeast {
		if strings.TrimSpace(head) != "" {
			out = append(out, strings.TrimRight(head, " "))
		}
		indent = min(8, l.columns()/4)
		head = strings.Repeat(" ", indent)
	}
	for i, piece := range l.wrap(tail, l.columns()-indent) {
		if i > 0 {
			head = strings.Repeat(" ", indent)
		}
		out = append(out, head+piece)
	}
	return out
}

// lastColumn is where the last column of a line begins that begins before most; the first
// one where none does, and the text of a line without columns.
func lastColumn(line string, most int) int {
	text := len(line) - len(strings.TrimLeft(line, " "))
	at, spaces := text, 0
	for i, r := range line[text:] {
		if r != ' ' {
			if begins := text + i; spaces > 1 && (at == text || begins <= most) {
				at = begins
			}
			spaces = 0
			continue
		}
		spaces++
	}
	return at
}
