// Package layout fits text and tables to the output they are written to.
package layout

import (
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/term"
	"github.com/clipperhouse/displaywidth"
)

// Output describes where a text is written.
type Output struct {
	// Columns is the width of the screen; 0 is 80.
	Columns int
	// Screen is set for a terminal: no line is wider than it, and the main results are bold.
	// Otherwise no cell of a table is cut and no column dropped.
	Screen bool
}

// WidthMost is the maximum width of a text on a screen: longer lines are hard to read.
const WidthMost = 120

// Width is the number of columns that a line may have.
func (o Output) Width() int {
	if o.Columns <= 0 {
		return 80
	}
	return max(o.Columns, 20)
}

// Wrap breaks a text into lines of at most width columns. It breaks a longer word (a URL) only on
// a screen, which would break it anyway.
func (o Output) Wrap(text string, width int) []string {
	if o.Screen {
		width = min(width, WidthMost)
	}
	width = max(width, 10)
	var lines []string
	line := ""
	for _, word := range words(text) {
		if line != "" && TextWidth(line)+1+TextWidth(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for line = word; o.Screen && TextWidth(line) > width; {
			start := Truncate(line, width, "")
			lines, line = append(lines, start), line[len(start):]
		}
	}
	return append(lines, line)
}

// words splits a text; a figure and its unit, or figures joined by a sign, stay together.
func words(text string) []string {
	var list []string
	for _, word := range strings.Fields(text) {
		last := len(list) - 1
		if last >= 0 && (isUnit(word) && endsInDigit(list[last]) || word == "·") {
			list[last] += " " + word
			continue
		}
		list = append(list, word)
	}
	return list
}

func endsInDigit(word string) bool {
	r, _ := utf8.DecodeLastRuneInString(word)
	return unicode.IsDigit(r)
}

// isUnit reports whether a word must stay with the figure before it.
func isUnit(word string) bool {
	word = strings.TrimRight(word, ".,;:)")
	return slices.Contains([]string{"ns", "µs", "ms", "s", "req/s", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB", "Mbit/s", "Gbit/s", "Hz"}, word)
}

// Paragraph writes a text, wrapped.
func (o Output) Paragraph(w io.Writer, text string) error {
	_, err := io.WriteString(w, strings.Join(o.Wrap(text, o.Width()), "\n")+"\n")
	return err
}

// seen ignores escape sequences, which take no column.
func seen() displaywidth.Options { return displaywidth.Options{ControlSequences: true} }

// TextWidth returns how many columns a text takes.
func TextWidth(text string) int { return seen().String(text) }

// Truncate cuts a text that is wider; tail, which is within the width, is then its end.
func Truncate(text string, width int, tail string) string {
	return seen().TruncateString(text, width, tail)
}

// truncateLeft cuts the start off a text, to at most width columns with the head that takes its place.
func truncateLeft(text string, width int, head string) string {
	parts := displaywidth.StringGraphemes(text)
	for over := TextWidth(text) + TextWidth(head) - width; over > 0 && parts.Next(); over -= parts.Width() {
		text = text[len(parts.Value()):]
	}
	return head + text
}

// Bold highlights the main results.
func (o Output) Bold(text string) string {
	if !o.Screen {
		return text
	}
	return "\x1b[1m" + text + "\x1b[m"
}

// Columns returns the width of a terminal, 80 if unknown.
func Columns(w *os.File) int {
	width, _, err := term.GetSize(w.Fd())
	if err != nil || width <= 0 {
		return 80
	}
	return width
}
