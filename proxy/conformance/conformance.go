// Package conformance tests a proxy against the rules of HTTP/1.1 that keep two parties from
// reading one stream of bytes in two ways. A case is the raw bytes of a client, and sometimes of
// a backend, with any proxy in between. A backend records every byte that reaches it.
package conformance

import (
	"net/http"
	"strings"
)

// Want is what a proxy must do with a case.
type Want uint8

const (
	// Reject: an error, or the connection ends; no complete request reaches the backend.
	Reject Want = iota
	// Forward: one request reaches the backend, complete and unambiguous, and the client gets its
	// response.
	Forward
	// Safe: either.
	Safe
	// BadGateway: the client gets a 502 or another error from the proxy, or a connection that
	// ends before the response is complete; never a complete response that the backend did not
	// send.
	BadGateway
	// Answer: the client gets a complete response; Check says which.
	Answer
)

// Case tests one of the rules.
type Case struct {
	Group, Name string
	// Request is what the client sends, Response what the backend sends; "" is a plain 200 with
	// the body "ok". With a Rest, the proxy must stay silent after Request, and is then sent
	// Rest.
	Request, Rest, Response string
	Want                    Want
	// Count is how many requests must be forwarded and answered; 0 means 1.
	Count int
	// Close: the backend closes after its response.
	Close bool
	// Check checks further; nil accepts everything.
	Check func(*Seen) error
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

// Head returns the first forwarded request's head, in lower case.
func (s *Seen) Head() string {
	if len(s.Requests) == 0 {
		return ""
	}
	head, _, _ := strings.Cut(string(s.Requests[0]), "\r\n\r\n")
	return strings.ToLower(head) + "\r\n"
}
