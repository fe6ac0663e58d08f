package borrowed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/lazy"
)

// logLine finds method and target in a line of an access log: nginx's and Apache's common and combined
// format, and what else has the request line in quotes (HAProxy's, Traefik's).
var logLine = lazy.Regexp(`"([A-Z]+) (\S+) HTTP/[0-9.]+"`) // read-only

// logged is a request of a log. A log has neither fields nor bodies.
type logged struct{ method, target string }

// moment is a request of a log and its time.
type moment struct {
	request logged
	at      time.Time
}

// caddyLine is what a line of Caddy's log has of it. It is written when the response has ended.
type caddyLine struct {
	TS       json.RawMessage `json:"ts"`       // seconds since 1970, or a text
	Duration float64         `json:"duration"` // seconds
	Request  struct {
		Method string `json:"method"`
		URI    string `json:"uri"`
	} `json:"request"`
}

// Times in a line: [06/Feb/2009:12:14:14 +0100] of nginx and Apache, HAProxy's with milliseconds and
// without a zone, and RFC 3339 (nginx's $time_iso8601, Traefik's).
var (
	logTime = lazy.Regexp(`\[(\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d)(\.\d+)?( [+-]\d{4})?\]`)   // read-only
	isoTime = lazy.Regexp(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?`) // read-only
)

// started is when a request began of which a line was written when it had ended; the zero time: the
// line does not say.
func (c *caddyLine) started() time.Time {
	if seconds, err := strconv.ParseFloat(string(c.TS), 64); err == nil {
		return time.UnixMicro(int64(math.Round((seconds - c.Duration) * 1e6)))
	}
	at := timeIn(string(c.TS))
	if !at.IsZero() {
		at = at.Add(-time.Duration(c.Duration * 1e9))
	}
	return at
}

// timeIn finds a time in a text; the zero time: it has none.
func timeIn(text string) time.Time {
	layout := ""
	if m := logTime().FindStringSubmatch(text); m != nil {
		text, layout = m[1]+m[2], "02/Jan/2006:15:04:05"
		if m[3] != "" {
			text, layout = text+m[3], layout+" -0700"
		}
	} else if m := isoTime().FindStringSubmatch(text); m != nil {
		text, layout = strings.Replace(m[0], " ", "T", 1), "2006-01-02T15:04:05"
		switch {
		case strings.Contains(m[2], ":"), m[2] == "Z":
			layout += "Z07:00"
		case m[2] != "":
			layout += "Z0700"
		}
	}
	at, err := time.Parse(layout, text)
	if layout == "" || err != nil {
		return time.Time{}
	}
	return at
}

// isLog reports whether most of a file's first lines are those of an access log.
func isLog(text string) bool {
	lines, found := 0, 0
	for line := range strings.Lines(text) {
		if lines++; lines > 20 {
			break
		}
		if _, ok := logOf(line, false); ok {
			found++
		}
	}
	return found > 0 && 2*found >= lines
}

// logOf parses a line; timed: with its time, the zero time if it has none.
func logOf(line string, timed bool) (m moment, ok bool) {
	if strings.HasPrefix(line, "{") {
		var c caddyLine
		if json.Unmarshal([]byte(line), &c) != nil || c.Request.Method == "" || !strings.HasPrefix(c.Request.URI, "/") {
			return m, false
		}
		m.request = logged{c.Request.Method, asSent(c.Request.URI, false)}
		if timed {
			m.at = c.started()
		}
		return m, true
	}
	parts := logLine().FindStringSubmatch(line)
	if parts == nil || !strings.HasPrefix(parts[2], "/") {
		return m, false
	}
	m.request = logged{parts[1], asSent(parts[2], true)}
	if timed {
		m.at = timeIn(line)
	}
	return m, true
}

// asSent is a target as a URL has it: escapes of the log (nginx's and Apache's: \x22, \", \\) are decoded,
// and what a request line cannot have, or would end the target, is percent-encoded.
func asSent(target string, escaped bool) string {
	var b strings.Builder
	for i := 0; i < len(target); i++ {
		c := target[i]
		if c == '\\' && escaped && i+1 < len(target) {
			i++
			code, err := strconv.ParseUint(target[i:][1:min(3, len(target)-i)], 16, 8)
			if c = target[i]; c == 'x' && err == nil && i+2 < len(target) {
				c, i = byte(code), i+2
			} else if at := strings.IndexByte("abfnrtv", c); at >= 0 {
				c = "\a\b\f\n\r\t\v"[at]
			}
		}
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"#\`, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// logMost is how many different requests of a log are sent: those that it has most often.
const logMost = 50_000

// readLog reads the requests of an access log, to be sent to a server: each as often as the log has it,
// or, if it is timed, when the log has it.
func readLog(text, base string, timed bool) (*Set, error) {
	s := &Set{}
	var moments []moment
	count, broken, bodies, timeless := map[logged]int{}, 0, 0, 0
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		m, ok := logOf(line, timed)
		switch method := m.request.method; {
		case !ok:
			broken++
		case method == "POST" || method == "PUT" || method == "PATCH" || method == "CONNECT":
			bodies++
		case timed && m.at.IsZero():
			timeless++
		default:
			count[m.request]++
			if timed {
				moments = append(moments, m)
			}
		}
	}
	often := slices.SortedFunc(maps.Keys(count), func(a, b logged) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a.target, b.target), strings.Compare(a.method, b.method))
	})
	rare := 0
	for _, r := range often[min(len(often), logMost):] {
		rare += count[r]
	}
	for _, r := range often[:min(len(often), logMost)] {
		s.Requests = append(s.Requests, spec.Target{Method: r.method, URL: base + r.target, Weight: count[r]})
	}
	s.inTime(moments, often)
	s.leave(broken, "line", "without a request line")
	s.leave(timeless, "line", "without a time")
	s.leave(bodies, "line", "with a body, which a log does not have (POST, PUT, PATCH)")
	s.leave(rare, "line", fmt.Sprintf("with rarer requests than the %d most frequent", logMost))
	if len(s.Requests) == 0 {
		return nil, fmt.Errorf("no request in it that can be sent; %s", strings.Join(s.Left, "; "))
	}
	return s, nil
}

// inTime adds order and times of the requests that are sent. Where a log has whole seconds, the
// requests of a second are spread evenly over it.
func (s *Set) inTime(moments []moment, often []logged) {
	index := map[logged]int{}
	for i, r := range often[:len(s.Requests)] {
		index[r] = i
	}
	moments = slices.DeleteFunc(moments, func(m moment) bool { _, sent := index[m.request]; return !sent })
	slices.SortStableFunc(moments, func(a, b moment) int { return a.at.Compare(b.at) })
	whole := !slices.ContainsFunc(moments, func(m moment) bool { return m.at.Nanosecond() != 0 })
	for first := 0; first < len(moments); {
		next := first
		for ; next < len(moments) && moments[next].at.Equal(moments[first].at); next++ {
			at := moments[next].at.Sub(moments[0].at)
			s.Order, s.Times = append(s.Order, index[moments[next].request]), append(s.Times, at)
		}
		for i := first; whole && i < next; i++ {
			s.Times[i] += time.Second * time.Duration(i-first) / time.Duration(next-first)
		}
		first = next
	}
	if whole && len(moments) > 0 {
		s.Left = append(s.Left, "its times are in whole seconds: the requests of each second are spread evenly over it")
	}
}

// Log reads an access log; nil if it is none. Timed: with the order and the times of its requests.
func Log(data []byte, name, base string, timed bool) (*Set, error) {
	text := string(bytes.TrimPrefix(data, []byte("\ufeff")))
	if !isLog(text) {
		return nil, nil
	}
	s, err := readLog(text, base, timed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}
