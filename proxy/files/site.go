// Package files finds, caches and describes the files of served directories, decides which part of one
// a request gets, and knows the types of files.
package files

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"ceiling/proxy/compress"
	"ceiling/proxy/config"
)

// Site is a served directory. Apart from missing it is immutable.
type Site struct {
	path     string
	index    string
	suffix   string
	fallback string
	prefix   string
	charset  string
	cache    string         // a Cache-Control line, or nothing
	level    compress.Level // of compression
	passes   bool           // see Passes
	report   func(string)
	missing  atomic.Bool // it was, when a loop looked last
}

// NewSite prepares the directory of a files:// destination.
func NewSite(t config.Target, level compress.Level, report func(string)) (*Site, error) {
	s := &Site{
		path: t.Address, level: level, report: report, passes: t.Options.Get(config.Missing) != "",
		suffix: t.Options.Get("suffix"), charset: cmp.Or(t.Options.Get("charset"), "utf-8"),
		index: cmp.Or(t.Options.Get("index"), "index.html"), prefix: strings.Trim(t.Options.Get("prefix"), "/"),
		fallback: strings.TrimPrefix(t.Options.Get("fallback"), "/"),
	}
	if s.passes { // a directory is not a file, unless an index is asked for
		s.index = t.Options.Get("index")
	}
	if s.fallback != "" {
		s.fallback = path.Join(s.prefix, s.fallback)
	}
	if age := t.Options.Get("maxAge"); age != "" {
		n, err := strconv.Atoi(age)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("files: maxAge=%s: must be a number of seconds", age)
		}
		s.cache = fmt.Sprintf("Cache-Control: public, max-age=%d\r\n", n)
	}
	s.note(s.Problem())
	return s, nil
}

// Passes reports whether another destination answers where there is no file; nil does not.
func (s *Site) Passes() bool { return s != nil && s.passes }

// Path of the directory.
func (s *Site) Path() string { return s.path }

// Problem returns why the directory cannot be served now.
func (s *Site) Problem() error {
	root, err := os.OpenRoot(s.path)
	if err != nil {
		return err
	}
	return root.Close()
}

// note reports when the directory goes, and when it is back.
func (s *Site) note(err error) {
	switch {
	case err != nil && s.missing.CompareAndSwap(false, true):
		s.report(fmt.Sprintf("files: %v; it is not served until it can be read", err))
	case err == nil && s.missing.CompareAndSwap(true, false):
		s.report(fmt.Sprintf("files: %s is served", s.path))
	}
}

// encodings of a file's precompressed siblings, the smallest first.
var encodings = [...]struct{ name, suffix string }{{"", ""}, {"br", ".br"}, {"zstd", ".zst"}, {"gzip", ".gz"}} // read-only

// Found is what a path refers to: a file with its siblings, a directory requested without its
// slash, or nothing.
type Found struct {
	variants  [len(encodings)]*File
	looked    [len(encodings)]bool
	name      string
	Directory bool
	instead   bool  // the name is the fallback's
	checked   int64 // loop's clock
}

// find looks up a clean path.
func (d *directory) find(s *Site, clean string) Found {
	name := path.Join(s.prefix, strings.TrimPrefix(clean, "/"))
	if name == "" {
		name = "."
	}
	if hidden(name) {
		return Found{}
	}
	info, err := d.root.Stat(name)
	switch {
	case err == nil && info.IsDir() && !strings.HasSuffix(clean, "/"):
		if d.regular(path.Join(name, s.index)) {
			return Found{name: name, Directory: true}
		}
	case err == nil && info.IsDir():
		if index := path.Join(name, s.index); d.regular(index) {
			return Found{name: index}
		}
	case err == nil && info.Mode().IsRegular() && !strings.HasSuffix(clean, "/"):
		return Found{name: name}
	}
	if s.suffix != "" && name != "." && d.regular(name+s.suffix) {
		return Found{name: name + s.suffix}
	}
	if s.fallback != "" && d.regular(s.fallback) {
		return Found{name: s.fallback, instead: true}
	}
	return Found{}
}

func (d *directory) regular(name string) bool {
	info, err := d.root.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// navigates reports whether a request without a file is one for a page of a single-page application,
// which the fallback answers, and not for a script, an image or other data: those are missing.
func navigates(clean, accepts []byte) bool {
	if bytes.HasPrefix(clean, []byte("/.well-known/")) {
		return false
	}
	switch ext := path.Ext(string(clean)); {
	case ext == "" || mediaType(ext) == "text/html":
		return accepts == nil || acceptsType(accepts, "text/html", "text/*", "*/*")
	case mediaType(ext) == "": // perhaps none of a file: /users/jane.doe
		return acceptsType(accepts, "text/html")
	}
	return false
}

// acceptsType reports whether an Accept field names one of the types.
func acceptsType(field []byte, types ...string) bool {
	for part := range bytes.SplitSeq(field, []byte{','}) {
		name, _, _ := bytes.Cut(part, []byte{';'})
		if slices.Contains(types, strings.ToLower(string(bytes.TrimSpace(name)))) {
			return true
		}
	}
	return false
}

// hidden reports whether a name has a segment that begins with a dot, except .well-known (RFC
// 8615).
func hidden(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > 1 && part[0] == '.' && part != ".well-known" {
			return true
		}
	}
	return false
}
