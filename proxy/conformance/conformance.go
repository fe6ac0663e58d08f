// Package conformance holds a proxy to the rules of HTTP/1.1 that keep two
// parties from reading one stream of bytes in two ways. A case is the raw bytes of
// a client, and sometimes of a backend; between them stands the proxy, any proxy.
// A backend records every byte that reaches it.
package conformance

import (
	"net/http"
	"strings"
)

// Want is what a proxy has to do with a case.
type Want uint8

const (
	// Reject: an error, or the connection ends; no whole request reaches the
	// backend.
	Reject Want = iota
	// Forward: one request reaches the backend, whole and unambiguous, and the
	// client gets its answer.
	Forward
	// Safe: either.
	Safe
	// BadGateway: the client gets a 502 or another error of the proxy, or a
	// connection that ends before the response is complete; never a whole
	// response that the backend did not give.
	BadGateway
	// Answer: the client gets a whole response; Check says which.
	Answer
)

// Case is one of the rules, tried.
type Case struct {
	Group, Name string
	// Request is what the client sends, Response what the backend does; "" is a
	// plain 200 with the body "ok". With a Rest the proxy has to stay silent after
	// Request, and gets Rest then.
	Request, Rest, Response string
	Want                    Want
	// Count is how many requests are to be forwarded and answered; 0 is 1.
	Count int
	// Close says that the backend closes behind its response.
	Close bool
	// Check looks closer; nil is content.
	Check func(*Seen) error
}

// Seen is what happened.
type Seen struct {
	// Client is every byte that the client got, Ended that the proxy closed.
	Client []byte
	Ended  bool
	// Requests are what reached the backend; Whole says of each that it is complete.
	Requests [][]byte
	Whole    []bool
	// Final is the client's first response that is not interim, nil without a
	// whole one. Body is its body.
	Final *http.Response
	Body  []byte
}

// Head is the first forwarded request's head, in lower case.
func (s *Seen) Head() string {
	if len(s.Requests) == 0 {
		return ""
	}
	head, _, _ := strings.Cut(string(s.Requests[0]), "\r\n\r\n")
	return strings.ToLower(head) + "\r\n"
}
