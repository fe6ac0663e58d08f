//go:build linux

package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

const simpleRequest = "GET /simple HTTP/1.1\r\nHost: test\r\n\r\n"

// simpleAnswers reads n answers to /simple.
func simpleAnswers(t *testing.T, r *bufio.Reader, n int) {
	t.Helper()
	for i := range n {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("answer %d of %d: %v", i, n, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 || string(body) != `{"message":"hi"}` {
			t.Fatalf("answer %d of %d: %d %q, %v", i, n, resp.StatusCode, body, err)
		}
	}
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// A request may arrive in two parts that meet anywhere, behind another and before another.
func TestFloorTakesSplitRequests(t *testing.T) {
	r := start(t, "floor", Config{})
	chunked := "POST /simple HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\n\r\n"
	sized := "POST /simple HTTP/1.1\r\nHost: test\r\nContent-Length: 7\r\n\r\nGET / H"
	whole := simpleRequest + sized + simpleRequest + chunked + "GET /simple?x HTTP/1.1\r\nHost: test\r\n\r\n"
	c := newClient(t, r.addr)
	for at := 1; at < len(whole); at++ {
		say(t, c.conn, whole[:at])
		// The first request is answered by itself when it is there: then the first part has arrived.
		if at >= len(simpleRequest) {
			simpleAnswers(t, c.r, 1)
		}
		say(t, c.conn, whole[at:])
		if at < len(simpleRequest) {
			simpleAnswers(t, c.r, 1)
		}
		for _, want := range []int{405, 200, 405, 200} {
			resp, err := http.ReadResponse(c.r, nil)
			if err != nil {
				t.Fatalf("split at %d: %v", at, err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != want {
				t.Fatalf("split at %d: %d, want %d; %v", at, resp.StatusCode, want, err)
			}
		}
	}
	// Byte by byte.
	for i := range whole {
		say(t, c.conn, whole[i:i+1])
	}
	simpleAnswers(t, c.r, 1)
}

func TestFloorEndsConnections(t *testing.T) {
	r := start(t, "floor", Config{})
	check := func(name, request string, wants ...string) {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, r.addr)
			say(t, c.conn, request)
			all, err := io.ReadAll(c.r)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range wants {
				i := bytes.Index(all, []byte(want))
				if i < 0 {
					t.Fatalf("%q is not in what is left of %q", want, all)
				}
				all = all[i+len(want):]
			}
			if bytes.Contains(all, []byte("HTTP/1.1")) {
				t.Errorf("another answer follows: %q", all)
			}
		})
	}
	hi := "\r\n\r\n" + `{"message":"hi"}`
	check("asked to", "GET /simple HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"+simpleRequest, "200 OK", "Connection: close", hi)
	check("HTTP/1.0", "GET /simple HTTP/1.0\r\n\r\n", "200 OK", "Connection: close", hi)
	check("HTTP/1.0 that stays", "GET /simple HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /nowhere HTTP/1.0\r\n\r\n",
		"200 OK", "Connection: keep-alive", hi, "404 Not Found", "Connection: close")
	check("garbage", "\x16\x03\x01\x02\x00\r\n\r\n"+simpleRequest, "400 Bad Request", "Connection: close")
	check("garbage behind a request", simpleRequest+"GET  /\r\n\r\n", "200 OK", hi, "400 Bad Request")
	check("garbage behind the one before", simpleRequest+simpleRequest+"\r\n\r\n", "200 OK", hi, "200 OK", hi, "400 Bad Request")
	check("no host", "GET /simple HTTP/1.1\r\n\r\n", "400 Bad Request")
	check("bad chunk", "POST /simple HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "405", "400 Bad Request")
	check("endless head", "GET /simple HTTP/1.1\r\nHost: test\r\nX: "+strings.Repeat("x", 70_000), "400 Bad Request")
	check("continue", "POST /simple HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 1\r\nConnection: close\r\n\r\n",
		"100 Continue\r\n\r\n", "405 Method")
}

// A connection that is to end ends when its answer is out, and not when something else wakes the worker, which on an
// idle server the runtime's signals do after 10 ms or more.
func TestFloorEndsConnectionsAtOnce(t *testing.T) {
	needs.Quiet(t)
	r := start(t, "floor", Config{Workers: 1})
	median := func(turn func(c *client)) time.Duration {
		var took []time.Duration
		for range 31 {
			c := newClient(t, r.addr)
			say(t, c.conn, simpleRequest)
			simpleAnswers(t, c.r, 1)
			begin := time.Now()
			turn(c)
			took = append(took, time.Since(begin))
			c.conn.Close()
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	ordinary := median(func(c *client) {
		say(t, c.conn, simpleRequest)
		simpleAnswers(t, c.r, 1)
	})
	last := median(func(c *client) {
		say(t, c.conn, "GET /simple HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
		if _, err := io.ReadAll(c.r); err != nil {
			t.Fatal(err)
		}
	})
	if last > ordinary+4*time.Millisecond {
		t.Errorf("an answer takes %v, an answer and the end %v", ordinary, last)
	}
}

// A client that says it will send no more still gets all it asked for, more than fits into any buffer.
func TestFloorAnswersBeforeTheEnd(t *testing.T) {
	r := start(t, "floor", Config{})
	c := newClient(t, r.addr)
	const n = 200
	say(t, c.conn, strings.Repeat("GET /bytes/100000 HTTP/1.1\r\nHost: test\r\n\r\n", n)+"GET /simple HTT")
	if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if got, err := io.Copy(io.Discard, resp.Body); got != 100_000 || err != nil {
			t.Fatalf("answer %d: %d bytes, %v", i, got, err)
		}
	}
	if rest, err := io.ReadAll(c.r); len(rest) != 0 || err != nil {
		t.Errorf("after the last answer: %q, %v", rest, err)
	}
}

func TestFloorBytes(t *testing.T) {
	r := start(t, "floor", Config{Workers: 1})
	c := newClient(t, r.addr)
	sizes := []int{0, 1, 16, 1000, 32 << 10, 70_001, 1 << 20}
	for range 3 {
		for _, n := range sizes {
			path := fmt.Sprintf("/bytes/%d", n)
			c.send(t, http.MethodGet, path, path)
			for range 2 {
				a := c.read(t, http.MethodGet)
				if a.status != 200 || len(a.body) != n || int(a.length) != n ||
					!bytes.Equal(a.body, bytes.Repeat([]byte("0123456789abcde\n"), n/16+1)[:n]) {
					t.Errorf("%s: %d, %d bytes, Content-Length %d", path, a.status, len(a.body), a.length)
				}
			}
		}
	}
	for n := range 1500 { // more sizes than are kept
		c.send(t, http.MethodGet, fmt.Sprintf("/bytes/%d", n))
		if a := c.read(t, http.MethodGet); len(a.body) != n {
			t.Fatalf("%d bytes for %d", len(a.body), n)
		}
	}
	for _, path := range []string{"/bytes/", "/bytes/-1", "/bytes/1048577", "/bytes/01", "/bytes/1x", "/bytes/99999999999999999999"} {
		c.send(t, http.MethodGet, path)
		if a := c.read(t, http.MethodGet); a.status != 404 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	c.send(t, http.MethodGet, "http://test/bytes/3?x=/y")
	if a := c.read(t, http.MethodGet); string(a.body) != "012" {
		t.Errorf("a whole URL: %+v", a)
	}
}

// Thousands of requests in one piece are answered, in order, and the mix of what is kept, computed and large as well.
func TestFloorTakesDeepPipelines(t *testing.T) {
	r := start(t, "floor", Config{})
	c := newClient(t, r.addr)
	const n = 20_000
	wrote := make(chan error, 1)
	write := func(text string) {
		go func() {
			_, err := io.WriteString(c.conn, text)
			wrote <- err
		}()
	}
	write(strings.Repeat(simpleRequest, n))
	simpleAnswers(t, c.r, n)
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	sizes := []int{5, 200_000, 16, 40_000, 40_000, 3, 1}
	var b strings.Builder
	for i := range 700 {
		fmt.Fprintf(&b, "GET /bytes/%d HTTP/1.1\r\nHost: test\r\n\r\n", sizes[i%len(sizes)])
	}
	write(b.String())
	for i := range 700 {
		if a := c.read(t, http.MethodGet); len(a.body) != sizes[i%len(sizes)] {
			t.Fatalf("answer %d has %d bytes, want %d", i, len(a.body), sizes[i%len(sizes)])
		}
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
}

// A client that asks without reading is held back: its requests stay in its own buffers, the server's memory does not
// grow, and when it reads in the end it gets every answer.
func TestFloorHoldsBack(t *testing.T) {
	needs.Processes(t)
	r := start(t, "floor", Config{})
	c := newClient(t, r.addr)
	before := heap()
	request := []byte("GET /read HTTP/1.1\r\nHost: test\r\n\r\n")
	batch := bytes.Repeat(request, 1000)
	asked := 0
	for { // until the server takes no more
		if err := c.conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := c.conn.Write(batch)
		asked += n
		if err != nil {
			break
		}
		if asked > 64<<20 {
			t.Fatal("64 MB of requests were taken, 8 GB of answers are owed")
		}
	}
	if grown := heap() - before; grown > 32<<20 {
		t.Errorf("%d bytes more in use after %d requests", grown, asked/len(request))
	}
	if tail := asked % len(request); tail != 0 { // the last write was cut
		if err := c.conn.SetWriteDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		finish := request[tail:]
		go func() { _, _ = c.conn.Write(finish) }() // the answers are counted
		asked += len(finish)
	}
	for i := range asked / len(request) {
		if a := c.read(t, http.MethodGet); a.status != 200 || len(a.body) < 2000 {
			t.Fatalf("answer %d: %d, %d bytes", i, a.status, len(a.body))
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Answering allocates nothing, but for /compute and, once a second, what carries the new date: a slice for each of a route's bodies.
func TestFloorDoesNotAllocate(t *testing.T) {
	needs.Processes(t)
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	r := start(t, "floor", Config{Workers: 1})
	const requests = 5000
	for path, bodies := range map[string]int{"/simple": 2, "/read": productCount, "/list": listCount, "/bytes/1000": 2} {
		for _, depth := range []int{1, 50} {
			conn := dial(t, r.addr)
			request := []byte(strings.Repeat("GET "+path+" HTTP/1.1\r\nHost: test\r\n\r\n", depth) +
				"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n")
			b := make([]byte, 256<<10)
			turns := func(n int) {
				for range n {
					if _, err := conn.Write(request); err != nil {
						t.Fatal(err)
					}
					readTo(t, conn, b, []byte("\r\n\r\nok\n"))
				}
			}
			turns(requests / depth)
			var from, to runtime.MemStats
			begin := time.Now()
			runtime.ReadMemStats(&from)
			turns(requests / depth)
			runtime.ReadMemStats(&to)
			seconds := uint64(time.Since(begin)/time.Second) + 1
			if n, allowed := to.Mallocs-from.Mallocs, seconds*uint64(bodies+4)+100; n > allowed {
				t.Errorf("%s, %d at once: %d allocations in %d requests, %d are allowed", path, depth, n, requests, allowed)
			}
			conn.Close()
		}
	}
}

// readTo reads until what came ends with end.
func readTo(t *testing.T, conn net.Conn, b, end []byte) {
	t.Helper()
	for have := 0; ; {
		n, err := conn.Read(b[have:])
		if err != nil {
			t.Fatal(err)
		}
		if have += n; bytes.HasSuffix(b[:have], end) {
			return
		}
		if have > len(end) {
			have = copy(b, b[have-len(end):have])
		}
	}
}

// When the listener fails the server says so and ends.
func TestFloorSaysWhyItEnded(t *testing.T) {
	s, err := newSite(0)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ln.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = run(t.Context(), mountFloor(s), s, ln, func() error {
		conn := dial(t, ln.Addr().String())
		say(t, conn, simpleRequest)
		simpleAnswers(t, bufio.NewReader(conn), 1)
		var failure error
		if err := raw.Control(func(fd uintptr) { failure = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) }); err != nil {
			return err
		}
		return failure
	})
	if err == nil || !strings.Contains(err.Error(), "accept: invalid argument") {
		t.Errorf("ended with %v", err)
	}
}

// Connections come and go, many at once, over all workers.
func TestFloorTakesManyConnections(t *testing.T) {
	r := start(t, "floor", Config{Workers: 3})
	for range 4 {
		var clients []*client
		for range 300 {
			c := newClient(t, r.addr)
			say(t, c.conn, simpleRequest)
			clients = append(clients, c)
		}
		for i, c := range clients {
			simpleAnswers(t, c.r, 1)
			if i%3 == 0 {
				c.conn.(*net.TCPConn).SetLinger(0)
			}
			c.conn.Close()
		}
	}
}

// TestFloorCounts: /answered is how many answers were made before it was asked.
func TestFloorCounts(t *testing.T) {
	r := start(t, "floor", Config{})
	c := newClient(t, r.addr)
	say(t, c.conn, strings.Repeat(simpleRequest, 8))
	simpleAnswers(t, c.r, 8)
	for _, want := range []string{"8", "9"} {
		say(t, c.conn, "GET /answered HTTP/1.1\r\nHost: test\r\n\r\n")
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != want {
			t.Fatalf("%q, %v; want %s", body, err, want)
		}
	}
}
