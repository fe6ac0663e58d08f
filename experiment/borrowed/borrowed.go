// Package borrowed reads requests as other programs keep them: curl command lines, browsers'
// recordings (HAR), access logs. It makes of them what spec.ReadTargets reads, which checks them.
package borrowed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
)

// Request is one request.
type Request struct {
	Method, URL string
	Header      []spec.Field
	Body        []byte
	// Weight is how often it is in the file; 0 is once.
	Weight int
}

// Set is what a file or a command line has.
type Set struct {
	Requests []Request
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
		s, err = readJSON([]byte(text))
	case text == "curl" || strings.HasPrefix(text, "curl "):
		s, err = readCurls(text, open)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s == nil {
		return nil, nil
	}
	return s, s.oneHost(name)
}

// readJSON reads a HAR; nil for other JSON.
func readJSON(data []byte) (*Set, error) {
	var top map[string]json.RawMessage
	if json.NewDecoder(bytes.NewReader(data)).Decode(&top) != nil {
		return nil, nil // targets' own format has an object a line, and reports what is wrong with it
	}
	if top["log"] == nil {
		return nil, nil
	}
	return readHAR(top["log"])
}

// oneHost keeps the requests to the host that most are for: a run loads one.
func (s *Set) oneHost(name string) error {
	count := map[string]int{}
	most := ""
	for _, r := range s.Requests {
		h := r.host()
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
		s.Requests = slices.DeleteFunc(s.Requests, func(r Request) bool { return r.host() != most })
	}
	return nil
}

// host is scheme and host, as far as the URL says.
func (r *Request) host() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return r.URL
	}
	return u.Scheme + "://" + u.Host
}

// Lines writes the requests in the format of spec.ReadTargets, a line each.
func (s *Set) Lines() []byte {
	var b bytes.Buffer
	quoted := func(text string) []byte {
		q, err := json.Marshal(text)
		if err != nil {
			panic(err) // of a string
		}
		return q
	}
	for _, r := range s.Requests {
		fmt.Fprintf(&b, `{"method":%s,"url":%s,"header":{`, quoted(r.Method), quoted(r.URL))
		for i, f := range r.Header {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%s:[%s]", quoted(f.Name), quoted(f.Value))
		}
		body, err := json.Marshal(r.Body)
		if err != nil {
			panic(err) // of bytes
		}
		fmt.Fprintf(&b, "},\"body\":%s,\"weight\":%d}\n", body, max(r.Weight, 1))
	}
	return b.Bytes()
}

// sent reports whether a header field is one that a client sends by itself, and the generator too.
func sent(name string) bool {
	switch strings.ToLower(name) {
	case "host", "content-length", "connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade", "expect":
		return true
	}
	return strings.HasPrefix(name, ":") // of HTTP/2
}
