package journal

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
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
	var wrong Mistakes
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	text, err := readText(file)
	if err != nil {
		wrong.add(file, 0, "%v", err)
		return a, wrong
	}
	front, body, err := splitFront(text)
	if err != nil {
		wrong.add(file, 1, "%v", err)
		return a, wrong
	}
	a.premise = &Entry{Dir: dir, File: file, body: body}
	if line := deepAt(front); line > 0 {
		wrong.add(file, line, "nested too deep for a front matter")
		return a, wrong
	}
	if err := yaml.UnmarshalWithOptions(front, &a, yaml.Strict()); err != nil {
		line, message := 1, err.Error()
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil {
			line, message = at.GetToken().Position.Line, at.GetMessage()
		}
		wrong.add(file, line, "%s; an index has title, author and url", strings.ReplaceAll(message, "\n", " "))
		return a, wrong
	}
	if a.URL != "" {
		u, err := url.Parse(a.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" ||
			!strings.HasSuffix(u.Path, "/") {
			wrong.add(file, lineStarting(front, "url"), "url: %q must be a folder of a web server, as in https://example.org/journal/", clip(a.URL))
		}
	}
	return a, wrong
}

// lineStarting returns the line of a front matter where a key begins, or 1.
func lineStarting(front []byte, key string) int {
	n := 0
	for line := range strings.Lines(string(front)) {
		if n++; strings.HasPrefix(line, key+":") {
			return n
		}
	}
	return 1
}
