package layout

import (
	"math"
	"slices"
	"strings"
)

// Column is a column of a table.
type Column struct {
	Name string
	// Long is its name on a page; "": the same.
	Long string
	// Width is fixed in advance for a Grid, whose rows arrive one by one; a Table measures its cells.
	Width int
	Right bool // aligned: figures
	// Drop is the order in which columns are dropped on a narrow screen: largest first, 0 never.
	Drop int
	// Least is the width to which cells may be cut on a screen; 0 never.
	Least int
	// FromLeft cuts at the start: the path of a URL says more than its host.
	FromLeft bool
}

// Hidden is the Drop of a column that only a page has room for.
const Hidden = math.MaxInt

// Grid is the columns of a table with their final widths.
type Grid struct {
	out     Output
	columns []Column
	widths  []int // 0: dropped
}

// NewGrid fits columns of fixed width to the output.
func NewGrid(o Output, columns []Column) *Grid {
	g := &Grid{o, columns, make([]int, len(columns))}
	for i, c := range columns {
		g.widths[i] = max(c.Width, TextWidth(c.Name))
	}
	g.fit()
	return g
}

// Head returns the header row.
func (g *Grid) Head() string {
	names := make([]string, len(g.columns))
	for i, c := range g.columns {
		names[i] = c.Name
	}
	return g.Row(names...)
}

// Row formats a row; dropped columns are left out.
func (g *Grid) Row(cells ...string) string {
	var b strings.Builder
	owed := 0
	for i, c := range g.columns {
		if g.widths[i] == 0 {
			continue
		}
		text := cells[i]
		if c.Least > 0 && g.out.Screen {
			text = c.shorten(text, g.widths[i])
		}
		pad := max(g.widths[i]-TextWidth(text), 0)
		if c.Right {
			b.WriteString(strings.Repeat(" ", owed+pad) + text)
			owed = Gap
		} else {
			b.WriteString(strings.Repeat(" ", owed) + text)
			owed = pad + Gap
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Bounded truncates, on a screen, the cells that Row leaves whole; no cell below least columns.
func (g *Grid) Bounded(cells []string, least int) []string {
	for i, c := range g.columns {
		if g.out.Screen && c.Least == 0 && g.widths[i] > 0 {
			cells[i] = Truncate(cells[i], max(g.widths[i], least), "…")
		}
	}
	return cells
}

// Gap is the space between two columns.
const Gap = 2

// width returns the width of a row.
func (g *Grid) width() int {
	n := -Gap
	for _, w := range g.widths {
		if w > 0 {
			n += w + Gap
		}
	}
	return n
}

// cutWidth returns the width of a row with every cell cut as far as allowed.
func (g *Grid) cutWidth() int {
	n := -Gap
	for i, c := range g.columns {
		switch w := g.widths[i]; {
		case w == 0:
		case c.Least > 0:
			n += min(w, c.Least) + Gap
		default:
			n += w + Gap
		}
	}
	return n
}

// fit reduces widths to fit a screen: it drops the columns without which the others can be cut
// enough, and then cuts.
func (g *Grid) fit() {
	if !g.out.Screen {
		return
	}
	for g.cutWidth() > g.out.Width() {
		at := 0
		for i, c := range g.columns {
			if g.widths[i] > 0 && c.Drop > 0 && (g.columns[at].Drop == 0 || g.widths[at] == 0 || c.Drop > g.columns[at].Drop) {
				at = i
			}
		}
		if g.columns[at].Drop == 0 || g.widths[at] == 0 {
			break
		}
		g.widths[at] = 0
	}
	for over := g.width() - g.out.Width(); over > 0; over-- {
		at := -1
		for i, c := range g.columns {
			if c.Least > 0 && g.widths[i] > c.Least && (at < 0 || g.widths[i]-c.Least > g.widths[at]-g.columns[at].Least) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		g.widths[at]--
	}
}

func (c *Column) shorten(text string, width int) string {
	if c.FromLeft && TextWidth(text) > width {
		return truncateLeft(text, width, "…")
	}
	return Truncate(text, width, "…")
}

// Table is rows of cells below a header, with two spaces between columns.
type Table struct {
	Columns []Column
	Rows    [][]string
	// Bars are drawn after the rows if there is room, as shares of the largest.
	Bars []float64
}

// Bars need barLeast columns to be useful and have at most BarWidth; columns whose Drop is afterBars
// or more give way to them.
const (
	BarWidth  = 12
	barLeast  = 6
	afterBars = 4
)

// Lines formats the table.
func (t *Table) Lines(o Output) []string {
	g := &Grid{o, t.Columns, make([]int, len(t.Columns))}
	for i, c := range t.Columns {
		g.widths[i] = TextWidth(c.Name)
		empty := true
		for _, row := range t.Rows {
			g.widths[i] = max(g.widths[i], TextWidth(row[i]))
			empty = empty && (row[i] == "" || row[i] == "-")
		}
		if empty && c.Drop > 0 || c.Drop == Hidden {
			g.widths[i] = 0
		}
	}
	g.fit()
	room := 0
	if t.Bars != nil {
		room = g.roomForBars()
	}
	lines := []string{g.Head()}
	for i, cells := range t.Rows {
		text := g.Row(cells...)
		if room >= barLeast {
			text += strings.Repeat(" ", g.width()+Gap-TextWidth(text)) + Bar(t.Bars[i], slices.Max(t.Bars), room)
		}
		lines = append(lines, strings.TrimRight(text, " "))
	}
	return lines
}

// roomForBars returns the width of the largest bar, after it has dropped the columns that give way.
func (g *Grid) roomForBars() int {
	if !g.out.Screen {
		return max(min(g.out.Width()-g.width()-Gap, BarWidth), barLeast)
	}
	if g.width()+Gap+barLeast > g.out.Width() {
		for i, c := range g.columns {
			if c.Drop >= afterBars {
				g.widths[i] = 0
			}
		}
	}
	return min(g.out.Width()-g.width()-Gap, BarWidth)
}

// Bar draws in eighths of a column.
func Bar(value, most float64, width int) string {
	if !(most > 0) || !(value > 0) {
		return ""
	}
	eighths := int(math.Round(8 * float64(width) * value / most))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text
}
