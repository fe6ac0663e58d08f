package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"sync"

	"ceiling/internal/unit"
)

//go:embed page.html
var pageFile string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// pages is the template that HTML executes: html/template escapes everything from a record.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"percent": unit.Percent, "times100": times100}).Parse(pageFile))
}) // read-only; parsed on first use, so that commands without pages start faster

func times100(share float64) float64 { return 100 * min(max(share, 0), 1) }

// HTML writes the page as one self-contained file: styles, script and pictures are inside. Its
// content security policy allows only the page's own script, by hash, and blocks all loading.
func HTML(w io.Writer, d Document) error {
	d = clean(d)
	sum := sha256.Sum256([]byte(Script()))
	data := struct {
		Document
		Policy string
		Style  template.CSS
		Script template.JS
	}{
		Document: d,
		// 'unsafe-inline' is only for style attributes, which position labels.
		Policy: "default-src 'none'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
		Style:  template.CSS(Style()),
		Script: template.JS(Script()),
	}
	if err := pages().ExecuteTemplate(w, "page", data); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}
