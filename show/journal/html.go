package journal

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"

	"ceiling/internal/unit"
	"ceiling/show/page"
)

//go:embed page.html feed.xml journal.css index.js
var files embed.FS

// layouts are the page templates: html/template escapes everything from a record or an entry,
// except what goldmark has rendered.
var layouts = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"day": day, "bytes": unit.FormatBytesSI}).ParseFS(files, "page.html"))
}) // read-only

// execute runs one template.
func execute(name string, data any) (template.HTML, error) {
	var b strings.Builder
	if err := layouts().ExecuteTemplate(&b, name, data); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil // html/template has escaped it
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
	data := struct {
		answer
		Title string
		Long  bool
	}{answer: a, Long: len([]rune(a.short)) > longFigure}
	if len(a.of) > 0 {
		var names []string
		for _, one := range a.of {
			names = append(names, one.Name)
		}
		data.Title = page.Text("from " + strings.Join(slices.Compact(names), ", ") + ": " + strings.Trim(r.source, "{}"))
	}
	return w.execute(r, "figure", data)
}

// execute runs a template for a reference.
func (w *written) execute(r *referenceNode, name string, data any) template.HTML {
	html, err := execute(name, data)
	if err != nil {
		w.wrong.add(w.File, r.line, "%v", err)
	}
	return html
}

// blockHTML renders the tables or figures of a reference.
func (w *written) blockHTML(r *referenceNode) template.HTML {
	a, ok := w.answered(r)
	if !ok {
		return ""
	}
	if a.pending {
		return w.execute(r, "pending", page.Text(a.text))
	}
	for i, b := range a.blocks {
		w.figures++
		a.blocks[i] = anchored(b, fmt.Sprintf("figure-%d", w.figures))
	}
	inside, err := page.Blocks(a.blocks...)
	if err != nil {
		w.wrong.add(w.File, r.line, "%v", err)
		return ""
	}
	csv := ""
	if a.html == "" {
		csv = a.of[0].CSV()
	}
	return w.execute(r, "taken", struct {
		Inside template.HTML
		From   []*Record
		CSV    string
	}{inside + a.html, a.of, csv})
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

// Page is the path of the record's own page, CSV that of a sweep's points; "" if it is none.
func (r *Record) Page() string { return recordPage(r.ID) }
func (r *Record) CSV() string {
	if r.Plan == nil || r.Plan.Sweep == nil {
		return ""
	}
	return csvPage(r.ID)
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

	// Kind, Says and URL are its Open Graph card, the preview of a link: "website" or "article", a text
	// (the lead if it is ""), and the page's address if the journal's is known.
	Kind, Says, URL string

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
	style, err := page.Style()
	if err != nil {
		return nil, err
	}
	own, err := files.ReadFile("journal.css")
	if err != nil {
		return nil, err
	}
	l.Style = template.CSS(style + string(own))
	if strings.Contains(string(l.Main), " data-zoom>") || strings.Contains(string(l.Main), `<div class="panels">`) {
		script, err := page.Script()
		if err != nil {
			return nil, err
		}
		l.Script, l.Zoom = template.JS(script), true
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
