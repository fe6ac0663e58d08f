package condition

import (
	"fmt"
	"regexp"
	"strings"
)

// Selector names a value of a response, in a line:
//
//	json $.token    header Location    header Location /orders/(\d+)    body name="csrf" value="([^"]+)"
//
// A regular expression takes its first group, or without one what it matches.
type Selector struct {
	of      Condition // subject, name and path
	pattern *regexp.Regexp
}

const selectors = `write json $.token, header Location, header Location /orders/(\d+), or body csrf=(\w+)`

// ParseSelector reads a line. The error is one line, with what can be written instead.
func ParseSelector(text string) (s Selector, err error) {
	s.of.text = strings.TrimSpace(text)
	rest := ""
	switch s.of.subject, rest = subjectOf(s.of.text); s.of.subject {
	case "json":
		if s.of.name, rest = word(rest); strings.TrimSpace(rest) != "" || s.of.name == "" {
			return s, fmt.Errorf("%q: a path follows json: %s", s.of.text, selectors)
		}
		if s.of.path, err = pathOf(s.of.name); err != nil {
			return s, fmt.Errorf("%q: %w", s.of.text, err)
		}
		return s, nil
	case "header":
		if s.of.name, rest = word(rest); s.of.name == "" {
			return s, fmt.Errorf("%q: the field's name is missing: %s", s.of.text, selectors)
		}
	case "body":
		if strings.TrimSpace(rest) == "" {
			return s, fmt.Errorf("%q: a regular expression is missing: %s", s.of.text, selectors)
		}
	default:
		return s, fmt.Errorf("%q: a value is taken from json, a header field or the body: %s", s.of.text, selectors)
	}
	if rest = strings.TrimSpace(rest); rest != "" {
		if s.pattern, err = regexp.Compile(rest); err != nil {
			return s, fmt.Errorf("%q: %s", s.of.text, strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
	return s, nil
}

// String returns the line.
func (s *Selector) String() string { return s.of.text }

// UnmarshalText is ParseSelector.
func (s *Selector) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSelector(string(text))
	return err
}

// In returns the value, and whether the response has it.
func (s *Selector) In(r *Response) (string, bool) {
	v, exists := s.of.valueIn(r)
	if !exists || s.pattern == nil {
		return v.text, exists
	}
	found := s.pattern.FindStringSubmatch(v.text)
	switch len(found) {
	case 0:
		return "", false
	case 1:
		return found[0], true
	}
	return found[1], true
}
