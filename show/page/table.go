package page

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"ceiling/show/layout"
)

// Widths in characters of a table's font. A phone of 360 pixels shows about 328 of a page, and a
// character takes about 7.6.
const (
	phoneMost   = 42 // of all columns side by side
	columnSpace = 2  // between two columns
	foldedFrom  = 18 // text, unless numeric, is folded from this length
	pictureWide = 20 // a sparkline, or a share with its bounds
	thirdMost   = 13 // a value in a third of a card
	halfMost    = 20 // a value in half of a card
)

// tableOf is a table of an answer with the columns that a page has room for.
func tableOf(caption string, t *layout.Table) Table {
	out := Table{Caption: caption}
	for _, c := range t.Columns {
		out.Columns = append(out.Columns, Column{Name: cmp.Or(c.Long, c.Name), Figure: c.Right})
	}
	for _, cells := range t.Rows {
		row := make([]Cell, len(cells))
		for i, text := range cells {
			row[i].Text = redact(text)
			if text == "-" || text == "" {
				row[i].Text = "–"
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// Cards reports whether the columns do not fit side by side on a phone. If so, each row becomes a
// card there, labelled with the column heads.
func (t Table) Cards() bool {
	if t.Fields && len(t.Columns) <= 2 {
		return false // values of any length fold instead
	}
	sum := -columnSpace
	for i := range t.Columns {
		sum += t.columnWidth(i) + columnSpace
	}
	return sum > phoneMost
}

// denseFrom is the number of columns from which a table uses a smaller font, to fit a desktop
// screen.
const denseFrom = 12

// Class returns the CSS class of the table.
func (t Table) Class() string {
	var list []string
	if t.Cards() {
		list = append(list, "cards")
	}
	if len(t.Columns) >= denseFrom {
		list = append(list, "dense")
	}
	return strings.Join(list, " ")
}

// columnWidth returns a column's width in characters once its texts are folded.
func (t Table) columnWidth(i int) int {
	most := 0
	for _, word := range strings.Fields(t.Columns[i].Name) {
		most = max(most, utf8.RuneCountInString(word))
	}
	longest := t.longest(i)
	if !t.Columns[i].Figure {
		longest = min(longest, foldedFrom)
	}
	return max(most, longest)
}

// longest returns the length of a column's longest text, in characters.
func (t Table) longest(i int) int {
	most := 0
	for _, row := range t.Rows {
		if i < len(row) {
			most = max(most, row[i].width())
		}
	}
	return most
}

func (c Cell) width() int {
	switch {
	case c.Spark != nil || c.Range != nil:
		return pictureWide
	case c.Tone != "":
		return columnSpace + utf8.RuneCountInString(c.Text)
	}
	return utf8.RuneCountInString(c.Text)
}

// Labelled returns the columns in the form that the cells of a row need.
func (t Table) Labelled() []Labelled {
	cards := t.Cards()
	list := make([]Labelled, len(t.Columns))
	for i, c := range t.Columns {
		list[i] = Labelled{Column: c}
		if cards {
			list[i].Label = c.Name
			list[i].longest = t.longest(i)
		}
	}
	return list
}

// Labelled is a column with its cells' label in a card.
type Labelled struct {
	Column
	// Label is its name, "" in a table without cards.
	Label   string
	longest int // of its texts, in characters; 0 in a table without cards
}

// Classes returns the CSS classes of a cell of the column.
func (l Labelled) Classes(c Cell) string {
	var list []string
	if l.Figure {
		list = append(list, "figure")
	}
	switch {
	case l.longest > halfMost:
		list = append(list, "line")
	case l.longest > thirdMost:
		list = append(list, "half")
	}
	if !l.Figure && c.Long() {
		list = append(list, "long")
	}
	return strings.Join(list, " ")
}
