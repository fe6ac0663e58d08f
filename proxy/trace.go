package proxy

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"ceiling/internal/secret"
)

// Trace is one of the last requests, as in the JSON access log, with texts truncated to traceText
// and secrets hidden.
type Trace struct {
	// At is when it was answered, in Unix nanoseconds.
	At   int64           `json:"at"`
	Line json.RawMessage `json:"line"`
}

// traceText bounds each text of a trace, so that all traces of a loop take at most a few
// megabytes.
const traceText = 256

// traceRing has a loop's last requests: a ring of lines with reused memory.
type traceRing struct {
	list []trace
	next int
}

type trace struct {
	at   int64 // loop's clock
	line []byte
}

// trace stores the request in place of the oldest one.
func (x *exchange) trace(took int64) {
	l := x.client.conn.loop
	r := &l.traces
	most := l.site.traces
	if len(r.list) < most {
		r.next = len(r.list)
		r.list = append(r.list, trace{})
	}
	t := &r.list[r.next]
	r.next = (r.next + 1) % most
	var stamp [len(time.RFC3339Nano)]byte
	t.at = l.now
	t.line = x.appendJSON(t.line[:0], l.proxy.began.Add(time.Duration(l.now)).UTC().AppendFormat(stamp[:0], time.RFC3339Nano), x.head(), took,
		traceText)
}

// hideSecrets copies a line without the secrets of its URLs and texts. In these, quotation marks
// and blanks are escaped, see appendSafe.
func hideSecrets(line []byte) []byte {
	text := string(line)
	for key, hide := range map[string]func(string) string{"target": secret.Plain().URL, "referer": secret.Plain().URL,
		"user_agent": secret.Plain().Text} {
		before, rest, found := strings.Cut(text, `,"`+key+`":"`)
		if !found {
			continue
		}
		value, after, _ := strings.Cut(rest, `"`)
		text = before + `,"` + key + `":"` + hide(value) + `"` + after
	}
	return []byte(text)
}

// NewestFirst sorts traces.
func NewestFirst(list []Trace) {
	slices.SortStableFunc(list, func(a, b Trace) int { return cmp.Compare(b.At, a.At) })
}
