package route

import (
	"slices"
	"strings"
)

// Hidden is a host and a path of a rule that get no request, because another rule takes all of them.
type Hidden struct {
	Rule, By int
	Host     string // "*" for any
	Path     Path
	Whole    bool // none of the rule's hosts and paths gets one
}

// FindHidden compares all rules with those that come before them.
func FindHidden(rules []Rule) ([]Hidden, error) {
	all, err := sorted(rules)
	if err != nil {
		return nil, err
	}
	entries, hidden := make([]int, len(rules)), make([]int, len(rules))
	var list []Hidden
	for i := range all {
		e := &all[i]
		entries[e.index]++
		for j := range i {
			if by := &all[j]; by.index != e.index && by.covers(e) {
				hidden[e.index]++
				host := e.name
				if e.port != "" {
					host += ":" + e.port
				}
				list = append(list, Hidden{Rule: e.index, By: by.index, Host: host, Path: Path{e.kind, e.text}})
				break
			}
		}
	}
	for i := range list {
		list[i].Whole = entries[list[i].Rule] == hidden[list[i].Rule]
	}
	return list, nil
}

// covers reports whether e takes every request that other takes. It may overlook some.
func (e *entry) covers(other *entry) bool {
	return e.takes(other.name) && (e.port == "" || e.port == other.port) && e.coversPath(other) &&
		(len(e.methods) == 0 || len(other.methods) > 0 && !slices.ContainsFunc(other.methods, func(m string) bool {
			return !slices.Contains(e.methods, m)
		})) &&
		!slices.ContainsFunc(e.queries, func(q pair) bool {
			return !slices.ContainsFunc(other.queries, func(o pair) bool { return o.name == q.name && (q.value == "*" || q.value == o.value) })
		}) &&
		!slices.ContainsFunc(e.headers, func(v values) bool { return !slices.ContainsFunc(other.headers, v.cover) })
}

func (v values) cover(other values) bool {
	return strings.EqualFold(v.name, other.name) && (slices.Contains(v.any, "*") || !slices.ContainsFunc(other.any, func(o string) bool {
		return !slices.Contains(v.any, o)
	}))
}

func (e *entry) coversPath(other *entry) bool {
	switch {
	case e.kind == AnyPath, e.kind == Prefix && e.text == "/":
		return true
	case e.kind == Regex && slices.Contains([]string{"", "/", "^", "^/", ".*", "/.*", "^.*", "^/.*", "^.*$", "^/.*$"}, e.text):
		return true
	case e.kind == other.kind && e.text == other.text:
		return true
	case other.kind == Exact, other.kind == Prefix && e.kind == Prefix:
		return e.matchesPath([]byte(other.text))
	}
	return false
}
