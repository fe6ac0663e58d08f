// Package borrowed reads requests as other programs keep them: curl command lines, browsers'
// recordings (HAR), access logs. It makes of them what spec.ReadTargets reads, which checks them.
package borrowed

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
)

// Set is what a file or a command line has.
type Set struct {
	Requests []spec.Target // weight 0 is 1
	// Order of the requests in a log, by their indices, and when each is due after the first; nil: they
	// were not asked for.
	Order []int
	Times []time.Duration
	// Left says what was left out, a line each.
	Left []string
	// Flags of ceiling run that curl's own ask for, by name: insecure, http, cacert, …
	Flags map[string]string
}

// Opener reads a file that is named beside a request.
type Opener func(name string) ([]byte, error)

// Read reads a file's requests; nil if it is none of these formats.
func Read(data []byte, name string, open Opener) (*Set, error) {
	text := strings.TrimSpace(strings.TrimPrefix(string(data), "\ufeff"))
	var s *Set
	var err error
	switch {
	case strings.HasPrefix(text, "{"):
		s, err = readHAR([]byte(text))
	case text == "curl" || strings.HasPrefix(text, "curl "):
		s, err = readCurls(text, open)
	default:
		return nil, nil
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case s == nil:
		return nil, nil
	}
	return s, s.oneHost(name)
}

// leave says how many were left out, if any.
func (s *Set) leave(n int, noun, what string) {
	if n > 0 {
		s.Left = append(s.Left, "left out: "+unit.Plural(n, noun, noun+"s")+" "+what)
	}
}

// oneHost keeps the requests to the host that most are for: a run loads one.
func (s *Set) oneHost(name string) error {
	count := map[string]int{}
	most := ""
	for _, r := range s.Requests {
		h := host(r)
		if count[h]++; most == "" || count[h] > count[most] {
			most = h
		}
	}
	if len(s.Requests) == 0 {
		return fmt.Errorf("%s: no request in it that can be sent%s", name, strings.Join(append([]string{""}, s.Left...), "; "))
	}
	var others []string
	for h, n := range count {
		if h != most {
			others = append(others, fmt.Sprintf("%d to %s", n, h))
		}
	}
	if len(others) > 0 {
		slices.Sort(others)
		s.Left = append(s.Left, "a run has one host, "+most+"; left out: "+strings.Join(others, ", "))
		s.Requests = slices.DeleteFunc(s.Requests, func(r spec.Target) bool { return host(r) != most })
	}
	return nil
}

// host is scheme and host, as far as the URL says.
func host(r spec.Target) string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return r.URL
	}
	return u.Scheme + "://" + u.Host
}

// Targets returns the requests as spec checks them.
func (s *Set) Targets(name string) ([]spec.Target, error) {
	for i := range s.Requests {
		s.Requests[i].Weight = max(s.Requests[i].Weight, 1)
	}
	return spec.TargetsOf(s.Requests, name)
}

// sent reports whether a header field is one that a client sends by itself, and the generator too.
func sent(name string) bool {
	switch strings.ToLower(name) {
	case "host", "content-length", "connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade", "expect":
		return true
	}
	return strings.HasPrefix(name, ":") // of HTTP/2
}
