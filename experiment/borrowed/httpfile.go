package borrowed

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"ceiling/experiment/spec"
)

var (
	httpRequestLine = regexp.MustCompile(`^([A-Z]+\s+)?(\S*(://|\{\{)\S*|/\S*)(\s+HTTP/[0-9.]+)?$`)
	httpField       = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+:")
)

// isHTTPFile reports whether a text is a .http or .rest file, or requests as they go over the wire:
// a line that ends in HTTP/1.1.
func isHTTPFile(text, name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".http", ".rest":
		return true
	}
	first, _, _ := strings.Cut(text, "\n")
	first = strings.TrimSpace(first)
	return strings.HasPrefix(first, "###") || httpRequestLine.MatchString(first) && strings.Contains(first, " HTTP/")
}

// readHTTP reads requests with ### between them: METHOD URL, fields, a blank line, the body. Names
// and comments begin with # or //, and @name = value sets a variable.
func readHTTP(text string, open Opener) (*Set, error) {
	s, known := &Set{}, variables{}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for at := 0; at < len(lines); {
		end := at
		for end < len(lines) && !strings.HasPrefix(lines[end], "###") {
			end++
		}
		r, err := oneHTTP(lines[at:end], at+1, known, open)
		if err != nil {
			return nil, err
		}
		if r != nil {
			s.Requests = append(s.Requests, *r)
		}
		at = end + 1
	}
	return s, nil
}

// oneHTTP reads the request in some lines, of which first is the number of the first; nil if there is
// none.
func oneHTTP(lines []string, first int, known variables, open Opener) (*Request, error) {
	var r *Request
	var body []string
	inBody := false
	for i, line := range lines {
		bare := strings.TrimSpace(line)
		fail := func(err error) error { return fmt.Errorf("line %d: %w", first+i, err) }
		switch {
		case inBody:
			body = append(body, line)
		case r != nil && bare == "":
			inBody = true
		case bare == "" || strings.HasPrefix(bare, "#") || strings.HasPrefix(bare, "//"):
		case strings.HasPrefix(bare, "@"):
			name, value, _ := strings.Cut(bare[1:], "=")
			known[strings.TrimSpace(name)] = strings.TrimSpace(value)
		case r == nil:
			var err error
			if r, err = requestLine(bare, known); err != nil {
				return nil, fail(err)
			}
		case strings.HasPrefix(bare, "?") || strings.HasPrefix(bare, "&"): // the query goes on
			more, err := known.fill(bare)
			if err != nil {
				return nil, fail(err)
			}
			r.URL += more
		case !httpField.MatchString(bare):
			return nil, fail(fmt.Errorf("%q is not a field (Name: value); the body follows a blank line", bare))
		default:
			name, value, _ := strings.Cut(bare, ":")
			value, err := known.fill(strings.TrimSpace(value))
			if err != nil {
				return nil, fail(err)
			}
			if strings.EqualFold(name, "host") && strings.HasPrefix(r.URL, "/") {
				r.URL = "http://" + value + r.URL
			}
			if !sent(name) {
				r.Header = append(r.Header, spec.Field{Name: name, Value: value})
			}
		}
	}
	if r == nil {
		return nil, nil
	}
	if strings.HasPrefix(r.URL, "/") {
		return nil, fmt.Errorf("line %d: %s has no host; write the whole URL, or a Host field", first, r.URL)
	}
	return r, r.fillBody(body, known, open)
}

func requestLine(line string, known variables) (*Request, error) {
	parts := httpRequestLine.FindStringSubmatch(line)
	if parts == nil {
		return nil, fmt.Errorf("%q is not a request line; write METHOD URL", line)
	}
	target, err := known.fill(parts[2])
	method := strings.TrimSpace(parts[1])
	if method == "" {
		method = "GET"
	}
	return &Request{Method: method, URL: target}, err
}

// fillBody sets the body: its lines up to a script, or the file that < names.
func (r *Request) fillBody(lines []string, known variables, open Opener) error {
	for i, line := range lines {
		if strings.HasPrefix(line, "> ") || strings.HasPrefix(line, "<> ") { // what to do with the response
			lines = lines[:i]
			break
		}
	}
	text := strings.TrimRight(strings.Join(lines, "\n"), "\n ")
	if file, is := strings.CutPrefix(strings.TrimSpace(text), "< "); is {
		body, err := open(strings.TrimSpace(file))
		r.Body = body
		return err
	}
	text, err := known.fill(text)
	r.Body = []byte(text)
	return err
}
