package journal

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// aboutFile describes a journal: a front matter, and below it the premise, shown at the top of
// the index.
const aboutFile = "index.md"

// About is a journal's description of itself. A journal without an index.md has none.
type About struct {
	// Title is that of the journal and its feed; Author is that of its entries.
	Title  string `yaml:"title"`
	Author string `yaml:"author"`
	// URL is where the pages will be published, with a trailing slash; "" if unknown.
	URL string `yaml:"url"`

	premise *Entry // its body; nil if there is none
}

// readAbout reads a journal's index.md.
func readAbout(dir string) (About, Mistakes) {
	a, file := About{Title: "Journal", Author: "ceiling"}, filepath.Join(dir, aboutFile)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	front, body, wrong := readText(file)
	if wrong != nil {
		return a, wrong
	}
	a.premise = &Entry{Dir: dir, File: file, body: body}
	wrong = decodeFront(file, front, &a)
	if a.URL != "" && wrong == nil {
		u, err := url.Parse(a.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" ||
			!strings.HasSuffix(u.Path, "/") {
			wrong.add(file, lineOf(front, "url"), "url: %q must be a folder of a web server, as in https://example.org/journal/", clip(a.URL))
		}
	}
	return a, wrong
}
