package journal

import (
	"fmt"
	"html/template"
	"strings"
	"unicode"

	"ceiling/show/page"
)

// sentence is a front matter text with its references resolved: as HTML for a page, and as plain
// text for a feed.
type sentence struct {
	HTML template.HTML
	Text string
	// First is the HTML of its first sentence, Rest what follows.
	First, Rest template.HTML
}

// afterFirst splits plain text after its first sentence: a full stop before a space and a capital
// letter.
func afterFirst(text string) (first, rest string) {
	for i := range text {
		if next := strings.TrimLeft(text[i+1:], " "); text[i] == '.' && next != text[i+1:] && next != "" && unicode.IsUpper(rune(next[0])) {
			return text[:i+1], text[i+1:]
		}
	}
	return text, ""
}

// hero is the figure that represents an entry in the index.
type hero struct {
	// Figure is printed large, Interval small after it, Says is what it counts; Page is the page of
	// its record.
	Figure, Interval, Says, Page string
	Picture                      template.HTML
}

// piece is a part of a front matter text: plain, or a reference.
type piece struct {
	text string
	ref  *referenceNode
}

// pieces splits a front matter text.
func (w *written) pieces(key, text string) []piece {
	var list []piece
	for text != "" {
		at := strings.Index(text, "{{")
		if at != 0 {
			plain := text
			if at > 0 {
				plain = text[:at]
			}
			list, text = append(list, piece{text: plain}), text[len(plain):]
			w.lint(w.Line(key), plain)
			continue
		}
		inside, length, closed := between(text)
		r := &referenceNode{source: "{{" + inside + "}}"}
		if closed {
			r.answer, r.wrong = w.answer(inside)
		} else {
			r.source = text
			r.wrong = fmt.Errorf("%s is not closed by }}", clip(text))
		}
		r.line = w.lineWith(key, r.source)
		list, text = append(list, piece{ref: r}), text[length:]
	}
	return list
}

// lineWith returns the line of a key's value that contains a text; the key's own line if the text
// spans several lines.
func (f *Front) lineWith(key, text string) int {
	n, from := 0, f.Line(key)
	for line := range strings.Lines(string(f.text)) {
		if n++; n >= from && strings.Contains(line, text) {
			return n
		}
	}
	return from
}

// sentence resolves a front matter text.
func (w *written) sentence(key, text string) sentence {
	var out sentence
	to := &out.First
	for _, p := range w.pieces(key, text) {
		if p.ref != nil {
			*to += w.inlineHTML(p.ref)
			out.Text += p.ref.answer.text
			continue
		}
		out.Text += p.text
		if to == &out.First {
			first, rest := afterFirst(p.text)
			out.First += template.HTML(template.HTMLEscapeString(page.Text(first)))
			if p.text = rest; rest != "" {
				to = &out.Rest
			}
		}
		out.Rest += template.HTML(template.HTMLEscapeString(page.Text(p.text)))
	}
	out.HTML = out.First + out.Rest
	out.Text = page.Text(out.Text)
	return out
}

// heroOf resolves the hero of an entry: one number, and a picture if it names one.
func (w *written) heroOf(text string) *hero {
	if text == "" {
		return nil
	}
	out, numbers := new(hero), 0
	for _, p := range w.pieces("hero", text) {
		if p.ref == nil {
			out.Says += p.text
			continue
		}
		a, ok := w.answered(p.ref)
		switch {
		case !ok:
		case a.isBlock:
			out.Picture += w.heroPicture(p.ref, a)
		default:
			numbers++
			out.Figure, out.Interval, out.Page = a.Figure(), a.Interval(), a.Page()
		}
	}
	if numbers != 1 && len(w.wrong) == 0 {
		w.wrong.add(w.File, w.Line("hero"), `hero: it takes one figure and what that counts, as in {{(run "NAME").Rate}} on /read`)
	}
	out.Says = page.Text(strings.Join(strings.Fields(out.Says), " "))
	return out
}

// heroPicture returns a figure without its table, which the entry's page has.
func (w *written) heroPicture(r *referenceNode, a answer) template.HTML {
	var blocks []page.Block
	for i, b := range a.blocks {
		id := fmt.Sprintf("hero-%s-%d", w.Number, i+1)
		switch f := anchored(b, id).(type) {
		case page.Drawing:
			f.Table, f.Note = nil, ""
			if len(blocks) == 0 { // the entry has the others
				blocks = append(blocks, f)
			}
		default:
			w.wrong.add(w.File, r.line, "hero: %s is not a graph", r.source)
		}
	}
	html, err := page.Blocks(blocks...)
	if err != nil {
		w.wrong.add(w.File, r.line, "%v", err)
	}
	return html
}
