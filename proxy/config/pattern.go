package config

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// Kinds of path patterns.
const (
	PathPrefix = iota
	PathExact
	PathRegex
)

const special = `^$*+?()[]{}|\`

// PathKind returns a pattern's kind and its text without the mark. A regular expression without a mark
// means whole segments from the beginning of the path, as a prefix does.
func PathKind(p string) (kind int, text string) {
	below, isBelow := strings.CutSuffix(p, "*")
	switch {
	case strings.HasPrefix(p, "="):
		return PathExact, p[1:]
	case strings.HasPrefix(p, "~"):
		return PathRegex, p[1:]
	case isBelow && strings.HasSuffix(below, "/") && !strings.ContainsAny(below, special):
		return PathPrefix, below
	case !strings.ContainsAny(p, special):
		return PathPrefix, p
	case p[0] == '^':
		return PathRegex, p
	case p[len(p)-1] == '/':
		return PathRegex, "^(?:" + p + ")"
	}
	return PathRegex, "^(?:" + p + ")(?:/|$)"
}

var (
	placeholder = regexp.MustCompile(`\{[^}]*[^}0-9,][^}]*\}|/:[A-Za-z_][A-Za-z0-9_]*`) // read-only
	globStar    = regexp.MustCompile(`(^|/)\*|\*\*`)                                    // read-only
	queryPart   = regexp.MustCompile(`\?([A-Za-z0-9_.-]+)=([^&]*)`)                     // read-only
)

// checkPath rejects a pattern that can match nothing, or not what it looks like, and says what to
// write.
func checkPath(p string) error {
	kind, text := PathKind(p)
	if kind == PathRegex && p[0] != '~' || kind == PathPrefix || placeholder.MatchString(text) {
		if err := looksLike(p, kind); err != nil {
			return err
		}
	}
	if kind == PathRegex {
		if _, err := regexp.Compile(text); err != nil {
			return fmt.Errorf("%q: %w", p, err)
		}
		return nil
	}
	decoded, err := url.PathUnescape(text)
	clean := path.Clean("/" + decoded)
	if strings.HasSuffix(text, "/") && clean != "/" {
		clean += "/"
	}
	mark := p[:strings.Index(p, text)]
	switch {
	case !strings.HasPrefix(text, "/"):
		return fmt.Errorf("%q does not begin with /", p)
	case strings.Contains(text, ";"):
		return fmt.Errorf("%q: paths are compared without ;parameters; write %q", p, mark+text[:strings.IndexByte(text, ';')])
	case strings.Contains(text, "?"):
		return fmt.Errorf("%q: a path has no query; write it in queries", p)
	case err != nil:
		return fmt.Errorf("%q: %w", p, err)
	case clean != text:
		return fmt.Errorf("%q: paths are compared decoded, without empty and dot segments; write %q", p, mark+clean)
	}
	return nil
}

// looksLike rejects what other programs' patterns look like.
func looksLike(p string, kind int) error {
	plain := strings.TrimLeft(p, "~=")
	class := regexp.MustCompile(`\\[pPx]\{`).MatchString(plain)
	switch found := placeholder.FindString(plain); {
	case found != "" && !class:
		to := placeholder.ReplaceAllStringFunc(strings.Trim(plain, "^$"), func(one string) string {
			if one[0] == '/' {
				return "/[^/]+"
			}
			return "[^/]+"
		})
		return fmt.Errorf("%q: invalid name %s for a part of the path; write %q", p, strings.TrimPrefix(found, "/"), "~^"+to+"$")
	case kind == PathRegex && queryPart.MatchString(plain):
		q := queryPart.FindStringSubmatch(plain)
		return fmt.Errorf("%q: a path has no query; write queries = { %s = %q }", p, q[1], q[2])
	case kind == PathRegex && globStar.MatchString(plain):
		to := strings.NewReplacer("/**", "(/.*)?", "**", ".*", "*", "[^/]*", ".", `\.`).Replace(plain)
		return fmt.Errorf("%q: a single * is not a pattern within a path; write %q", p, "~^"+to+"$")
	case kind == PathRegex && plain[0] != '/' && plain[0] != '^':
		return fmt.Errorf("%q: a regular expression that begins with neither / nor ^ has a mark; write %q", p, "~"+plain)
	}
	return nil
}

// asciiHost returns a host as a request names it: an international name in its ASCII form.
func asciiHost(h string) string {
	if !strings.ContainsFunc(h, func(c rune) bool { return c > 0x7f }) {
		return strings.TrimSuffix(h, ".")
	}
	wild, name := "", h
	if rest, found := strings.CutPrefix(h, "*."); found {
		wild, name = "*.", rest
	}
	port := ""
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name, port = name[:i], name[i:]
	}
	if front, found := strings.CutSuffix(name, ".*"); found {
		name, port = front, ".*"+port
	}
	ascii, err := idna.Lookup.ToASCII(name)
	if err != nil {
		return h // CheckHost rejects it
	}
	return wild + strings.TrimSuffix(ascii, ".") + port
}

// checkMethod rejects methods that no request has.
func checkMethod(m string) error {
	upper := strings.ToUpper(m)
	switch known := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}; {
	case !token(m):
		return fmt.Errorf("invalid token %q; use one such as GET", m)
	case m == "TRACE", m == "CONNECT":
		return fmt.Errorf("%s is never forwarded: no location matches it", m)
	case m != upper && slices.Contains(known, upper):
		return fmt.Errorf("%q: methods are compared letter by letter; write %q", m, upper)
	}
	return nil
}
