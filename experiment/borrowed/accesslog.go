package borrowed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"ceiling/internal/unit"
)

// logLine finds method and target in a line of an access log: nginx's and Apache's common and combined
// format, and what else has the request line in quotes (HAProxy's, Traefik's).
var logLine = regexp.MustCompile(`"([A-Z]+) (\S+) HTTP/[0-9.]+"`) // read-only

// logged is a request of a log. A log has neither fields nor bodies.
type logged struct{ method, target string }

// caddyLine is what a line of Caddy's log has of it.
type caddyLine struct {
	Request struct {
		Method string `json:"method"`
		URI    string `json:"uri"`
	} `json:"request"`
}

// isLog reports whether most of a file's first lines are those of an access log.
func isLog(text string) bool {
	lines, found := 0, 0
	for line := range strings.Lines(text) {
		if lines++; lines > 20 {
			break
		}
		if _, ok := logOf(line); ok {
			found++
		}
	}
	return found > 0 && 2*found >= lines
}

func logOf(line string) (logged, bool) {
	if strings.HasPrefix(line, "{") {
		var c caddyLine
		if json.Unmarshal([]byte(line), &c) != nil || c.Request.Method == "" || !strings.HasPrefix(c.Request.URI, "/") {
			return logged{}, false
		}
		return logged{c.Request.Method, c.Request.URI}, true
	}
	parts := logLine.FindStringSubmatch(line)
	if parts == nil || !strings.HasPrefix(parts[2], "/") {
		return logged{}, false
	}
	return logged{parts[1], parts[2]}, true
}

// logMost is how many different requests of a log are sent: those that it has most often.
const logMost = 50_000

// readLog reads the requests of an access log, to be sent to a server: each as often as the log has it.
func readLog(text, base string) (*Set, error) {
	s := &Set{}
	count, broken, bodies := map[logged]int{}, 0, 0
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		r, ok := logOf(line)
		switch {
		case !ok:
			broken++
		case r.method == "POST" || r.method == "PUT" || r.method == "PATCH" || r.method == "CONNECT":
			bodies++
		default:
			count[r]++
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
		s.Requests = append(s.Requests, Request{Method: r.method, URL: base + r.target, Weight: count[r]})
	}
	left := func(n int, what string) {
		if n > 0 {
			s.Left = append(s.Left, fmt.Sprintf("left out: %s %s", unit.Plural(n, "line", "lines"), what))
		}
	}
	left(broken, "without a request line")
	left(bodies, "whose bodies a log does not have (POST, PUT, PATCH)")
	left(rare, fmt.Sprintf("with rarer requests than the %d most frequent", logMost))
	if len(s.Requests) == 0 {
		return nil, fmt.Errorf("no request in it that can be sent; %s", strings.Join(s.Left, "; "))
	}
	return s, nil
}

// Log reads an access log; nil if it is none.
func Log(data []byte, name, base string) (*Set, error) {
	text := string(bytes.TrimPrefix(data, []byte("\ufeff")))
	if !isLog(text) {
		return nil, nil
	}
	s, err := readLog(text, base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}
