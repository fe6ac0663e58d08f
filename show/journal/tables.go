package journal

import (
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	tables "github.com/yuin/goldmark/extension/ast"

	"ceiling/show/page"
)

// labelTable adds column names to the cells of a table that is too wide for a phone.
func (w *written) labelTable(t *tables.Table) {
	var shape page.Table
	var rows [][]ast.Node
	for row := t.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []page.Cell
		var nodes []ast.Node
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells, nodes = append(cells, page.Cell{Text: w.seen(cell)}), append(nodes, cell)
		}
		if row.Kind() == tables.KindTableHeader {
			for i, c := range cells {
				right := i < len(t.Alignments) && t.Alignments[i] == tables.AlignRight
				shape.Columns = append(shape.Columns, page.Column{Name: c.Text, Figure: right})
			}
			continue
		}
		shape.Rows, rows = append(shape.Rows, cells), append(rows, nodes)
	}
	if !shape.Cards() {
		return
	}
	t.SetAttributeString("class", []byte("cards"))
	columns := shape.Labelled()
	for n, row := range rows {
		for i, cell := range row[:min(len(row), len(columns))] {
			if i > 0 || columns[i].Figure {
				cell.SetAttributeString("data-label", []byte(columns[i].Label))
			}
			if classes := columns[i].Classes(shape.Rows[n][i]); classes != "" {
				cell.SetAttributeString("class", []byte(classes))
			}
		}
	}
}

// seen returns a cell's visible text on its widest line: a figure's interval is below it.
func (w *written) seen(cell ast.Node) string {
	var text strings.Builder
	w.walk(cell, func(n ast.Node) {
		switch n := n.(type) {
		case *referenceNode:
			a := n.answer
			if utf8.RuneCountInString(a.Interval()) > utf8.RuneCountInString(a.Figure()) {
				text.WriteString(a.Interval())
				return
			}
			text.WriteString(a.Figure())
		case *ast.Text:
			text.Write(n.Segment.Value(w.body))
		}
	})
	return text.String()
}
