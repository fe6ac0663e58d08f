package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// draft is the file that is being written.
type draft struct {
	from         string
	listen       []string
	tlsListen    []string
	redirect     bool
	certificates [][2]string
	acme         []string
	email        string
	clientCA     string
	optionalCA   bool
	trust        []string
	sites        []*site
	left         []Left
}

// site becomes a region.
type site struct {
	id         string
	errorPages map[string]string
	places     []*place
}

// place becomes a location.
type place struct {
	hosts, paths []string
	priority     int
	keys         []string // lines of TOML
	access       []string // lines of its access table
	fallback     string
	destinations []*destination
}

type destination struct {
	uri  string
	keys []string
}

func (p *place) set(key, format string, args ...any) {
	p.keys = append(p.keys, key+" = "+fmt.Sprintf(format, args...))
}

// quote returns a TOML string.
func quote(s string) string {
	control := strings.ContainsFunc(s, isControl)
	if !control && !strings.Contains(s, "'") && strings.ContainsAny(s, `\"`) {
		return "'" + s + "'"
	}
	b := []byte{'"'}
	for _, r := range s {
		switch {
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case isControl(r):
			b = fmt.Appendf(b, `\u%04X`, r)
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return string(append(b, '"'))
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func list(values []string) string {
	var quoted []string
	for _, v := range values {
		quoted = append(quoted, quote(v))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// table returns an inline table of texts, by name.
func table(values map[string]string) string {
	var parts []string
	for _, name := range sorted(values) {
		parts = append(parts, quote(name)+" = "+quote(values[name]))
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

func sorted[T any](m map[string]T) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func unique(values []string) []string {
	var kept []string
	for _, v := range values {
		if !slices.Contains(kept, v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// lastOf drops lines whose key a later line has: TOML has each once.
func lastOf(lines []string) []string {
	var kept []string
	for _, line := range lines {
		key, _, _ := strings.Cut(line, " = ")
		kept = slices.DeleteFunc(kept, func(k string) bool { return strings.HasPrefix(k, key+" = ") })
		kept = append(kept, line)
	}
	return kept
}

// result writes the file.
func (d *draft) result() *Result {
	if len(d.tlsListen) > 0 && len(d.certificates)+len(d.acme) == 0 {
		d.left = append(d.left, Left{d.from, 1, "certificates", "add [[tls.certificates]] with pem and key, or [tls.acme]"})
	}
	slices.SortStableFunc(d.left, func(a, b Left) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# Translated from %s; ceiling-proxy check FILE checks it.", d.from)
	for _, l := range d.left {
		say("# not translated: %s", strings.Map(func(r rune) rune {
			if isControl(r) {
				return ' '
			}
			return r
		}, l.String()))
	}
	if len(d.listen) > 0 {
		say("\nlisten = %s", list(unique(d.listen)))
	}
	if len(d.trust) > 0 {
		say("trust = %s", list(unique(d.trust)))
	}
	if len(d.tlsListen) > 0 {
		d.writeTLS(say)
	}
	for _, s := range d.sites {
		say("\n[[regions]]")
		if s.id != "" {
			say("id = %s", quote(s.id))
		}
		if len(s.errorPages) > 0 {
			say("error_pages = %s", table(s.errorPages))
		}
		for _, p := range s.places {
			p.write(say)
		}
	}
	return &Result{b.String(), d.left}
}

func (d *draft) writeTLS(say func(string, ...any)) {
	say("\n[tls]\nlisten = %s", list(unique(d.tlsListen)))
	if d.redirect {
		say("redirect = true")
	}
	if d.clientCA != "" {
		say("client_ca = %s", quote(d.clientCA))
	}
	if d.optionalCA {
		say("client_optional = true")
	}
	if len(d.acme) > 0 {
		say("[tls.acme]\nhosts = %s\ncache = \"/var/lib/ceiling/acme\"", list(unique(d.acme)))
		if d.email != "" {
			say("email = %s", quote(d.email))
		}
	}
	seen := map[[2]string]bool{}
	for _, c := range d.certificates {
		if !seen[c] {
			say("[[tls.certificates]]\npem = %s\nkey = %s", quote(c[0]), quote(c[1]))
		}
		seen[c] = true
	}
}

func (p *place) write(say func(string, ...any)) {
	say("\n[[regions.locations]]")
	if len(p.hosts) > 0 {
		say("hosts = %s", list(p.hosts))
	}
	if len(p.paths) > 0 {
		say("paths = %s", list(p.paths))
	}
	if p.priority != 0 {
		say("priority = %d", p.priority)
	}
	for _, k := range lastOf(p.keys) {
		say("%s", k)
	}
	if p.fallback != "" {
		say("fallback = { uri = %s }", quote(p.fallback))
	}
	if len(p.access) > 0 {
		say("[regions.locations.access]")
		for _, k := range lastOf(p.access) {
			say("%s", k)
		}
	}
	for _, d := range p.destinations {
		say("[[regions.locations.destinations]]\nuri = %s", quote(d.uri))
		for _, k := range lastOf(d.keys) {
			say("%s", k)
		}
	}
}
