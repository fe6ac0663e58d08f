package report

import (
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Layout says what a text is laid out for.
type Layout struct {
	// Columns of the screen; 0 is 80.
	Columns int
	// Screen is a terminal: no line is wider than it, and what matters most is bold.
	// Elsewhere no cell of a table is cut and no column left out.
	Screen bool
	// Verbose leaves nothing out.
	Verbose bool
}

// columnsMost is how wide a text gets on a screen: longer lines are hard to follow.
const columnsMost = 120

func (l Layout) columns() int {
	if l.Columns <= 0 {
		return 80
	}
	return max(l.Columns, 20)
}

// wrap breaks a text at its spaces into lines of at most width columns. A word that
// is longer (a URL) is broken only on a screen, which would break it anyway.
func (l Layout) wrap(text string, width int) []string {
	if l.Screen {
		width = min(width, columnsMost)
	}
	width = max(width, 10)
	var lines []string
	line := ""
	for _, word := range words(text) {
		if line != "" && ansi.StringWidth(line)+1+ansi.StringWidth(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for line = word; l.Screen && ansi.StringWidth(line) > width; line = ansi.TruncateLeft(line, width, "") {
			lines = append(lines, ansi.Truncate(line, width, ""))
		}
	}
	return append(lines, line)
}

// words of a text; a figure and its unit, or a mark between figures, are one.
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

// isUnit tells what is not parted from the figure before it.
func isUnit(word string) bool {
	word = strings.TrimRight(word, ".,;:)")
	return slices.Contains([]string{"ns", "µs", "ms", "s", "req/s", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB", "Mbit/s", "Gbit/s", "Hz"}, word)
}

// Paragraph writes a text as wide as its layout allows.
func Paragraph(w io.Writer, text string, l Layout) error {
	p := &printer{w: w, Layout: l}
	p.text(0, text)
	return p.err
}

// bold is what a reader looks for first.
func (l Layout) bold(text string) string {
	if !l.Screen {
		return text
	}
	return "\x1b[1m" + text + "\x1b[m"
}

// col is a column of a table.
type col struct {
	name  string
	right bool // aligned: figures
	// drop is when the column is left out on a screen that is too narrow: the largest
	// first, 0 never.
	drop int
	// least is to how many columns the cells may be cut on a screen; 0 not at all.
	least int
	// fromLeft cuts at the beginning: of a URL the path tells more.
	fromLeft bool
}

// Column is one of a table whose rows come one by one, so its width is known before.
type Column struct {
	Name  string
	Width int
	Right bool // aligned: figures
	// Drop is when it is left out on a screen that is too narrow: the largest first, 0
	// never. Least is to how many columns its cells may be cut there; 0 not at all.
	Drop, Least int
}

// Rows answers what lays out the names and then each row of such a table.
func (l Layout) Rows(columns []Column) (names string, row func(cells ...string) string) {
	cols, widths, heads := make([]col, len(columns)), make([]int, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		cols[i], widths[i], heads[i] = col{name: c.Name, right: c.Right, drop: c.Drop, least: c.Least}, c.Width, c.Name
	}
	l.fit(cols, widths)
	row = func(cells ...string) string { return strings.TrimRight(l.row(cols, widths, cells), " ") }
	return row(heads...), row
}

// hidden is the drop of a column that is left out everywhere.
const hidden = math.MaxInt

// table is rows of cells below names, with two columns between them.
type table struct {
	cols []col
	rows [][]string
	// bars are drawn behind the rows where there is room, as shares of the largest.
	bars []float64
}

// afterBars is the drop from which on a column makes room for bars.
const afterBars = 4

// barLeast is below which a bar shows nothing.
const barLeast = 6

// write writes the table as its layout allows.
func (t *table) write(p *printer) {
	widths := make([]int, len(t.cols))
	for i, c := range t.cols {
		widths[i] = ansi.StringWidth(c.name)
		empty := true
		for _, row := range t.rows {
			widths[i] = max(widths[i], ansi.StringWidth(row[i]))
			empty = empty && (row[i] == "" || row[i] == "-")
		}
		if empty && c.drop > 0 || c.drop == hidden {
			widths[i] = 0
		}
	}
	used := p.fit(t.cols, widths)
	room := 0
	if t.bars != nil {
		if used+gap+barLeast > p.columns() && p.Screen {
			for i, c := range t.cols {
				if c.drop >= afterBars {
					widths[i] = 0
				}
			}
			used = p.fit(t.cols, widths)
		}
		if room = min(p.columns()-used-gap, barWidth); !p.Screen {
			room = max(room, barLeast)
		}
	}
	names := make([]string, len(t.cols))
	for i, c := range t.cols {
		names[i] = c.name
	}
	p.line("%s", strings.TrimRight(p.row(t.cols, widths, names), " "))
	for i, cells := range t.rows {
		text := p.row(t.cols, widths, cells)
		if room >= barLeast {
			text += strings.Repeat(" ", used+gap-ansi.StringWidth(text)) + bar(t.bars[i], slices.Max(t.bars), room)
		}
		p.line("%s", strings.TrimRight(text, " "))
	}
}

// gap is what is between two columns.
const gap = 2

// fit makes widths small enough for a screen: first the cells that may be cut, then
// whole columns, whose width becomes 0. It answers the width of a row.
func (l Layout) fit(cols []col, widths []int) int {
	total := func() (n int) {
		for _, w := range widths {
			if w > 0 {
				n += w + gap
			}
		}
		return n - gap
	}
	if !l.Screen {
		return total()
	}
	least := func() (n int) {
		for i, c := range cols {
			switch {
			case widths[i] == 0:
			case c.least > 0:
				n += min(widths[i], c.least) + gap
			default:
				n += widths[i] + gap
			}
		}
		return n - gap
	}
	for least() > l.columns() {
		at := 0
		for i, c := range cols {
			if widths[i] > 0 && c.drop > 0 && (cols[at].drop == 0 || widths[at] == 0 || c.drop > cols[at].drop) {
				at = i
			}
		}
		if cols[at].drop == 0 || widths[at] == 0 {
			break
		}
		widths[at] = 0
	}
	for over := total() - l.columns(); over > 0; over-- {
		at := -1
		for i, c := range cols {
			if c.least > 0 && widths[i] > c.least && (at < 0 || widths[i]-c.least > widths[at]-cols[at].least) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		widths[at]--
	}
	return total()
}

func (c *col) shorten(text string, width int) string {
	if over := ansi.StringWidth(text) - width; c.fromLeft && over > 0 {
		return ansi.TruncateLeft(text, over+1, "…")
	}
	return ansi.Truncate(text, width, "…")
}

// row lays cells out; a column of width 0 is left out.
func (l Layout) row(cols []col, widths []int, cells []string) string {
	var b strings.Builder
	owed := 0
	for i, c := range cols {
		if widths[i] == 0 {
			continue
		}
		text := cells[i]
		if c.least > 0 && l.Screen {
			text = c.shorten(text, widths[i])
		}
		pad := max(widths[i]-ansi.StringWidth(text), 0)
		if c.right {
			b.WriteString(strings.Repeat(" ", owed+pad) + text)
			owed = gap
		} else {
			b.WriteString(strings.Repeat(" ", owed) + text)
			owed = pad + gap
		}
	}
	return b.String()
}
