package proxy_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/proxy"
)

// served starts a proxy in front of a backend of its own. It has TLS, too.
func served(t *testing.T, engine string) (*running, *Backend) {
	t.Helper()
	b, err := NewBackend()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return runOn(t, engine, begin("[timeouts]\ndrain = \"-1s\"", certify(t, t.TempDir(), "a.test"))+
		location("http://"+b.Address(), "")+"[locations.destinations.eject]\nfailures = -1\n"), b
}

// TestOurs holds the proxy to every case.
func TestOurs(t *testing.T) {
	needs.Time(t)
	needs.Unraced(t)
	cases := proxy.Cases(t)
	if len(cases) < 3578 {
		t.Fatalf("%d cases of 3,578 were read", len(cases))
	}
	basics := 0
	for i := range cases {
		if cases[i].Group == "basics" {
			basics++
		}
	}
	if basics != 33 {
		t.Fatalf("%d basic cases; h1spec has 33", basics)
	}
	engines(t, func(t *testing.T, engine string) {
		r, b := served(t, engine)
		for i := range cases {
			c := &cases[i]
			t.Run(c.Group+"/"+c.Name, func(t *testing.T) {
				if seen, err := try(c, r.plain, b); err != nil {
					t.Errorf("%v\nclient got %.300q", err, seen.Client)
				}
			})
		}
	})
}

// TestOursOverTLS holds the proxy to the cases over TLS too, where what a loop gets to see
// comes in other pieces and has other ends.
func TestOursOverTLS(t *testing.T) {
	needs.Time(t)
	needs.Unraced(t)
	for _, k := range []struct {
		engine  string
		version uint16
	}{{"uring", tls.VersionTLS13}, {"epoll", tls.VersionTLS13}, {"uring", tls.VersionTLS12}} {
		t.Run(k.engine+" "+tls.VersionName(k.version), func(t *testing.T) {
			r, b := served(t, k.engine)
			sealer, err := proxy.Listen(func(near net.Conn) { seal(t, near, r.addr, k.version) })
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(sealer.Close)
			cases := proxy.Cases(t)
			for i := range cases {
				c := &cases[i]
				switch {
				case c.Name == "nor what anybody says of the scheme": // which is https here
					continue
				case strings.HasPrefix(c.Group, "smuggling,") && i%5 > 0: // their parser is the same
					continue
				}
				if seen, err := try(c, sealer.Address(), b); err != nil {
					t.Errorf("%s/%s: %v\nclient got %.300q", c.Group, c.Name, err, seen.Client)
				}
			}
		})
	}
}

// seal copies both ways between a connection and one with TLS, with their ends.
func seal(t *testing.T, near net.Conn, to string, version uint16) {
	far, err := tls.Dial("tcp", to, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true, MaxVersion: version})
	if err != nil {
		t.Error(err)
		return
	}
	defer far.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := io.Copy(far, near); err != nil {
			far.NetConn().Close() // as abruptly
			return
		}
		_ = far.CloseWrite() // it fails when the proxy has closed
	}()
	_, _ = io.Copy(near, far) // an end, whichever side's
	near.Close()
	<-done
}

// Backend answers every request with the case's response, and records what it
// received, request by request.
type Backend struct {
	*proxy.Listener
	mu       sync.Mutex
	changed  *sync.Cond
	requests [][]byte
	whole    []bool
	partial  int // connections within a request
	response string
	close    bool
}

const plainOK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// NewBackend listens on a free port of the loopback.
func NewBackend() (*Backend, error) {
	b := &Backend{response: plainOK}
	b.changed = sync.NewCond(&b.mu)
	var err error
	b.Listener, err = proxy.Listen(b.serve)
	return b, err
}

// script makes ready for a case.
func (b *Backend) script(c *proxy.Case) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests, b.whole = nil, nil
	b.response, b.close = c.Response, c.Close
	if b.response == "" {
		b.response = plainOK
	}
}

// settle waits until no connection is within a request: a proxy that gives one up
// closes the connection.
func (b *Backend) settle() error {
	late := time.AfterFunc(aCase, func() { b.mu.Lock(); b.changed.Broadcast(); b.mu.Unlock() })
	defer late.Stop()
	end := time.Now().Add(aCase)
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.partial > 0 {
		if time.Now().After(end) {
			return errors.New("the proxy keeps a connection to the backend open within a request that it gave up")
		}
		b.changed.Wait()
	}
	return nil
}

// take returns what was recorded.
func (b *Backend) take() ([][]byte, []bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests, b.whole
}

// serve reads requests with a reader that is as simple as can be: what it takes
// for one request is what the proxy's framing says.
func (b *Backend) serve(c net.Conn) {
	var got []byte
	buf := make([]byte, 64<<10)
	within := false
	mark := func(now bool) {
		if now != within {
			within = now
			b.partial += map[bool]int{true: 1, false: -1}[now]
			b.changed.Broadcast()
		}
	}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(got) > 0 {
			b.requests, b.whole = append(b.requests, got), append(b.whole, false)
		}
		mark(false)
	}()
	for {
		n, err := c.Read(buf)
		got = append(got, buf[:n]...)
		for {
			end := proxy.RequestEnd(got)
			b.mu.Lock()
			if end == 0 {
				mark(len(got) > 0)
				b.mu.Unlock()
				break
			}
			b.requests, b.whole = append(b.requests, got[:end:end]), append(b.whole, true)
			got = got[end:]
			answer, last := b.response, b.close
			mark(len(got) > 0)
			b.mu.Unlock()
			if _, err := io.WriteString(c, answer); err != nil || last {
				got = nil
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// aCase bounds a case. A proxy that neither answers nor closes has failed it.
const aCase = 10 * time.Second

// try tries one case on the proxy at address, whose backend is b.
func try(c *proxy.Case, address string, b *Backend) (*proxy.Seen, error) {
	b.script(c)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(aCase)); err != nil {
		return nil, err
	}
	request := c.Request
	if c.Rest != "" {
		if err := waits(conn, c.Request); err != nil {
			return &proxy.Seen{}, err
		}
		request = c.Rest
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(conn, request) // a proxy that refuses early may have closed
	}()
	s := responses(conn, c)
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
	if n > 0 || over(err) {
		return fmt.Errorf("did not wait behind %q: %d bytes, %w", begin, n, err)
	}
	return conn.SetReadDeadline(time.Now().Add(aCase))
}

// responses takes the responses that the case is to bring, or what comes until the end.
func responses(conn net.Conn, c *proxy.Case) *proxy.Seen {
	s := new(proxy.Seen)
	var all bytes.Buffer
	r := bufio.NewReader(io.TeeReader(conn, &all))
	method, _, _ := strings.Cut(c.Request, " ")
	for finals := 0; finals < c.Count; {
		res, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			s.Ended = over(err)
			break
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			s.Ended = over(err)
			break
		}
		if res.StatusCode < 200 && res.StatusCode != 101 {
			continue
		}
		finals++
		if s.Final == nil {
			s.Final, s.Body = res, body
		}
		if res.StatusCode >= 400 && c.Want == proxy.Reject {
			if res.Close {
				_, err := io.Copy(io.Discard, r)
				s.Ended = err == nil || over(err)
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

// over tells a connection that ended from one that was silent for too long.
func over(err error) bool {
	var timeout net.Error
	return !(errors.As(err, &timeout) && timeout.Timeout())
}

func judge(c *proxy.Case, s *proxy.Seen) error {
	whole := 0
	for i, raw := range s.Requests {
		if s.Whole[i] {
			whole++
			if err := proxy.Unambiguous(raw); err != nil {
				return fmt.Errorf("forwarded %q: %w", raw, err)
			}
		}
	}
	answered := s.Final != nil && s.Final.StatusCode < 400
	switch c.Want {
	case proxy.Reject:
		switch {
		case whole > 0:
			return fmt.Errorf("forwarded: %q", s.Requests)
		case answered:
			return fmt.Errorf("answered %d", s.Final.StatusCode)
		case s.Final == nil && !s.Ended:
			return errors.New("neither refused nor closed")
		}
	case proxy.Forward:
		if whole != c.Count || !answered {
			return fmt.Errorf("%d requests forwarded, client got %.200q", whole, s.Client)
		}
	case proxy.Safe:
		if answered && whole == 0 {
			return fmt.Errorf("answered without asking: %.200q", s.Client)
		}
	case proxy.BadGateway:
		if s.Final != nil && s.Final.StatusCode < 500 {
			return fmt.Errorf("passed on as a whole response: %.300q", s.Client)
		}
		if s.Final == nil && !s.Ended {
			return errors.New("neither answered nor closed")
		}
	case proxy.Answer:
		if s.Final == nil {
			return fmt.Errorf("no response: %.200q", s.Client)
		}
	}
	return c.Check(s)
}
