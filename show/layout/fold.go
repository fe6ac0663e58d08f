package layout

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// besideLeast is the minimum width of a hanging text, in columns.
const besideLeast = 24

// Fold wraps the lines of a text that are wider than the screen: continuations align with the
// last column of their line. If the output is not a screen, the text is unchanged.
func (o Output) Fold(text string) string {
	if !o.Screen {
		return text
	}
	var out []string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if TextWidth(line) <= o.Width() {
			out = append(out, line)
			continue
		}
		for ; i+1 < len(lines) && goesOn(line, lines[i+1]); i++ {
			line += " " + lines[i+1]
		}
		out = append(out, o.hung(line)...)
	}
	return strings.Join(out, "\n")
}

// goesOn reports whether the next line continues the same paragraph: both start at the margin and
// have no columns.
func goesOn(line, next string) bool {
	r, _ := utf8.DecodeRuneInString(next)
	return !strings.HasPrefix(line, " ") && !strings.Contains(line, "  ") && unicode.IsLower(r)
}

// hung splits a line into pieces that fit.
func (o Output) hung(line string) []string {
	at := lastColumn(line, o.Width()-besideLeast)
	head, tail := line[:at], line[at:]
	indent := TextWidth(head)
	var out []string
	if o.Width()-indent < besideLeast {
		if strings.TrimSpace(head) != "" {
			out = append(out, strings.TrimRight(head, " "))
		}
		indent = min(8, o.Width()/4)
		head = strings.Repeat(" ", indent)
	}
	for i, piece := range o.Wrap(tail, o.Width()-indent) {
		if i > 0 {
			head = strings.Repeat(" ", indent)
		}
		out = append(out, head+piece)
	}
	return out
}

// lastColumn returns the start of the line's last column that begins before most; the first
// column if none does, and the start of the text for a line without columns.
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
