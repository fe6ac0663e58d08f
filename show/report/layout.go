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

// Layout describes the output that a text is formatted for.
type Layout struct {
	// Columns is the width of the screen; 0 is 80.
	Columns int
	// Screen is set for a terminal: no line is wider than it, and the main results are bold.
	// Otherwise no cell of a table is cut and no column dropped.
	Screen bool
	// Verbose omits nothing.
	Verbose bool
}

// columnsMost is the maximum width of a text on a screen: longer lines are hard to read.
const columnsMost = 120

func (l Layout) columns() int {
	if l.Columns <= 0 {
		return 80
	}
	return max(l.Columns, 20)
}

// wrap breaks a text into lines of at most width columns. It breaks a longer word (a URL) only on
// a screen, which would break it anyway.
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

// Paragraph writes a text, wrapped for its layout.
func Paragraph(w io.Writer, text string, l Layout) error {
	p := &printer{w: w, Layout: l}
	p.text(0, text)
	return p.err
}

// bold highlights the main results.
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
	// drop is the order in which columns are dropped on a narrow screen: largest first, 0 never.
	drop int
	// least is the width to which cells may be cut on a screen; 0 never.
	least int
	// fromLeft cuts at the start: the path of a URL says more than its host.
	fromLeft bool
}

// Column is a column of a table whose rows arrive one by one, so its width is fixed in advance.
type Column struct {
	Name  string
	Width int
	Right bool // aligned: figures
	// Drop is the order in which columns are dropped on a narrow screen: largest first, 0 never.
	// Least is the width to which cells may be cut there; 0 never.
	Drop, Least int
}

// Rows returns the header of such a table and a function that formats its rows.
func (l Layout) Rows(columns []Column) (names string, row func(cells ...string) string) {
	cols, widths, heads := make([]col, len(columns)), make([]int, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		cols[i], widths[i], heads[i] = col{name: c.Name, right: c.Right, drop: c.Drop, least: c.Least}, c.Width, c.Name
	}
	l.fit(cols, widths)
	row = func(cells ...string) string { return strings.TrimRight(l.row(cols, widths, cells), " ") }
	return row(heads...), row
}

// hidden is the drop of a column that is always omitted.
const hidden = math.MaxInt

// table is rows of cells below a header, with two spaces between columns.
type table struct {
	cols []col
	rows [][]string
	// bars are drawn after the rows if there is room, as shares of the largest.
	bars []float64
}

// afterBars is the drop from which columns give way to bars.
const afterBars = 4

// barLeast is the minimum useful width of a bar.
const barLeast = 6

// write writes the table for its layout.
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

// gap is the space between two columns.
const gap = 2

// fit reduces widths to fit a screen: first it cuts cells, then drops columns, whose width
// becomes 0. It returns the width of a row.
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

// row formats a row; it skips columns of width 0.
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
