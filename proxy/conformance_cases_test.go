package proxy

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What a proxy must do with a case.
const (
	// Reject: an error, or the connection ends; no complete request reaches the backend.
	Reject = "reject"
	// Forward: one request reaches the backend, complete and unambiguous, and the client gets its
	// response.
	Forward = "forward"
	// Safe: either.
	Safe = "safe"
	// BadGateway: the client gets a 502 or another error from the proxy, or a connection that
	// ends before the response is complete; never a complete response that the backend did not
	// send.
	BadGateway = "bad-gateway"
	// Answer: the client gets a complete response; the checks say which.
	Answer = "answer"
)

// Case tests one of the rules of HTTP/1.1 that keep two parties from reading one stream of bytes in
// two ways: the raw bytes of a client, and sometimes of a backend, with any proxy in between.
type Case struct {
	Group, Name, Want string
	// Request is what the client sends, Response what the backend sends; "" is a plain 200 with
	// the body "ok". With a Rest, the proxy must stay silent after Request, and is then sent
	// Rest.
	Request, Rest, Response string
	// Count is how many requests must be forwarded and answered.
	Count int
	// Close: the backend closes after its response.
	Close  bool
	checks [][2]string
}

// Seen is what happened.
type Seen struct {
	// Client is every byte that the client received; Ended: the proxy closed.
	Client []byte
	Ended  bool
	// Requests are what reached the backend; Whole says whether each is complete.
	Requests [][]byte
	Whole    []bool
	// Final is the client's first non-interim response, nil without a complete one. Body is its
	// body.
	Final *http.Response
	Body  []byte
}

// head returns the head of a forwarded request in lower case, with a line end in front and behind.
func head(raw []byte) string {
	h, _, _ := strings.Cut(string(raw), "\r\n\r\n")
	return "\r\n" + strings.ToLower(h) + "\r\n"
}

// Check returns the first check of a case that does not hold.
func (c *Case) Check(s *Seen) error {
	for _, k := range c.checks {
		if !holds(k[0], k[1], s) {
			return fmt.Errorf("not %s %.100q: forwarded %.300q, client got %.300q", k[0], k[1], s.Requests, s.Client)
		}
	}
	return nil
}

func holds(check, text string, s *Seen) bool {
	switch check {
	case "keeps": // the forwarded head has this line
		return len(s.Requests) > 0 && strings.Contains(head(s.Requests[0]), "\r\n"+text+"\r\n")
	case "drops": // no forwarded head has a line that begins so
		return !slices.ContainsFunc(s.Requests, func(raw []byte) bool { return strings.Contains(head(raw), "\r\n"+text) })
	case "ends": // what was forwarded ends so
		return len(s.Requests) == 0 || strings.HasSuffix(string(s.Requests[0]), text)
	case "requests": // so many were forwarded
		return strconv.Itoa(len(s.Requests)) == text
	case "alone": // one was forwarded, and what is behind it was refused, or the connection closed
		return len(s.Requests) == 1 && s.Whole[0] && (s.Ended || strings.Count(string(s.Client), "HTTP/1.1 ") > 1)
	case "responses": // the client got so many
		return strconv.Itoa(strings.Count(string(s.Client), "HTTP/1.")) == text
	case "status": // of a class that begins with one of these digits
		return s.Final != nil && strings.Contains(text, s.Final.Status[:1])
	case "body":
		return string(s.Body) == text
	case "received": // the client's bytes end so
		return strings.HasSuffix(string(s.Client), text)
	case "lacks": // the client did not get this
		return !strings.Contains(strings.ToLower(string(s.Client)), text)
	}
	panic("no check: " + check)
}

// Cases reads testdata/conformance. A line there is one of
//
//	let NAME "TEXT"              {NAME} in the texts that follow; {NAME*5} and {TEXT*5} repeat
//	group "NAME" "FORM" OPTION…  the group of the cases that follow: their text replaces {} in FORM, the
//	                             request, and in the options; of several in a row, each gets the cases
//	bytes 00-20 7f               a case with {byte} is one for each of these; {hex} is its number
//	WANT "NAME" "TEXT" OPTION…   a case
//
// with the options rest, response, count, close, and those of holds.
func Cases(t testing.TB) []Case {
	t.Helper()
	names, err := filepath.Glob("testdata/conformance/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []Case
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r := caseReader{t: t, texts: map[string]string{}}
		for i, line := range strings.Split(string(text), "\n") {
			r.place = fmt.Sprintf("%s:%d", name, i+1)
			r.read(line)
		}
		list = append(list, r.cases...)
	}
	return list
}

type caseReader struct {
	t      testing.TB
	place  string
	texts  map[string]string
	groups [][]string // name, form and options
	filled bool       // there are cases in them
	bytes  []byte
	cases  []Case
}

var (
	wordOrText = regexp.MustCompile("^(?:[^\"` ]+|\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`)")
	inBraces   = regexp.MustCompile(`\{([^{}*]+)(?:\*(\d+))?\}`)
)

func (r *caseReader) read(line string) {
	if line == "" || line[0] == '#' {
		return
	}
	whole := line
	var words []string
	for ; line != ""; line = strings.TrimLeft(line, " ") {
		w := wordOrText.FindString(line)
		if w == "" {
			r.t.Fatalf("%s: no end of %s", r.place, line)
		}
		line = line[len(w):]
		if text, err := strconv.Unquote(w); err == nil {
			w = text
		}
		words = append(words, w)
	}
	switch words[0] {
	case "let":
		r.texts[words[1]] = r.expand(words[2])
	case "group":
		if r.filled {
			r.groups, r.filled = nil, false
		}
		if len(words) == 2 {
			words = append(words, "{}")
		}
		r.groups = append(r.groups, words[1:])
	case "bytes":
		r.bytes = nil
		for _, w := range words[1:] {
			var first, last int
			if n, _ := fmt.Sscanf(w, "%2x-%2x", &first, &last); n == 1 {
				last = first
			}
			for ; first <= last; first++ {
				r.bytes = append(r.bytes, byte(first))
			}
		}
	case Reject, Forward, Safe, BadGateway, Answer:
		r.filled = true
		bytes := []byte{0}
		if strings.Contains(whole, "{byte}") {
			bytes = r.bytes
		}
		for _, b := range bytes {
			r.texts["byte"], r.texts["hex"] = string([]byte{b}), fmt.Sprintf("%02x", b)
			for _, g := range r.groups {
				r.add(g[0], words[0], words[1], words[2], slices.Concat(g[1:], words[3:]))
			}
		}
	default:
		r.t.Fatalf("%s: %s is none of let, group, bytes and what must be done", r.place, words[0])
	}
}

// add adds a case with a form and options.
func (r *caseReader) add(group, want, name, text string, options []string) {
	for i, o := range options {
		options[i] = r.expand(strings.ReplaceAll(o, "{}", text))
	}
	c := Case{Group: group, Name: r.expand(name), Want: want, Request: options[0], Count: 1}
	for i := 1; i < len(options); i += 2 {
		switch option := options[i]; option {
		case "close":
			c.Close = true
			i--
		case "alone":
			c.checks = append(c.checks, [2]string{option})
			i--
		case "rest":
			c.Rest = options[i+1]
		case "response":
			c.Response = options[i+1]
		case "count":
			var err error
			if c.Count, err = strconv.Atoi(options[i+1]); err != nil {
				r.t.Fatalf("%s: %v", r.place, err)
			}
		default:
			c.checks = append(c.checks, [2]string{option, options[i+1]})
		}
	}
	r.cases = append(r.cases, c)
}

// expand replaces what is in braces.
func (r *caseReader) expand(s string) string {
	return inBraces.ReplaceAllStringFunc(s, func(in string) string {
		m := inBraces.FindStringSubmatch(in)
		text, known := r.texts[m[1]]
		switch n, err := strconv.Atoi(m[2]); {
		case err != nil && known:
			return text
		case err != nil:
			r.t.Fatalf("%s: no let %s", r.place, m[1])
		case known:
			return strings.Repeat(text, n)
		default:
			return strings.Repeat(m[1], n)
		}
		return ""
	})
}
