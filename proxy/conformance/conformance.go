// Package conformance holds a proxy to the rules of HTTP/1.1 that keep two
// parties from reading one stream of bytes in two ways. A case is the raw bytes of
// a client, and sometimes of a backend; between them stands the proxy, any proxy.
// A backend records every byte that reaches it.
package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
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

// patience bounds a case. A proxy that neither answers nor closes has failed it.
const patience = 10 * time.Second

// Run tries one case on the proxy at address, whose backend is b.
func Run(c *Case, address string, b *Backend) (*Seen, error) {
	b.script(c)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	request := c.Request
	if c.Rest != "" {
		if err := waits(conn, c.Request); err != nil {
			return &Seen{}, err
		}
		request = c.Rest
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(conn, request) // a proxy that refuses early may have closed
	}()
	s := read(conn, c)
	conn.Close()
	<-sent
	if err := b.settle(); err != nil {
		return s, err
	}
	s.Requests, s.Whole = b.take()
	return s, judge(c, s)
}

// silence is how long a proxy is watched that has no whole head yet.
const silence = 20 * time.Millisecond

// waits sends the beginning of a request, and tells whether the proxy waits for the
// rest.
func waits(conn net.Conn, begin string) error {
	if _, err := io.WriteString(conn, begin); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return err
	}
	n, err := conn.Read(make([]byte, 1))
	if n > 0 || ended(err) {
		return fmt.Errorf("did not wait behind %q: %d bytes, %w", begin, n, err)
	}
	return conn.SetReadDeadline(time.Now().Add(patience))
}

// read takes the responses that the case is to bring, or what comes until the end.
func read(conn net.Conn, c *Case) *Seen {
	s := new(Seen)
	var all bytes.Buffer
	r := bufio.NewReader(io.TeeReader(conn, &all))
	method, _, _ := strings.Cut(c.Request, " ")
	for finals := 0; finals < max(c.Count, 1); {
		res, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			s.Ended = ended(err)
			break
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			s.Ended = ended(err)
			break
		}
		if res.StatusCode < 200 && res.StatusCode != 101 {
			continue
		}
		finals++
		if s.Final == nil {
			s.Final, s.Body = res, body
		}
		if res.StatusCode >= 400 && c.Want == Reject {
			if res.Close {
				_, err := io.Copy(io.Discard, r)
				s.Ended = err == nil || ended(err)
			}
			break
		}
		if res.StatusCode == 101 {
			break
		}
	}
	s.Client = all.Bytes()
	return s
}

// ended tells a connection that ended from one that was silent for too long.
func ended(err error) bool {
	var timeout net.Error
	return !(errors.As(err, &timeout) && timeout.Timeout())
}

func judge(c *Case, s *Seen) error {
	whole := 0
	for i, raw := range s.Requests {
		if s.Whole[i] {
			whole++
			if err := Unambiguous(raw); err != nil {
				return fmt.Errorf("forwarded %q: %w", raw, err)
			}
		}
	}
	answered := s.Final != nil && s.Final.StatusCode < 400
	switch c.Want {
	case Reject:
		switch {
		case whole > 0:
			return fmt.Errorf("forwarded: %q", s.Requests)
		case answered:
			return fmt.Errorf("answered %d", s.Final.StatusCode)
		case s.Final == nil && !s.Ended:
			return errors.New("neither refused nor closed")
		}
	case Forward:
		if whole != max(c.Count, 1) || !answered {
			return fmt.Errorf("%d requests forwarded, client got %.200q", whole, s.Client)
		}
	case Safe:
		if answered && whole == 0 {
			return fmt.Errorf("answered without asking: %.200q", s.Client)
		}
	case BadGateway:
		if s.Final != nil && s.Final.StatusCode < 500 {
			return fmt.Errorf("passed on as a whole response: %.300q", s.Client)
		}
		if s.Final == nil && !s.Ended {
			return errors.New("neither answered nor closed")
		}
	case Answer:
		if s.Final == nil {
			return fmt.Errorf("no response: %.200q", s.Client)
		}
	}
	if c.Check != nil {
		return c.Check(s)
	}
	return nil
}
