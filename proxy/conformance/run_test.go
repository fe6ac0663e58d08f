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
