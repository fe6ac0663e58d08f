package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ceiling/internal/leak"
	"ceiling/internal/needs"
	"ceiling/proxy/config"
)

func TestMain(m *testing.M) {
	leak.Main(leavesNothing{m}, goleak.IgnoreTopFunction(pebble))
}

// pebble is a goroutine of the authority that TestACME asks: nothing ends it.
const pebble = "github.com/letsencrypt/pebble/v2/va.VAImpl.processTasks"

// leavesNothing has the tests fail that together leave a descriptor behind. Four of
// those that wait run side by side, however few CPUs there are.
type leavesNothing struct{ *testing.M }

func (m leavesNothing) Run() int {
	err := flag.Set("test.parallel", "4")
	for name, value := range map[string]string{"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "2"} { // of TestACME's authority
		err = errors.Join(err, os.Setenv(name, value))
	}
	if err != nil {
		panic(err)
	}
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil { // the runtime's own descriptors come with the first
		l.Close()
	}
	before, code := descriptors(), m.M.Run()
	for end := time.Now().Add(patience); code == 0 && descriptors() > before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			fmt.Fprintf(os.Stderr, "%d descriptors, %d before the tests\n", descriptors(), before)
			return 1
		}
	}
	return code
}

// patience bounds what a test waits for. It is never part of a claim.
const patience = 30 * time.Second

// engines runs a test on both.
func engines(t *testing.T, f func(t *testing.T, engine string)) {
	for _, e := range []string{"uring", "epoll"} {
		t.Run(e, func(t *testing.T) {
			if e == "uring" {
				needs.LockedMemory(t)
			}
			f(t, e)
		})
	}
}

// running is a proxy under test.
type running struct {
	*Proxy
	addr   string
	t      *testing.T
	cancel context.CancelFunc
	ended  chan error
	once   sync.Once
	mu     sync.Mutex
	lines  []string
}

func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("test.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// to is a configuration of one location with one destination and further lines.
func to(uri string, lines ...string) string {
	return "workers = 1\nlisten = [\"127.0.0.1:0\"]\n[timeouts]\ndrain = \"20s\"\n[[locations]]\n" + strings.Join(lines, "\n") +
		"\n[[locations.destinations]]\nuri = \"" + uri + "\"\n"
}

// run starts a proxy; at the end of the test it must end without an error, and
// leave no descriptor behind.
func run(t *testing.T, engine, text string) *running {
	t.Helper()
	return runWith(t, text, Options{Engine: engine})
}

// runWith is run with other options.
func runWith(t *testing.T, text string, options Options) *running {
	t.Helper()
	keepsNothing(t)
	r := &running{t: t, ended: make(chan error, 1)}
	options.Report = r.report
	p, err := New(parse(t, text), options)
	if err != nil {
		t.Fatal(err)
	}
	r.Proxy, r.addr = p, p.Addresses()[0].String()
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.ended <- p.Run(ctx, nil) }()
	t.Cleanup(r.stop)
	return r
}

// keepsNothing has the test fail that leaves a descriptor behind. The first thing
// that a test starts calls it, so that it looks last. Of tests side by side it cannot
// tell whose a descriptor is: TestMain looks when all have ended.
func keepsNothing(t *testing.T) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	watched.Lock()
	defer watched.Unlock()
	if watched.tests[t] || watched.together[name] {
		return
	}
	watched.tests[t] = true
	before := descriptors()
	t.Cleanup(func() {
		if !t.Failed() {
			until(t, fmt.Sprintf("%d descriptors again", before), func() bool { return descriptors() <= before })
		}
	})
}

// together runs a test beside others: it waits for the most part, and nothing that it
// claims is of the whole process.
func together(t *testing.T) {
	watched.Lock()
	watched.together[t.Name()] = true
	watched.Unlock()
	t.Parallel()
}

var watched = struct {
	sync.Mutex
	tests    map[*testing.T]bool
	together map[string]bool
}{tests: map[*testing.T]bool{}, together: map[string]bool{}}

func (r *running) report(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (r *running) stop() {
	r.once.Do(func() {
		r.cancel()
		select {
		case err := <-r.ended:
			if err != nil {
				r.t.Error(err)
			}
		case <-time.After(2 * patience):
			r.t.Fatal("the proxy does not end")
		}
	})
}

// snapshot is its state now.
func (r *running) snapshot() *Snapshot {
	r.t.Helper()
	s, err := r.Snapshot()
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// count is a counter's value now.
func (r *running) count(name string) uint64 {
	r.t.Helper()
	s := r.snapshot()
	n, ok := s.Counters[name]
	if !ok {
		r.t.Fatalf("no counter %s", name)
	}
	return n
}

// until waits for a condition that must come true.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// descriptors of this process that are sockets, once they are at rest.
func descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err) // /proc is not mounted
	}
	n := 0
	for _, e := range list {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.Contains(name, "/proc/") {
			n++
		}
	}
	return n
}

// link is a client's connection.
type link struct {
	net.Conn
	r *bufio.Reader
	t *testing.T
}

func dial(t *testing.T, addr string) *link {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &link{c, bufio.NewReader(c), t}
}

func (l *link) say(text string) {
	l.t.Helper()
	if _, err := io.WriteString(l, text); err != nil {
		l.t.Fatal(err)
	}
}

// answer reads a whole response.
func (l *link) answer(method string) (*http.Response, string) {
	l.t.Helper()
	res, err := http.ReadResponse(l.r, &http.Request{Method: method})
	if err != nil {
		l.t.Fatalf("response: %v", err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		l.t.Fatalf("body: %v", err)
	}
	return res, string(body)
}

func (l *link) get(path string) (*http.Response, string) {
	l.t.Helper()
	l.say("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
	return l.answer("GET")
}

// status gets a path and wants a status.
func (l *link) status(path string, want int) string {
	l.t.Helper()
	res, body := l.get(path)
	if res.StatusCode != want {
		l.t.Fatalf("%s: %d %.200q, want %d", path, res.StatusCode, body, want)
	}
	return body
}

// over wants the connection to end without another byte.
func (l *link) over() {
	l.t.Helper()
	if b, err := io.ReadAll(l.r); err != nil || len(b) > 0 {
		l.t.Fatalf("%d more bytes %.100q, %v; want the end", len(b), b, err)
	}
}

// origin is a backend on Go's own server.
type origin struct {
	addr string
	mu   sync.Mutex
	open map[net.Conn]bool
}

func serveHTTP(t *testing.T, h http.HandlerFunc) *origin {
	t.Helper()
	keepsNothing(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{addr: ln.Addr().String(), open: map[net.Conn]bool{}}
	s := &http.Server{Handler: h, ConnState: func(c net.Conn, state http.ConnState) {
		o.mu.Lock()
		defer o.mu.Unlock()
		switch state {
		case http.StateNew:
			o.open[c] = true
		case http.StateClosed, http.StateHijacked:
			delete(o.open, c)
		}
	}}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(ln) }()
	t.Cleanup(func() { s.Close(); <-done })
	return o
}

// quiet is for servers whose complaints are not of interest.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// pattern is n bytes in which every place differs from those near it.
func pattern(n int) []byte {
	const line = "%08d abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ\n"
	b := make([]byte, 0, n+len(line)+16)
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, line, i)
	}
	return b[:n]
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		t.Fatalf("%s: %d bytes, want %d; they differ at %d", what, len(got), len(want), at)
	}
}
