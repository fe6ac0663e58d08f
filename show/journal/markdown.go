package journal

import (
	"bytes"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"ceiling/internal/lazy"
	"ceiling/show/page"
	"ceiling/verdict/prose"
)

// referenceNode is a {{…}} in the syntax tree.
type referenceNode struct {
	ast.BaseInline
	source string
	line   int
	answer answer
	wrong  error
}

var kindReference = ast.NewNodeKind("Reference") // read-only

// Kind implements ast.Node, and Dump below.
func (*referenceNode) Kind() ast.NodeKind { return kindReference }

func (n *referenceNode) Dump(source []byte, level int) {
	ast.DumpHelper(n, source, level, map[string]string{"Reference": n.source}, nil)
}

// reference resolves the {{…}} that a text begins with. Its end is on the same line, if where says so.
func (e *Entry) reference(text, where string) (n *referenceNode, length int) {
	inside, length, closed := enclosed(text)
	if !closed {
		text = strings.TrimSpace(text)
		return &referenceNode{source: text, wrong: fmt.Errorf("%s is not closed by }}%s", clip(text), where)}, length
	}
	n = &referenceNode{source: "{{" + inside + "}}"}
	n.answer, n.wrong = e.answer(inside)
	return n, length
}

// referenceParser parses {{…}}.
type referenceParser struct{ *Entry }

func (referenceParser) Trigger() []byte { return []byte{'{'} }

func (p referenceParser) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, segment := block.PeekLine()
	if !bytes.HasPrefix(line, []byte("{{")) {
		return nil
	}
	n, length := p.reference(string(line), " on its line")
	n.line = lineAt(block.Source(), segment.Start)
	block.Advance(length)
	return n
}

// enclosed returns the text between a leading {{ and its }}, ignoring any }} inside quotes.
func enclosed(line string) (inside string, length int, closed bool) {
	inQuotes := false
	for i := 2; i < len(line); i++ {
		switch {
		case line[i] == '\\' && inQuotes:
			i++
		case line[i] == '"':
			inQuotes = !inQuotes
		case !inQuotes && strings.HasPrefix(line[i:], "}}"):
			return line[2:i], i + 2, true
		}
	}
	return "", len(strings.TrimRight(line, "\r\n")), false
}

// lineAt returns the line of an offset, from 1.
func lineAt(source []byte, offset int) int {
	return 1 + bytes.Count(source[:min(max(offset, 0), len(source))], []byte("\n"))
}

// newMarkdown returns a parser for CommonMark with tables and {{…}}. It treats HTML as text: a <
// is a <.
func newMarkdown(e *Entry) goldmark.Markdown {
	without := func(list []util.PrioritizedValue, html any) []util.PrioritizedValue {
		return slices.DeleteFunc(list, func(v util.PrioritizedValue) bool { return v.Value == html })
	}
	p := parser.NewParser(parser.WithAutoHeadingID(), parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
		parser.WithBlockParsers(without(parser.DefaultBlockParsers(), parser.NewHTMLBlockParser())...),
		parser.WithInlineParsers(without(parser.DefaultInlineParsers(), parser.NewRawHTMLParser())...),
		parser.WithInlineParsers(util.Prioritized(referenceParser{e}, 50)))
	return goldmark.New(goldmark.WithParser(p),
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignStyle))))
}

// written is the rendered text of an entry.
type written struct {
	*Entry
	markdown goldmark.Markdown
	tree     ast.Node
	anchors  map[string]bool
	entries  []*written // that it may link to
	HTML     template.HTML
	files    map[string][]byte // by path in the site
	warnings Mistakes
	wrong    Mistakes
	numbered int // figures that have an anchor

	Finding, WhatNext sentence
	Hero              *hero
}

// parseEntry parses an entry's Markdown.
func parseEntry(e *Entry) *written {
	w := &written{Entry: e, markdown: newMarkdown(e), anchors: map[string]bool{}, files: map[string][]byte{}}
	w.tree = w.markdown.Parser().Parse(text.NewReader(e.body))
	walk(w.tree, func(n ast.Node) {
		h, ok := n.(*ast.Heading)
		if !ok {
			return
		}
		if id, there := h.AttributeString("id"); there {
			w.anchors[string(id.([]byte))] = true
		}
		if h.Level == 1 {
			w.wrong.add(w.File, w.line(h), "a heading of one # is the page's title, which is in the front matter; take ##")
		}
	})
	return w
}

// render renders the text, resolves its references and checks its links.
func (w *written) render(entries []*written) {
	w.entries = entries
	w.warnAboutRecords()
	w.visit()
	w.Finding, w.WhatNext, w.Hero = w.sentence("finding", w.Entry.Finding), w.sentence("next", w.Next), w.heroOf(w.Entry.Hero)
	if len(w.wrong) > 0 {
		return
	}
	var out bytes.Buffer
	if err := w.markdown.Renderer().Render(&out, w.body, w.tree); err != nil {
		w.wrong.add(w.File, 0, "%v", err)
	}
	w.HTML = template.HTML(out.String()) // escaped by goldmark and html/template
}

// walk visits every node before its children.
func walk(n ast.Node, visit func(ast.Node)) {
	visit(n)
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		walk(c, visit)
	}
}

func (w *written) line(n ast.Node) int { return lineAt(w.body, n.Pos()) }

// alone returns the references of a paragraph that contains only block references.
func (w *written) alone(p ast.Node) []*referenceNode {
	var refs []*referenceNode
	for c := p.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *referenceNode:
			if c.wrong != nil || !c.answer.isBlock {
				return nil
			}
			refs = append(refs, c)
		case *ast.Text:
			if len(bytes.TrimSpace(c.Segment.Value(w.body))) > 0 {
				return nil
			}
		default:
			return nil
		}
	}
	return refs
}

// visit resolves references, and checks links and typed numbers.
func (w *written) visit() {
	var nodes []ast.Node // a walk does not follow what changes under it
	walk(w.tree, func(n ast.Node) { nodes = append(nodes, n) })
	for _, n := range nodes {
		switch n := n.(type) {
		case *ast.Paragraph, *ast.TextBlock:
			w.blocks(n)
		case *referenceNode:
			if parent := n.Parent(); parent != nil { // nil: it was in a paragraph of blocks
				parent.ReplaceChild(parent, n, rendered(w.inlineHTML(n)))
			}
		case *ast.Link:
			n.Destination = w.link(w.line(n), n.Destination, false)
		case *ast.Image:
			n.Destination = w.link(w.line(n), n.Destination, true)
		case *ast.AutoLink:
			if n.AutoLinkType == ast.AutoLinkURL {
				w.link(w.line(n), n.URL(w.body), false)
			}
		case *ast.Text:
			if n.Parent().Kind() != ast.KindCodeSpan {
				w.lint(lineAt(w.body, n.Segment.Start), string(n.Segment.Value(w.body)))
			}
		case *tables.Table:
			w.labelTable(n)
		}
	}
}

// rendered returns HTML as a node.
func rendered(html template.HTML) ast.Node {
	n := ast.NewString([]byte(html))
	n.SetCode(true) // to be written as it is
	return n
}

// blocks renders a paragraph that contains only references to tables and figures, in its place.
func (w *written) blocks(p ast.Node) {
	refs := w.alone(p)
	for _, r := range refs {
		p.Parent().InsertBefore(p.Parent(), p, rendered(w.blockHTML(r)))
		p.RemoveChild(p, r)
	}
	if len(refs) > 0 {
		p.Parent().RemoveChild(p.Parent(), p)
	}
}

// warnAboutRecords warns about records that a clone of the journal will lack, and about records that
// should not be built on.
func (w *written) warnAboutRecords() {
	for _, r := range w.Records {
		if !r.Pending() && !r.Here {
			w.warnings.add(w.File, r.Line, "%s is only in this machine's store; put it in with: ceiling journal add %s %s", r.ID, w.Name, r.ID)
		}
		if r.Run != nil && r.Run.Unfinished && w.Status == Done {
			w.warnings.add(w.File, r.Line, "%s was cut off before it had a result: its figures cover the time until then", r.ID)
		}
		if r.Plan != nil && r.Plan.Ended == "" && w.Status == Done {
			w.warnings.add(w.File, r.Line, "%s was interrupted after %d runs; %s", r.ID, len(r.Plan.Runs), prose.Text(r.Plan.Onward()))
		}
	}
}

// answered resolves one reference; if that fails, it records the mistake and ok is false.
func (w *written) answered(r *referenceNode) (answer, bool) {
	if r.wrong != nil {
		w.wrong.add(w.File, r.line, "%v", r.wrong)
		return answer{}, false
	}
	a := r.answer
	if a.Pending && !w.Status.open() {
		w.wrong.add(w.File, r.line, "%s is not measured yet", a.From[0].Name)
		return a, false
	}
	if a.warning != "" {
		w.warnings.add(w.File, r.line, "%s", a.warning)
	}
	return a, true
}

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
	walk(cell, func(n ast.Node) {
		switch n := n.(type) {
		case *referenceNode:
			a := n.answer
			if utf8.RuneCountInString(a.Interval) > utf8.RuneCountInString(a.Figure) {
				text.WriteString(a.Interval)
				return
			}
			text.WriteString(a.Figure)
		case *ast.Text:
			text.Write(n.Segment.Value(w.body))
		}
	})
	return text.String()
}

// typedNumber matches a number with a unit, as in a measurement.
var typedNumber = lazy.Regexp(`(?i)(?:^|[^\w.])(\d[\d,. ]*\d|\d)\s?[kMG]?\s?(requests?/s|requests? (?:per|a) second|req/s|rps|/s\b|per second|ns\b|µs|us\b|ms\b|s\b|seconds?\b|%|per ?cent\b|[kMGT]i?B(?:/s)?\b|[kMGT]bit/s|×|times\b)`)

// lint warns about numbers typed by hand in a done entry.
func (w *written) lint(line int, text string) {
	if w.Status != Done {
		return
	}
	for _, at := range typedNumber().FindAllStringSubmatchIndex(text, -1) {
		w.warnings.add(w.File, line, "%q looks like a measured number; take it from a record, or say {{typed %q}}",
			text[at[2]:at[1]], text[at[2]:at[1]])
	}
}
