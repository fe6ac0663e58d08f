package journal

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"ceiling/internal/unit"
	"ceiling/show/page"
)

//go:embed page.html feed.xml
var pageFiles embed.FS

//go:embed journal.css
var ownStyle string // read-only

//go:embed index.js
var indexScript template.JS // read-only

// layouts are the page templates: html/template escapes everything from a record or an entry,
// except what goldmark has rendered.
var layouts = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"day": day, "bytes": unit.FormatBytesSI, "text": page.Text}).ParseFS(pageFiles, "page.html"))
}) // read-only

// day formats a date in words; Read validated it.
func day(date string) (string, error) {
	t, err := time.Parse(time.DateOnly, date)
	return t.Format("2 January 2006"), err
}

// execute runs one template.
func execute(name string, data any) (template.HTML, error) {
	var b strings.Builder
	if err := layouts().ExecuteTemplate(&b, name, data); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil // html/template has escaped it
}

// layout is the frame of every page.
type layout struct {
	Title   string
	Heading string
	Lead    string
	// Up leads to the site's root: "" or "../".
	Up string
	// Trail is the breadcrumb from the index.
	Trail  []trail
	Main   template.HTML
	Footer string

	// Kind, Says, Site and Page are its Open Graph card, the preview of a link: "website" or "article", a
	// text (the lead if it is ""), the journal's address if that is known, and the page in it.
	Kind, Says, Site, Page string

	Policy string
	Style  template.CSS
	// Filter is the style that only a page without script needs.
	Filter template.CSS
	Script template.JS
	Zoom   bool
}

type trail struct{ Name, To string }

// whole renders a page, by a template and its data, in its layout. The page may load only itself: its
// styles and its one script, by hash, and images next to it.
func (l layout) whole(name string, data any) ([]byte, error) {
	main, err := execute(name, data)
	if err != nil {
		return nil, err
	}
	l.Main = main
	l.Title, l.Heading, l.Lead, l.Footer = page.Text(l.Title), page.Text(l.Heading), page.Text(l.Lead), page.Text(l.Footer)
	l.Says = cmp.Or(l.Says, l.Lead)
	l.Style = template.CSS(page.Style() + ownStyle)
	if strings.Contains(string(l.Main), " data-zoom>") || strings.Contains(string(l.Main), `<div class="panels">`) {
		l.Script, l.Zoom = template.JS(page.Script()), true
	}
	scripts := "'none'"
	if l.Script != "" {
		sum := sha256.Sum256([]byte(l.Script))
		scripts = "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	// 'unsafe-inline' is for style attributes, which position labels. Chromium does not treat a
	// page on disk as 'self', so images next to it are allowed by scheme.
	l.Policy = "default-src 'none'; script-src " + scripts +
		"; style-src 'unsafe-inline'; img-src data: 'self' file:; base-uri 'none'; form-action 'none'"
	html, err := execute("page", l)
	return []byte(html), err
}

// longFigure is the length in characters from which an answer reads as a sentence: a link follows
// it instead of enclosing it.
const longFigure = 40

// inlineHTML renders a reference within a sentence: its value, linked to the record.
func (w *written) inlineHTML(r *referenceNode) template.HTML {
	if r.answer.isBlock {
		w.wrong.add(w.File, r.line, "%s must be in its own paragraph", r.source)
		return ""
	}
	a, ok := w.answered(r)
	if !ok {
		return ""
	}
	title := ""
	if len(a.From) > 0 {
		var names []string
		for _, one := range a.From {
			names = append(names, one.Name)
		}
		title = page.Text("from " + strings.Join(slices.Compact(names), ", ") + ": " + strings.Trim(r.source, "{}"))
	}
	html, err := execute("figure", struct {
		answer
		Title string
		Long  bool
	}{a, title, len([]rune(a.Figure)) > longFigure})
	return w.without(r, html, err)
}

// blockHTML renders the tables or figures of a reference.
func (w *written) blockHTML(r *referenceNode) template.HTML {
	a, ok := w.answered(r)
	if !ok {
		return ""
	}
	for i, b := range a.blocks {
		w.numbered++
		a.blocks[i] = anchored(b, fmt.Sprintf("figure-%d", w.numbered))
	}
	inside, err := page.Blocks(a.blocks...)
	html, failed := execute("taken", struct {
		answer
		Inside template.HTML
	}{a, inside + a.html})
	return w.without(r, html, errors.Join(err, failed))
}

// without returns the HTML of a reference without an error, which is a mistake at its line.
func (w *written) without(r *referenceNode, html template.HTML, err error) template.HTML {
	if err != nil {
		w.wrong.add(w.File, r.line, "%v", err)
	}
	return html
}

// anchored gives a figure an anchor that is unique on the page.
func anchored(b page.Block, id string) page.Block {
	switch f := b.(type) {
	case page.Figure:
		f.ID = id
		return f
	case page.Drawing:
		f.ID = id
		return f
	}
	return b
}

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

// hero is the figure that represents an entry in the index: it is printed large, its interval small after
// it, and Says is what it counts; Page is the page of its record.
type hero struct {
	Figure, Interval, Says, Page string
	Picture                      template.HTML
}

// spell goes through a front matter text, by plain parts and references.
func (w *written) spell(key, text string, plain func(text string), refer func(r *referenceNode)) {
	for text != "" {
		before, _, found := strings.Cut(text, "{{")
		if before != "" {
			w.lint(w.keyLine(key), before)
			plain(before)
		}
		if text = text[len(before):]; !found {
			return
		}
		r, length := w.reference(text, "")
		r.line = lineOf(w.Front.text, key, r.source)
		refer(r)
		text = text[length:]
	}
}

// sentence resolves a front matter text.
func (w *written) sentence(key, text string) sentence {
	var out sentence
	to := &out.First
	w.spell(key, text, func(text string) {
		out.Text += text
		first, rest := "", text
		if to == &out.First {
			first, rest = afterFirst(text)
		}
		out.First += escaped(first)
		out.Rest += escaped(rest)
		if rest != "" {
			to = &out.Rest
		}
	}, func(r *referenceNode) {
		*to += w.inlineHTML(r)
		out.Text += r.answer.full()
	})
	out.HTML = out.First + out.Rest
	out.Text = page.Text(out.Text)
	return out
}

func escaped(text string) template.HTML {
	return template.HTML(template.HTMLEscapeString(page.Text(text)))
}

// heroOf resolves the hero of an entry: one number, and a picture if it names one.
func (w *written) heroOf(text string) *hero {
	if text == "" {
		return nil
	}
	out, numbers := new(hero), 0
	w.spell("hero", text, func(text string) { out.Says += text }, func(r *referenceNode) {
		a, ok := w.answered(r)
		switch {
		case !ok:
		case a.isBlock:
			out.Picture += w.heroPicture(r, a)
		default:
			numbers++
			out.Figure, out.Interval, out.Page = a.Figure, a.Interval, a.Page()
		}
	})
	if numbers != 1 && len(w.wrong) == 0 {
		w.wrong.add(w.File, w.keyLine("hero"), `hero: it takes one figure and what that counts, as in {{(run "NAME").Rate}} on /read`)
	}
	out.Says = page.Text(strings.Join(strings.Fields(out.Says), " "))
	return out
}

// heroPicture returns the first graph without its table; the entry's page has that and the others.
func (w *written) heroPicture(r *referenceNode, a answer) template.HTML {
	var blocks []page.Block
	for _, b := range a.blocks {
		f, ok := anchored(b, "hero-"+w.Number+"-1").(page.Drawing)
		if !ok {
			w.wrong.add(w.File, r.line, "hero: %s is not a graph", r.source)
			return ""
		}
		f.Table, f.Note = nil, ""
		blocks = append(blocks, f)
	}
	html, err := page.Blocks(blocks[:min(1, len(blocks))]...)
	return w.without(r, html, err)
}
