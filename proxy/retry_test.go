package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// hands is a destination whose connections are handed to the test.
func hands(t *testing.T) (addr string, conns chan net.Conn) {
	t.Helper()
	keepsNothing(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns = make(chan net.Conn, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(patience))
			conns <- c
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String(), conns
}

// takes reads a request and answers it.
func takes(t *testing.T, c net.Conn) string {
	t.Helper()
	q, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	return q.Method + " " + string(body)
}

// hook is a socket of a loop that calls a function when it is written to.
type hook struct {
	conn
	f func()
}

func (h *hook) received([]byte)          { h.f(); h.close() }
func (h *hook) ended(syscall.Errno)      {}
func (h *hook) unsendable(syscall.Errno) {}
func (h *hook) stalled()                 {}
func (h *hook) drained()                 {}
func (h *hook) expired()                 {}

// inTurn runs two functions on a proxy's loop: the second in the turn that handles what
// came during the first, behind that and before anything is sent.
func inTurn(t *testing.T, r *running, first func(), second func(*loop)) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[1])
	done := make(chan struct{})
	r.tell(func(l *loop) {
		h := &hook{f: func() { second(l); close(done) }}
		l.adopt(&h.conn, h, pair[0])
		l.ring.Receive(pair[0], h.tag())
	})
	for range 3 { // turns, after which it is received from
		r.count("requests_total")
		time.Sleep(time.Millisecond)
	}
	r.tell(func(*loop) {
		first()
		if _, err := syscall.Write(pair[1], []byte{0}); err != nil {
			t.Error(err)
		}
	})
	<-done
}

// begun tells whether a loop's request waits in its turn to be sent to a destination.
func begun(l *loop) bool {
	for c := range l.clients {
		if c.x != nil && c.x.peer != nil && c.x.peer.state == peerAsked && c.x.peer.conn.flushed == c.x.peer.base {
			return true
		}
	}
	return false
}

// TestPostOnAClosedConnection: a destination closes an idle connection just when it is
// used again. It can have no byte of a POST then, which is sent again over another
// connection, once; whether the end was seen before the request had left, or after.
func TestPostOnAClosedConnection(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: a\r\n"
	for _, k := range []struct{ name, request, rest, want string }{
		{"length", head + "Content-Length: 5\r\n\r\nhello", "", "POST hello"},
		{"no body", head + "Content-Length: 0\r\n\r\n", "", "POST "},
		{"chunks", head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "", "POST hello"},
		{"a part of it", head + "Content-Length: 10\r\n\r\nhello", "world", "POST helloworld"},
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(k.name+" "+when, func(t *testing.T) {
				engines(t, func(t *testing.T, engine string) {
					addr, conns := hands(t)
					r := run(t, engine, to("http://"+addr, "retry = { attempts = 0, budget = 0.0 }"))
					l := dial(t, r.addr)
					l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
					idle := <-conns
					takes(t, idle)
					l.answer("GET")
					ends := func() {
						idle.Close()
						time.Sleep(2 * time.Millisecond) // over the loopback it is there by now
					}
					if when == "before" { // the request's event comes first
						inTurn(t, r, func() { l.say(k.request); time.Sleep(2 * time.Millisecond); ends() }, func(*loop) {})
					} else {
						inTurn(t, r, func() { l.say(k.request) }, func(lp *loop) {
							if !begun(lp) {
								t.Error("the request does not wait to be sent: the test shows nothing")
							}
							ends()
						})
					}
					var second net.Conn
					select {
					case second = <-conns:
						defer second.Close()
					case <-time.After(patience):
						t.Fatal("there was no second attempt")
					}
					l.say(k.rest)
					if got := takes(t, second); got != k.want {
						t.Errorf("the destination got %q, want %q", got, k.want)
					}
					if res, body := l.answer("POST"); res.StatusCode != 200 || body != "ok" {
						t.Errorf("%s %q", res.Status, body)
					}
					if n := r.count("upstream_stale_total"); n != 1 {
						t.Errorf("%d stale", n)
					}
				})
			})
		}
	}
}

// TestPostThatMayBeTaken: a destination that has a byte of a POST gets it once,
// whether its program has read it, or its kernel alone, and however it ends.
func TestPostThatMayBeTaken(t *testing.T) {
	needs.Time(t)
	together(t)
	const request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
	for _, k := range []struct {
		name string
		end  func(c net.Conn)
	}{
		{"read whole", func(c net.Conn) {
			if q, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.ReadAll(q.Body)
			}
			c.Close()
		}},
		{"read in part", func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 1)); c.Close() }},
		{"not read", func(c net.Conn) { c.Close() }},
		{"reset", func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); c.Close() }},
	} {
		engines(t, func(t *testing.T, engine string) {
			addr, conns := hands(t)
			r := run(t, engine, to("http://"+addr))
			l := dial(t, r.addr)
			for range 20 { // so that the budget allows a retry
				l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				if len(conns) == 0 {
					time.Sleep(time.Millisecond)
				}
				c := <-conns
				takes(t, c)
				l.answer("GET")
				c.Close()
				until(t, "the end is seen", func() bool { s, err := r.Snapshot(); return err == nil && s.Upstreams[0].Idle == 0 })
			}
			l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			kept := <-conns
			takes(t, kept)
			l.answer("GET")
			l.say(request)
			until(t, "the request is out", func() bool { return r.count("upstream_reuses_total") == 1 })
			time.Sleep(5 * time.Millisecond)
			k.end(kept)
			if res, _ := l.answer("POST"); res.StatusCode != 502 {
				t.Errorf("%s: %s", k.name, res.Status)
			}
			select {
			case c := <-conns:
				c.Close()
				t.Errorf("%s: there was a second attempt", k.name)
			case <-time.After(20 * time.Millisecond):
			}
		})
	}
}

// TestRestartIsOneFailure: a destination that starts again ends all its connections at
// once, with requests under way. It is not left out for that.
func TestRestartIsOneFailure(t *testing.T) {
	var under atomic.Int32
	release := make(chan struct{})
	o := serveHTTP(t, func(w http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, "/die") {
			under.Add(1)
			<-release
			panic(http.ErrAbortHandler)
		}
	})
	r := run(t, "auto", to("http://"+o.addr)+"eject = { failures = 3, for = \"1h\", most = \"1h\" }\n")
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			l := dial(t, r.addr)
			l.say("POST /die HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
			if res, _ := l.answer("POST"); res.StatusCode != 502 {
				t.Error(res.Status)
			}
		})
	}
	until(t, "all are under way", func() bool { return under.Load() == 16 })
	close(release)
	all.Wait()
	dial(t, r.addr).status("/", 200)
}
