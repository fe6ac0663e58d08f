// Package data fills in requests while a run lasts: columns of a file of rows, numbers, UUIDs and random
// numbers, in place of {{…}} in URL, header fields and body; and the steps of sessions, with values of earlier
// responses. It renders beside the loops, and never in them.
package data

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"ceiling/internal/lazy"
)

// place is {{.column}}, or {{seq}}, {{uuid}}, {{random 1 100}}, {{now}}.
var place = lazy.Regexp(`\{\{[^{}]*\}\}`) // read-only

// Fills reports whether a text has a place that is filled in: a column, or something that needs no file.
func Fills(text []byte) bool {
	return slices.ContainsFunc(place().FindAll(text, -1), func(found []byte) bool {
		_, err := parsePlace(string(found))
		return err == nil
	})
}

// What stands in a place.
const (
	literal = iota
	column
	sequence
	uuid
	random
	now
	length // of the body, in its field
	cookie // the field with all of a user's, if there are any
)

// Where a place is, which says how its value is written.
const (
	inTarget = iota // of the request line: percent-encoded
	inField         // as it is; a line break is refused
	inJSON          // as the inside of a JSON string
	inForm          // percent-encoded
	inText          // as it is
)

// segment is a part of a request: bytes, or what is put there.
type segment struct {
	kind    int
	where   int
	text    []byte // literal
	name    string // of a column
	at      int    // its number
	low, up int64  // random
}

// template is a request with places.
type template struct {
	head, body []segment
	noBody     bool
}

func parsePlace(text string) (segment, error) {
	words := strings.Fields(strings.TrimSuffix(strings.TrimPrefix(text, "{{"), "}}"))
	switch {
	case len(words) == 1 && strings.HasPrefix(words[0], ".") && len(words[0]) > 1:
		return segment{kind: column, name: words[0][1:]}, nil
	case len(words) == 1 && words[0] == "seq":
		return segment{kind: sequence}, nil
	case len(words) == 1 && words[0] == "uuid":
		return segment{kind: uuid}, nil
	case len(words) == 1 && words[0] == "now":
		return segment{kind: now}, nil
	case len(words) == 3 && words[0] == "random":
		low, err := strconv.ParseInt(words[1], 10, 64)
		up, other := strconv.ParseInt(words[2], 10, 64)
		if err != nil || other != nil || up < low {
			return segment{}, fmt.Errorf("%s: give two whole numbers, the smaller one first: {{random 1 100}}", text)
		}
		return segment{kind: random, low: low, up: up}, nil
	}
	return segment{}, fmt.Errorf("%s: there are {{.column}}, {{seq}}, {{uuid}}, {{random 1 100}} and {{now}}", text)
}

// compile takes an encoded request apart. columns are those of the data; missing says that a name is not
// among them.
func compile(request []byte, columns []string, missing func(name string) error) (*template, error) {
	head, body, _ := bytes.Cut(request, []byte("\r\n\r\n"))
	t := &template{noBody: bytes.HasPrefix(head, []byte("HEAD "))}
	first, fields, _ := bytes.Cut(append(bytes.Clone(head), "\r\n"...), []byte("\r\n"))
	var err error
	if t.head, err = places(t.head, append(bytes.Clone(first), "\r\n"...), inTarget); err != nil {
		return nil, err
	}
	kind := inText
	for line := range bytes.SplitAfterSeq(fields, []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			t.head = append(t.head, segment{text: []byte("Content-Length: ")}, segment{kind: length}, segment{text: []byte("\r\n")})
			continue
		case bytes.EqualFold(name, []byte("Content-Type")) && bytes.Contains(value, []byte("x-www-form-urlencoded")):
			kind = inForm
		}
		if t.head, err = places(t.head, line, inField); err != nil {
			return nil, err
		}
	}
	t.head = append(t.head, segment{text: []byte("\r\n")})
	if kind == inText && isJSON(bytes.TrimSpace(body)) {
		kind = inJSON
	}
	if t.body, err = places(nil, body, kind); err != nil {
		return nil, err
	}
	for _, list := range [][]segment{t.head, t.body} {
		for i := range list {
			if s := &list[i]; s.kind == column {
				if s.at = slices.Index(columns, s.name); s.at < 0 {
					return nil, missing(s.name)
				}
			}
		}
	}
	return t, nil
}

// isJSON reports whether a body begins as JSON does, and not with a place.
func isJSON(body []byte) bool {
	return bytes.HasPrefix(body, []byte("[")) || bytes.HasPrefix(body, []byte("{")) && !bytes.HasPrefix(body, []byte("{{"))
}

func noColumn(name string, columns []string, file string) error {
	if file == "" {
		return fmt.Errorf("{{.%s}}: no data is given; give --feed FILE, or --feed none to send it unchanged", name)
	}
	return fmt.Errorf("{{.%s}}: %s has no such column; it has %s", name, file, strings.Join(columns, ", "))
}

// places adds the parts of a text.
func places(to []segment, text []byte, where int) ([]segment, error) {
	at := 0
	for _, found := range place().FindAllIndex(text, -1) {
		s, err := parsePlace(string(text[found[0]:found[1]]))
		if err != nil {
			return nil, err
		}
		s.where = where
		to = append(to, segment{text: text[at:found[0]]}, s)
		at = found[1]
	}
	return append(to, segment{text: text[at:]}), nil
}

// row is what one request is filled in with.
type row struct {
	number uint64 // of the request, from 0
	values []string
	user   *user // of a session
	rng    *rand.Rand
	now    time.Time
}

// render appends the request to b.
func (t *template) render(b []byte, r *row, scratch *[]byte) ([]byte, error) {
	body := (*scratch)[:0]
	var err error
	for i := range t.body {
		if body, err = t.body[i].append(body, r, 0); err != nil {
			return b, err
		}
	}
	*scratch = body
	for i := range t.head {
		if b, err = t.head[i].append(b, r, len(body)); err != nil {
			return b, err
		}
	}
	return append(b, body...), nil
}

func (s *segment) append(b []byte, r *row, bodyLength int) ([]byte, error) {
	switch s.kind {
	case literal:
		return append(b, s.text...), nil
	case length:
		return strconv.AppendInt(b, int64(bodyLength), 10), nil
	case sequence:
		return strconv.AppendUint(b, r.number+1, 10), nil
	case cookie:
		return r.user.appendCookies(b), nil
	case random:
		return strconv.AppendInt(b, s.low+r.rng.Int64N(s.up-s.low+1), 10), nil
	case now:
		return r.now.AppendFormat(b, time.RFC3339Nano), nil
	case uuid:
		return appendUUID(b, r.rng), nil
	}
	return appendValue(b, r.values[s.at], s.where, s.name)
}

// appendUUID appends one of version 4 (RFC 9562, section 5.4).
func appendUUID(b []byte, rng *rand.Rand) []byte {
	var u [16]byte
	binary.BigEndian.PutUint64(u[:], rng.Uint64())
	binary.BigEndian.PutUint64(u[8:], rng.Uint64())
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	for i, end := range []int{4, 6, 8, 10, 16} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, u[[]int{0, 4, 6, 8, 10}[i]:end])
	}
	return b
}

// appendValue writes a value as its place needs it.
func appendValue(b []byte, v string, where int, name string) ([]byte, error) {
	switch where {
	case inTarget, inForm:
		for _, c := range []byte(v) {
			if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
				b = append(b, c)
				continue
			}
			b = append(b, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
		return b, nil
	case inJSON:
		for _, c := range []byte(v) {
			switch {
			case c == '"' || c == '\\':
				b = append(b, '\\', c)
			case c < 0x20:
				b = fmt.Appendf(b, `\u%04x`, c)
			default:
				b = append(b, c)
			}
		}
		return b, nil
	case inField:
		if strings.ContainsFunc(v, func(c rune) bool { return c < 0x20 && c != '\t' || c == 0x7f }) {
			return b, fmt.Errorf("{{.%s}}: a control character in its value, and it is in a header field", name)
		}
	}
	return append(b, v...), nil
}
