package route

import (
	"bytes"
	"net/url"
	"strings"
)

// SplitTarget splits a request's target. An absolute one has an authority. The path of "*" is
// "*".
func SplitTarget(target []byte) (authority, path, query []byte) {
	if len(target) > 0 && target[0] != '/' {
		if i := bytes.Index(target, []byte("://")); i >= 0 {
			rest := target[i+3:]
			end := bytes.IndexAny(rest, "/?")
			if end < 0 {
				end = len(rest)
			}
			authority, target = rest[:end], rest[end:]
		}
	}
	path = target
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		path, query = target[:i], target[i+1:]
	}
	if len(path) == 0 {
		path = []byte("/")
	}
	return authority, path, query
}

// Clean returns a path percent-decoded, without empty, . and .. segments. The result is path itself
// if it is already clean, or else lies in scratch. ok is false for a path that climbs above the root,
// or has once decoded what no two servers agree on: a NUL, a backslash, or a . or .. segment with
// parameters, which Java's servers remove before they resolve it.
func Clean(path, scratch []byte) (clean []byte, ok bool) {
	if plain(path) {
		return path, true
	}
	b := scratch[:0]
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' && i+2 < len(path) {
			c = unhex(path[i+1])<<4 | unhex(path[i+2])
			i += 2
		}
		if c == 0 || c == '\\' {
			return nil, false
		}
		b = append(b, c)
	}
	return resolve(b)
}

// Bare returns the path that rules are compared with: a clean path without the parameters of its
// segments, which Java's servers do not count as part of it, so that no spelling with some reaches
// what a rule protects.
func Bare(clean []byte) []byte {
	if bytes.IndexByte(clean, ';') < 0 {
		return clean
	}
	b, in := make([]byte, 0, len(clean)), false
	for _, c := range clean {
		if in = in && c != '/' || c == ';'; !in {
			b = append(b, c)
		}
	}
	b, _ = resolve(b) // no segment is . or ..; some may be empty now
	return b
}

// CutPrefix removes a prefix of whole segments, however they are spelled. What is left does not climb
// above it. With a slash at its end a prefix takes only what is below.
func CutPrefix(path []byte, prefix string) (rest []byte, found bool) {
	whole := strings.TrimRight(prefix, "/")
	if whole == "" {
		return path, true
	}
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' || i == len(path) && whole != prefix {
			continue
		}
		clean, ok := Clean(path[:i], nil)
		if !ok || string(Bare(clean)) != whole {
			continue
		}
		if _, ok := Clean(path[i:], nil); ok || i == len(path) {
			return path[i:], true
		}
	}
	return path, false
}

// plain reports whether a path is already clean.
func plain(path []byte) bool {
	for i, c := range path {
		switch c {
		case '%', '\\', 0:
			return false
		case '/', '.':
			if i > 0 && path[i-1] == '/' {
				return false
			}
		}
	}
	return true
}

// resolve removes empty, . and .. segments, in place.
func resolve(b []byte) (clean []byte, ok bool) {
	out := 0 // b[:out] is done and ends before a slash
	for i := 0; i < len(b); {
		if b[i] == '/' {
			i++
			continue
		}
		end := i
		for end < len(b) && b[end] != '/' {
			end++
		}
		segment := b[i:end]
		if name, _, found := bytes.Cut(segment, []byte{';'}); found && (string(name) == "." || string(name) == "..") {
			return nil, false
		}
		switch {
		case string(segment) == ".":
		case string(segment) == "..":
			if out == 0 {
				return nil, false
			}
			out = bytes.LastIndexByte(b[:out], '/')
		default:
			b[out] = '/'
			out += 1 + copy(b[out+1:], segment)
		}
		i = end
	}
	if out == 0 || directory(b) {
		b[out] = '/'
		out++
	}
	return b[:out], true
}

// directory reports whether a path ends in a slash or a dot segment.
func directory(b []byte) bool {
	last := b[bytes.LastIndexByte(b, '/')+1:]
	return len(last) == 0 || string(last) == "." || string(last) == ".."
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// queryValue finds a parameter's first value.
func queryValue(query []byte, name string) (value string, ok bool) {
	for len(query) > 0 {
		part := query
		if i := bytes.IndexByte(query, '&'); i >= 0 {
			part, query = query[:i], query[i+1:]
		} else {
			query = nil
		}
		k, v, _ := strings.Cut(string(part), "=")
		if k, err := url.QueryUnescape(k); err != nil || k != name {
			continue
		}
		if v, err := url.QueryUnescape(v); err == nil {
			return v, true
		}
	}
	return "", false
}
