// Package convert translates configurations of nginx and Caddy into the proxy's own, as far as it can,
// and lists line by line what it cannot.
package convert

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Result is a translation.
type Result struct {
	// TOML is a file of the proxy's.
	TOML string
	// Left is what it does not say.
	Left []Left
}

// Left is a directive that was not translated.
type Left struct {
	File string
	Line int
	What string // the directive, without its block
	Why  string // and what to do
}

func (l Left) String() string { return fmt.Sprintf("%s:%d: %s: %s", l.File, l.Line, l.What, l.Why) }

// File translates a file of nginx or Caddy, and what it includes.
func File(name string) (*Result, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	text = bytes.ToValidUTF8(text, []byte("?"))
	if isCaddyfile(name, text) {
		return caddyfile(name, text)
	}
	return nginx(name, text)
}

// semicolon ends a line of nginx's, which Caddy has none of.
var semicolon = regexp.MustCompile(`(?m);\s*(#.*)?$`) // read-only

func isCaddyfile(name string, text []byte) bool {
	base := strings.ToLower(filepath.Base(name))
	return strings.Contains(base, "caddy") || filepath.Ext(base) != ".conf" && !semicolon.Match(text)
}

// directive is one line of either language, with its block.
type directive struct {
	file  string
	line  int
	words []string
	block []directive
	open  bool // has a block, maybe an empty one
}

func (d *directive) name() string { return d.words[0] }

// args are the words after the name.
func (d *directive) args() []string { return d.words[1:] }

// arg returns a word after the name, "" if there are fewer.
func (d *directive) arg(i int) string {
	if i+1 < len(d.words) {
		return d.words[i+1]
	}
	return ""
}

func (d *directive) left(why string) Left {
	return Left{d.file, d.line, strings.Join(d.words, " "), why}
}

// reader splits a text into directives.
type reader struct {
	file  string
	text  []byte
	line  int
	lines bool // ends of lines end directives, as in a Caddyfile; otherwise semicolons do
}

// mark is what a word is not.
type mark uint8

const (
	word mark = iota
	opens
	closes
	ends // of a directive
	over // of the text
)

// next returns the next word or mark.
func (r *reader) next() (string, mark, error) {
	for len(r.text) > 0 {
		switch c := r.text[0]; {
		case c == '\n':
			r.text = r.text[1:]
			r.line++
			if r.lines {
				return "", ends, nil
			}
		case c == ' ' || c == '\t' || c == '\r':
			r.text = r.text[1:]
		case c == '\\' && r.lines && bytes.HasPrefix(r.text, []byte("\\\n")):
			r.text = r.text[2:]
			r.line++
		case c == '#':
			n := bytes.IndexByte(r.text, '\n')
			if n < 0 {
				n = len(r.text)
			}
			r.text = r.text[n:]
		case c == ';' && !r.lines:
			r.text = r.text[1:]
			return "", ends, nil
		case (c == '{' || c == '}') && r.alone():
			r.text = r.text[1:]
			if c == '{' {
				return "", opens, nil
			}
			return "", closes, nil
		default:
			w, err := r.word()
			return w, word, err
		}
	}
	return "", over, nil
}

// alone reports whether a brace is one, and not the beginning of a word, as in Caddy's {path}.
func (r *reader) alone() bool {
	return !r.lines || len(r.text) == 1 || bytes.IndexByte([]byte(" \t\r\n"), r.text[1]) >= 0
}

// escapes of nginx's quoted words (ngx_conf_read_token).
var escapes = [256]byte{'n': '\n', 'r': '\r', 't': '\t'} // read-only

// word reads one, which may be quoted.
func (r *reader) word() (string, error) {
	if q := r.text[0]; q == '"' || q == '\'' && !r.lines || q == '`' && r.lines {
		var b []byte
		for i := 1; i < len(r.text); i++ {
			switch c := r.text[i]; {
			case c == '\\' && q != '`' && i+1 < len(r.text) && (r.text[i+1] == q || r.text[i+1] == '\\'):
				i++
				b = append(b, r.text[i])
			case c == '\\' && !r.lines && i+1 < len(r.text) && escapes[r.text[i+1]] != 0:
				i++
				b = append(b, escapes[r.text[i]])
			case c == q:
				r.text = r.text[i+1:]
				return string(b), nil
			default:
				if c == '\n' {
					r.line++
				}
				b = append(b, c)
			}
		}
		return "", fmt.Errorf("%s:%d: a quote is not closed", r.file, r.line)
	}
	stop := " \t\r\n"
	if !r.lines {
		stop += ";{}"
	}
	n := bytes.IndexAny(r.text, stop)
	// A brace within a word of nginx's is part of it: a{2} in a regular expression, ${name}.
	for !r.lines && n > 0 && r.text[n] == '{' {
		end := bytes.IndexAny(r.text[n:], "} \t\r\n;")
		if end < 0 || r.text[n+end] != '}' {
			break
		}
		from := n + end + 1
		if n = bytes.IndexAny(r.text[from:], stop); n >= 0 {
			n += from
		}
	}
	if n < 0 {
		n = len(r.text)
	}
	w := string(r.text[:n])
	r.text = r.text[n:]
	return w, nil
}

// maxIncludes bounds the lines that include others: more than a real configuration has.
const maxIncludes = 1000

// maxDepth bounds nested blocks: no real file comes near it.
const maxDepth = 32

// block reads directives to the end of the block, or of the text.
func (r *reader) block(depth int) ([]directive, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%s:%d: blocks are nested more than %d deep", r.file, r.line, maxDepth)
	}
	var list []directive
	var d directive
	for {
		w, is, err := r.next()
		line := r.line
		switch {
		case err != nil:
			return nil, err
		case is == word:
			if len(d.words) == 0 {
				d = directive{file: r.file, line: line}
			}
			d.words = append(d.words, w)
		case is == opens:
			d.open = true
			if len(d.words) == 0 { // Caddy's global options
				d = directive{file: r.file, line: r.line, words: []string{""}, open: true}
			}
			if d.block, err = r.block(depth + 1); err != nil {
				return nil, err
			}
			list, d = append(list, d), directive{}
		case is == ends && len(d.words) > 0 && r.lines && strings.HasSuffix(d.words[len(d.words)-1], ","):
			// the addresses of a site go on
		case is == ends || is == closes || is == over:
			if len(d.words) > 0 {
				list, d = append(list, d), directive{}
			}
			switch {
			case is == closes && depth == 0:
				return nil, fmt.Errorf("%s:%d: a } without its {", r.file, r.line)
			case is == over && depth > 0:
				return nil, fmt.Errorf("%s:%d: a { is not closed", r.file, r.line)
			case is != ends:
				return list, nil
			}
		}
	}
}

func parse(name string, text []byte, lines bool) ([]directive, error) {
	r := &reader{file: name, text: bytes.Clone(text), line: 1, lines: lines}
	return r.block(0)
}
