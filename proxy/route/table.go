// Package route decides where a request goes: which location it belongs to, and which of the
// location's destinations takes it. It is pure: it uses no sockets and no clock, and the same
// query always has the same answer.
package route

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// PathKind is how a pattern matches a path.
type PathKind uint8

// The kinds, in ascending precedence within a priority and a host: an exact path comes first,
// then regexes in order, then the longest prefix.
const (
	AnyPath PathKind = iota
	Prefix           // of whole segments: /a matches /a and /a/b, not /ab
	Regex            // anywhere in the path unless anchored
	Exact
)

// Path is a pattern.
type Path struct {
	Kind PathKind
	Text string
}

// Rule says which requests belong to a location. Empty lists match any.
type Rule struct {
	// Hosts are names in lower case, *.suffix (any number of labels in front, at least one), prefix.*
	// (any number behind) or *, with :port to match only that port.
	Hosts    []string
	Paths    []Path
	Methods  []string
	Queries  map[string]string   // all must be present; "*" means any value
	Headers  map[string][]string // all must be present, with one of the values; "*" means any
	Priority int
}

// Query is what matters of a request.
type Query struct {
	Host   []byte // of the Host field, with its port
	Port   string // of the scheme, if Host has none
	Path   []byte // see Bare
	Query  []byte // without the question mark, as sent
	Method []byte
	// Header returns a field's first value, nil if absent.
	Header func(name string) []byte
}

// Table finds the location of a request. It is immutable after New, so loops may share it.
type Table struct {
	exact    map[string][]entry // by name without port
	wildcard map[string][]entry // by the suffix with its dot
	any      []entry
}

// entry is one host and one path of one rule.
type entry struct {
	index                int
	name, port           string
	front                string // of prefix.*, with its dot; "" for others
	kind                 PathKind
	text                 string
	re                   *regexp.Regexp
	methods              []string
	queries              []pair
	headers              []values
	priority, hostWeight int
}

type pair struct{ name, value string }

type values struct {
	name string
	any  []string
}

// New builds a table. Its answers are indices into rules.
func New(rules []Rule) (*Table, error) {
	all, err := sorted(rules)
	if err != nil {
		return nil, err
	}
	t := &Table{exact: map[string][]entry{}, wildcard: map[string][]entry{}}
	for i := range all {
		switch e := &all[i]; {
		case e.name == "*", e.front != "":
		case e.name[0] == '*':
			t.wildcard[e.name[1:]] = nil
		default:
			t.exact[e.name] = nil
		}
	}
	// Each list has everything its host can match, so that one list suffices. What a prefix.* takes
	// only the request shows.
	for name := range t.exact {
		t.exact[name] = those(all, func(e *entry) bool { return e.takes(name) })
	}
	for suffix := range t.wildcard {
		t.wildcard[suffix] = those(all, func(e *entry) bool { return e.front != "" || e.name[0] == '*' && e.takes("x"+suffix) })
	}
	t.any = those(all, func(e *entry) bool { return e.front != "" || e.name == "*" })
	return t, nil
}

// sorted expands the rules and puts them into the order in which they are tried.
func sorted(rules []Rule) (all []entry, err error) {
	for i := range rules {
		list, err := entriesOf(&rules[i], i)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.SortStableFunc(all, before)
	return all, nil
}

func those(all []entry, keep func(*entry) bool) []entry {
	var list []entry
	for i := range all {
		if keep(&all[i]) {
			list = append(list, all[i])
		}
	}
	return list
}

func (e *entry) takes(name string) bool {
	if e.front != "" {
		return e.name == name || strings.HasPrefix(name, e.front) && len(name) > len(e.front)
	}
	return e.name == "*" || e.name == name || e.name[0] == '*' && strings.HasSuffix(name, e.name[1:]) && len(name) >= len(e.name)
}

// entriesOf expands a rule.
func entriesOf(r *Rule, index int) ([]entry, error) {
	base := entry{index: index, methods: r.Methods, priority: r.Priority}
	for name, value := range r.Queries {
		base.queries = append(base.queries, pair{name, value})
	}
	for name, any := range r.Headers {
		base.headers = append(base.headers, values{name, any})
	}
	hosts, paths := r.Hosts, r.Paths
	if len(hosts) == 0 {
		hosts = []string{"*"}
	}
	if len(paths) == 0 {
		paths = []Path{{}}
	}
	var list []entry
	for _, host := range hosts {
		for _, path := range paths {
			e := base
			name, port := splitPort([]byte(strings.ToLower(host)))
			e.name, e.port = string(name), string(port)
			if front, is := strings.CutSuffix(e.name, "*"); is && front != "" {
				e.front = front
			}
			e.hostWeight = weigh(e.name, e.port)
			e.kind, e.text = path.Kind, path.Text
			if e.kind == Regex {
				re, err := regexp.Compile(path.Text)
				if err != nil {
					return nil, err
				}
				e.re = re
			}
			list = append(list, e)
		}
	}
	return list, nil
}

// weigh orders hosts: a name, *.suffix, prefix.*, the longer ones first, then *, and each with a port
// before the same without one.
func weigh(name, port string) int {
	w := 0
	switch {
	case name == "*":
	case strings.HasSuffix(name, "*"):
		w = 2 * len(name)
	case name[0] == '*':
		w = 1<<10 + 2*len(name)
	default:
		w = 1 << 20
	}
	if port != "" {
		w++
	}
	return w
}

// before orders entries by priority, host, kind of path and longest prefix, then by file order,
// since the sort is stable.
func before(a, b entry) int {
	prefix := 0
	if a.kind == Prefix && b.kind == Prefix {
		prefix = cmp.Compare(len(b.text), len(a.text))
	}
	return cmp.Or(
		cmp.Compare(b.priority, a.priority),
		cmp.Compare(b.hostWeight, a.hostWeight),
		cmp.Compare(b.kind, a.kind),
		prefix,
	)
}

// Find returns the index of the rule that matches the request, -1 for none. It does not allocate
// if the host is in lower case.
func (t *Table) Find(q *Query) int {
	name, port := splitPort(q.Host)
	name = bytes.TrimSuffix(name, []byte{'.'}) // of the root: the same name
	if hasUpper(name) {
		name = bytes.ToLower(name)
	}
	list, ok := t.exact[string(name)]
	if !ok {
		list = t.any
		for rest := name; len(t.wildcard) > 0; {
			dot := bytes.IndexByte(rest, '.')
			if dot < 0 {
				break
			}
			if l, ok := t.wildcard[string(rest[dot:])]; ok && dot > 0 {
				list = l
				break
			}
			rest = rest[dot+1:]
		}
	}
	for i := range list {
		if list[i].matches(q, name, port) {
			return list[i].index
		}
	}
	return -1
}

func (e *entry) matches(q *Query, name, port []byte) bool {
	return (e.front == "" || len(name) > len(e.front) && string(name[:len(e.front)]) == e.front) &&
		(e.port == "" || e.port == string(port) || port == nil && e.port == q.Port) && e.matchesPath(q.Path) &&
		(len(e.methods) == 0 || e.matchesMethod(q.Method)) &&
		(len(e.queries) == 0 || e.matchesQuery(q.Query)) &&
		(len(e.headers) == 0 || e.matchesHeader(q.Header))
}

func (e *entry) matchesPath(path []byte) bool {
	switch e.kind {
	case Prefix:
		n := len(e.text)
		return len(path) >= n && string(path[:n]) == e.text && (len(path) == n || e.text[n-1] == '/' || path[n] == '/')
	case Exact:
		return string(path) == e.text
	case Regex:
		return e.re.Match(path)
	}
	return true
}

func (e *entry) matchesMethod(method []byte) bool {
	return slices.Contains(e.methods, string(method))
}

func (e *entry) matchesQuery(query []byte) bool {
	for _, want := range e.queries {
		value, ok := queryValue(query, want.name)
		if !ok || want.value != "*" && value != want.value {
			return false
		}
	}
	return true
}

func (e *entry) matchesHeader(header func(string) []byte) bool {
	for _, want := range e.headers {
		value := header(want.name)
		if value == nil || !slices.ContainsFunc(want.any, func(v string) bool { return v == "*" || v == string(value) }) {
			return false
		}
	}
	return true
}

// splitPort splits the port off a host; an IPv6 literal keeps its brackets.
func splitPort(host []byte) (name, port []byte) {
	i := bytes.LastIndexByte(host, ':')
	if i < 0 || bytes.IndexByte(host[i:], ']') >= 0 {
		return host, nil
	}
	return host[:i], host[i+1:]
}

func hasUpper(b []byte) bool {
	for _, c := range b {
		if 'A' <= c && c <= 'Z' {
			return true
		}
	}
	return false
}
