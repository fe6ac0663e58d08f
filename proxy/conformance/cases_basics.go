package conformance

import (
	"fmt"
	"net/http"
	"slices"
)

// basics are the 33 situations that h1spec (uNetworking) checks, rewritten from RFC 9112 because
// no registry has the suite itself. Where h1spec asks for silence after part of a head, these
// also check the response to the whole.
func basics() []Case {
	const head = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"
	var list []Case
	for _, p := range []struct {
		name string
		at   int
	}{
		{"within the method", 1}, {"before the target", 4}, {"behind the target", 10}, {"before the version", 11}, {"within the version", 15},
		{"behind the version", 19},
		{"within the first line's end", 20}, {"behind the first line", 21}, {"within a name", 24}, {"behind a colon", 26}, {"before a value", 27},
		{"behind a value", 36},
		{"within a line's end", 37}, {"before the empty line", 38}, {"within the empty line", 39},
	} {
		list = append(list, Case{Group: "basics", Name: "waits " + p.name, Request: head[:p.at], Rest: head[p.at:], Want: Forward})
	}
	status := func(least, most int, pairs ...string) []Case {
		want := Reject
		if least < 400 {
			want = Forward
		}
		cases := group("basics", want, pairs...)
		for i := range cases {
			cases[i].Check = func(s *Seen) error {
				if s.Final == nil || s.Final.StatusCode < least || s.Final.StatusCode > most {
					return fmt.Errorf("a status from %d to %d was wanted, client got %.200q", least, most, s.Client)
				}
				return nil
			}
		}
		return cases
	}
	get := func(fields string) string { return "GET / HTTP/1.1\r\nHost: example.com\r\n" + fields + "\r\n" }
	return slices.Concat(list, status(400, 599,
		"no version", "GET / \r\n\r\n",
		"HTTP/9.9", "GET / HTTP/9.9\r\nHost: example.com\r\n\r\n",
		"words before the method", "Extra line"+get(""),
	), status(http.StatusOK, 299,
		"Expect without a body", get("Expect: 100-continue\r\n"),
		"a plain request", get(""),
		"a tab before the value, an empty value", "GET / HTTP/1.1\r\nhoSt:\texample.com\r\nempty:\r\n\r\n",
		"a value of one space", get("X-Empty: \r\n"),
		"a body of a length", "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\nhello",
		"a body in chunks", "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\nc\r\nHello World!\r\n0\r\n\r\n",
	), status(400, 499,
		"brackets in a name", get("X-Invalid[]: test\r\n"),
		"no Host", "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
		"two Hosts", get("Host: example.org\r\n"),
		"a negative length that overflows", get("Content-Length: -123456789123456789123456789\r\n"),
		"a negative length", get("Content-Length: -1234\r\n"),
		"a length of letters", get("Content-Length: abc\r\n"),
		"a control byte in a value", get("X-Bad: test\x07\r\n"),
		"a bare CR for an empty line", get("\rSome-Header: Test\r\n"),
		"a length with Transfer-Encoding", get("tRANSFER-ENCODING: chunked\r\nCONTENT-lENGTH: 5\r\n"),
	))
}
