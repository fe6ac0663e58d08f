// Package condition has what a response must be like, in a line each:
//
//	body contains "ok"        body matches ^\[.*\]$       body == "pong"
//	json $.items[0].id == 5   json $.error not exists     json $.name contains "x"
//	header Content-Type contains json                     bytes < 10000
//
// The words are Hurl's. A text that begins with a quote is a JSON string; without one it is the rest of the line.
package condition

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Condition is one line.
type Condition struct {
	text    string
	subject string // body, json, header or bytes
	name    string // of a header field, or a path in JSON
	path    string // the same as gjson reads it
	not     bool
	op      string
	value   string
	number  float64 // of value
	numeric bool    // value is a number, and not in quotes
	quoted  bool
	pattern *regexp.Regexp
}

// Response is what is held to conditions.
type Response struct {
	// Head is its header: "Name: value" lines. It is read only if NeedsHead says so.
	Head []byte
	// Body without its framing; one that is coded as gzip (RFC 1952) is unpacked.
	Body []byte
}

// example ends the error for what is no condition.
const example = `write body contains "ok", json $.status == "up", header Content-Type contains json, or bytes < 10000`

// Parse reads a line. The error is one line, with what can be written instead.
func Parse(text string) (Condition, error) {
	c := Condition{text: strings.TrimSpace(text)}
	rest := ""
	c.subject, rest = subjectOf(c.text)
	switch c.subject {
	case "json", "header":
		c.name, rest = word(rest)
	case "body", "bytes":
	case "status":
		return c, errors.New("give only statuses: 2xx,304")
	default:
		return c, fmt.Errorf("%q: give statuses (2xx,304), or what the body, json, a header field or the bytes must be: %s", c.text, example)
	}
	if c.op, rest = word(rest); c.op == "not" {
		c.not = true
		c.op, rest = word(rest)
	}
	if c.op == "!=" {
		c.not, c.op = !c.not, "=="
	}
	if !slices.Contains(c.operators(), c.op) {
		return c, fmt.Errorf("%q: %s is compared by %s: %s", c.text, c.subject, strings.Join(append(c.operators(), "not …"), ", "), example)
	}
	return c, c.complete(strings.TrimSpace(rest))
}

// operators returns what may follow the subject; the value of all but exists follows.
func (c *Condition) operators() []string {
	switch c.subject {
	case "bytes":
		return []string{"==", "<", "<=", ">", ">="}
	case "body":
		return []string{"==", "contains", "matches"}
	case "header":
		return []string{"==", "contains", "matches", "exists"}
	}
	return []string{"==", "<", "<=", ">", ">=", "contains", "matches", "exists"}
}

// complete reads the path and the value.
func (c *Condition) complete(value string) (err error) {
	if c.subject == "json" {
		if c.path, err = pathOf(c.name); err != nil {
			return fmt.Errorf("%q: %w", c.text, err)
		}
	}
	if c.op == "exists" {
		if value != "" {
			return fmt.Errorf("%q: nothing follows exists", c.text)
		}
		return nil
	}
	if value == "" {
		return fmt.Errorf("%q: what to compare with is missing: %s", c.text, example)
	}
	c.value = value
	if c.quoted = value[0] == '"'; c.quoted {
		if json.Unmarshal([]byte(value), &c.value) != nil {
			return fmt.Errorf("%q: invalid text in quotes: %s; write it as in JSON, or remove both quotes", c.text, value)
		}
	}
	number, err := strconv.ParseFloat(value, 64)
	c.number, c.numeric = number, err == nil
	if (c.subject == "bytes" || strings.ContainsAny(c.op, "<>")) && !c.numeric {
		return fmt.Errorf("%q: %s is not a number", c.text, value)
	}
	if c.op == "matches" {
		if c.pattern, err = regexp.Compile(c.value); err != nil {
			return fmt.Errorf("%q: %s", c.text, strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
	return nil
}

// subjectOf cuts the subject off a line; jsonpath is Hurl's word for json.
func subjectOf(text string) (subject, rest string) {
	if subject, rest = word(text); subject == "jsonpath" {
		subject = "json"
	}
	return subject, rest
}

// word cuts the first word off.
func word(text string) (first, rest string) {
	text = strings.TrimSpace(text)
	if at := strings.IndexAny(text, " \t"); at >= 0 {
		return text[:at], text[at:]
	}
	return text, ""
}

// pathOf turns $.items[0].id into gjson's items.0.id.
func pathOf(path string) (string, error) {
	rest := strings.TrimPrefix(strings.TrimPrefix(path, "$"), ".")
	if rest == "" {
		return "@this", nil
	}
	var parts []string
	for rest != "" {
		end := strings.IndexAny(rest, ".[")
		name := rest
		switch {
		case end == 0 && rest[0] == '[':
			inside, after, found := strings.Cut(rest[1:], "]")
			if _, err := strconv.ParseUint(inside, 10, 31); !found || err != nil {
				return "", fmt.Errorf("the path %s: in brackets is a number from 0: $.items[0].id", path)
			}
			name, rest = inside, strings.TrimPrefix(after, ".")
		case end == 0:
			return "", fmt.Errorf("the path %s: a name is missing: $.items[0].id", path)
		case end > 0:
			name = rest[:end]
			rest = strings.TrimPrefix(rest[end:], ".")
		default:
			rest = ""
		}
		if name == "*" {
			return "", fmt.Errorf("the path %s: it has to name one value: $.items[0].id", path)
		}
		parts = append(parts, gjson.Escape(name))
	}
	return strings.Join(parts, "."), nil
}

// String returns the line.
func (c *Condition) String() string { return c.text }

// MarshalText is String.
func (c Condition) MarshalText() ([]byte, error) { return []byte(c.text), nil }

// UnmarshalText is Parse.
func (c *Condition) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	*c = parsed
	return err
}

// NeedsHead reports whether it is about a header field.
func (c *Condition) NeedsHead() bool { return c.subject == "header" }

// Holds reports whether the response is like that; found is what the response has instead, for a reader;
// "" if it has none.
func (c *Condition) Holds(r *Response) (holds bool, found string) {
	value, exists := c.valueIn(r)
	switch c.op {
	case "exists":
		holds = exists
	case "contains":
		holds = exists && strings.Contains(value.text, c.value)
	case "matches":
		holds = exists && c.pattern.MatchString(value.text)
	case "==":
		holds = exists && value.equals(c)
	default:
		holds = exists && value.numeric && ordered(c.op, cmp.Compare(value.number, c.number))
		if !holds && !value.numeric { // neither less nor more
			return false, value.found(exists)
		}
	}
	return holds != c.not, value.found(exists)
}

func ordered(op string, order int) bool {
	switch op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// value is what a condition is about, in a response.
type value struct {
	text    string
	number  float64
	numeric bool
	kind    string // of JSON what is no text: number, true, false, null, object
	unit    string
}

func (v *value) equals(c *Condition) bool {
	switch {
	case v.numeric && !c.quoted:
		return c.numeric && v.number == c.number
	case v.kind != "":
		return !c.quoted && v.text == c.value
	}
	return v.text == c.value && (c.quoted || c.subject != "json" || !c.numeric)
}

func (v *value) found(exists bool) string {
	if !exists {
		return ""
	}
	return v.text + v.unit
}

func (c *Condition) valueIn(r *Response) (v value, exists bool) {
	switch c.subject {
	case "bytes":
		n := len(r.Body)
		return value{text: strconv.Itoa(n), number: float64(n), numeric: true, unit: " bytes"}, true
	case "header":
		for text := range Fields(r.Head, c.name) {
			return value{text: text}, true
		}
		return v, false
	case "body":
		return value{text: string(unpacked(r.Body))}, true
	}
	body := unpacked(r.Body)
	if !gjson.ValidBytes(body) {
		return v, false
	}
	got := gjson.GetBytes(body, c.path)
	switch v = (value{text: got.String()}); got.Type {
	case gjson.Number:
		v.text, v.number, v.numeric, v.kind = got.Raw, got.Num, true, "number"
	case gjson.String:
	default:
		v.text, v.kind = got.Raw, got.Type.String()
	}
	return v, got.Exists()
}

// Fields returns the values of a field in a header, in order. Names are compared without case.
func Fields(head []byte, name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		value, open := "", false
		for line := range bytes.Lines(head) {
			if open && (line[0] == ' ' || line[0] == '\t') { // RFC 9112, section 5.2
				value += " " + string(bytes.TrimSpace(line))
				continue
			}
			if open && !yield(value) {
				return
			}
			key, text, found := bytes.Cut(line, []byte(":"))
			if open = found && strings.EqualFold(string(key), name); open {
				value = string(bytes.TrimSpace(text))
			}
		}
		if open {
			yield(value)
		}
	}
}

// unpackedMost bounds a body that was packed.
const unpackedMost = 64 << 20

// unpacked returns a body as the server meant it: the bytes of gzip tell it.
func unpacked(body []byte) []byte {
	if !bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		return body
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return body
	}
	plain, err := io.ReadAll(io.LimitReader(z, unpackedMost))
	if err != nil {
		return body
	}
	return plain
}
