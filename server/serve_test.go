//go:build linux

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"ceiling/internal/authority"
	"ceiling/internal/leak"
	"ceiling/internal/needs"
)

// descriptors returns how many this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// noLeaks fails the test if it ends with more goroutines than now.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		err := leak.Find(before,
			// It looks every ten seconds whether its server has stopped.
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
			// Started once per process by fasthttp for its Date header, and it has no end.
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
		if err != nil {
			t.Error(err)
		}
	})
}

// A server ends with connections that are idle, that never spoke, and that are in the middle of a request, and leaves
// neither descriptors nor goroutines.
func TestServeStops(t *testing.T) {
	needs.Processes(t)
	for _, k := range Catalogue() {
		t.Run(k.Name, func(t *testing.T) {
			warm := start(t, k.Name, Config{}) // opens what the runtime and the framework keep for good
			newClient(t, warm.addr).send(t, http.MethodGet, "/simple")
			warm.stop(t)
			noLeaks(t)
			open := descriptors(t)

			r := start(t, k.Name, Config{})
			idle, silent, half := newClient(t, r.addr), newClient(t, r.addr), newClient(t, r.addr)
			idle.send(t, http.MethodGet, "/read")
			if a := idle.read(t, http.MethodGet); a.status != 200 {
				t.Fatalf("status %d", a.status)
			}
			half.send(t, http.MethodGet, "/simple") // so that it has certainly been accepted
			half.read(t, http.MethodGet)
			if _, err := io.WriteString(half.conn, "GET /simple HTT"); err != nil {
				t.Fatal(err)
			}
			r.stop(t)
			for name, c := range map[string]*client{"idle": idle, "silent": silent, "half": half} {
				if _, err := io.Copy(io.Discard, c.r); err != nil && !strings.Contains(err.Error(), "connection reset") {
					t.Errorf("%s connection: %v", name, err)
				}
				c.conn.Close()
			}
			if conn, err := net.Dial("tcp", r.addr); err == nil {
				conn.Close()
				t.Errorf("%s still accepts", r.addr)
			}
			if now := descriptors(t); now > open {
				t.Errorf("%d descriptors open, %d before", now, open)
			}
		})
	}
}

// Clients that never pause do not keep a server from ending. What they have got until then is whole.
func TestServeStopsUnderLoad(t *testing.T) {
	needs.Processes(t)
	for _, k := range Catalogue() {
		t.Run(k.Name, func(t *testing.T) {
			r := start(t, k.Name, Config{})
			var clients sync.WaitGroup
			for range 8 {
				c, started := newClient(t, r.addr), make(chan struct{})
				clients.Go(func() {
					for n := 0; ; n++ {
						if _, err := io.WriteString(c.conn, "GET /simple HTTP/1.1\r\nHost: test\r\n\r\n"); err != nil {
							break
						}
						resp, err := http.ReadResponse(c.r, nil)
						if err != nil {
							break
						}
						if body, err := io.ReadAll(resp.Body); err != nil || string(body) != `{"message":"hi"}` {
							t.Errorf("answered %q, %v", body, err)
						}
						if n == 0 {
							close(started)
						}
					}
				})
				<-started
			}
			r.stop(t)
			clients.Wait()
		})
	}
}

func TestServeOnUnixSocket(t *testing.T) {
	for _, k := range Catalogue() {
		if k.Forks {
			continue // refused: TestForksRefuses
		}
		t.Run(k.Name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			// What a killed server leaves: a socket nobody listens on.
			dead, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			dead.(*net.UnixListener).SetUnlinkOnClose(false)
			dead.Close()

			r := start(t, k.Name, Config{Addr: "unix:" + path})
			if r.addr != "unix:"+path {
				t.Errorf("ready at %q", r.addr)
			}
			c := newClient(t, r.addr)
			c.send(t, http.MethodGet, "/simple")
			if a := c.read(t, http.MethodGet); string(a.body) != `{"message":"hi"}` {
				t.Errorf("answered %q", a.body)
			}
			if err := Serve(t.Context(), k.Name, Config{Addr: r.addr}); err == nil {
				t.Error("took the socket of a living server")
			}
			r.stop(t)
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket is still there: %v", err)
			}
		})
	}
}

func TestServeLeavesOtherFilesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), "nethttp", Config{Addr: "unix:" + path}); err == nil {
		t.Error("listened on a file")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "x" {
		t.Errorf("the file is now %q, %v", b, err)
	}
}

func TestServeRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		kind string
		cfg  Config
		want string
	}{
		{"apache", Config{}, "there are nethttp, fasthttp, fiber"},
		{"nethttp", Config{Prefork: true}, "no prefork"},
		{"fiber", Config{Workers: -1}, "-1 workers"},
		{"fiber", Config{ListKB: 5}, "lists of 5 KB; 10 to 1500"},
		{"fasthttp", Config{Prefork: true, Addr: "unix:/tmp/x"}, "only ports"},
		{"fasthttp", Config{Prefork: true, Addr: "127.0.0.1"}, "missing port"},
		{"nethttp", Config{Addr: "nowhere"}, "missing port"},
		{"nethttp", Config{Addr: taken.Addr().String()}, "in use"},
		{"fiber", Config{Prefork: true, Addr: taken.Addr().String()}, "in use"},
	} {
		c.cfg.Ready = func(addr string) { t.Errorf("%s %+v: ready at %s", c.kind, c.cfg, addr) }
		if err := Serve(t.Context(), c.kind, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: %v, want %q in it", c.kind, c.cfg, err, c.want)
		}
	}
}

// A context that has already ended is an end like another.
func TestServeAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, k := range Catalogue() {
		if err := Serve(ctx, k.Name, Config{}); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
}

// Stop may come before the framework has taken the listener, and serve must still end.
func TestServeStopsAtOnce(t *testing.T) {
	s, err := newSite(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, f := range frameworks() {
		for range 50 {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if err := run(ctx, f.mount(s), s, ln, func() error { return nil }); err != nil {
				t.Errorf("%s: %v", f.Name, err)
			}
		}
	}
}

func TestWorkersAreThreads(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	r := start(t, "nethttp", Config{Workers: 3})
	if n := runtime.GOMAXPROCS(0); n != 3 {
		t.Errorf("%d threads, want 3", n)
	}
	r.stop(t)
	if n := runtime.GOMAXPROCS(0); n != before {
		t.Errorf("%d threads afterwards, %d before", n, before)
	}
}

// brokenListener cannot accept.
type brokenListener struct{ net.Listener }

func (brokenListener) Accept() (net.Conn, error) { return nil, errors.New("planted") }

func TestServeSaysWhyItEnded(t *testing.T) {
	s, err := newSite(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frameworks() {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		want := "planted"
		if f.Name == "floor" { // it accepts by itself, and only from sockets
			want = "not a socket"
		}
		err = run(t.Context(), f.mount(s), s, brokenListener{ln}, func() error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s ended with %v", f.Name, err)
		}
		if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s left its listener open: %v", f.Name, err)
		}
	}
}

// lockedText is what several goroutines write.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// TestComplaintsEnd: a server says some times that clients do not speak TLS with it, and not each time.
func TestComplaintsEnd(t *testing.T) {
	_, pair, err := authority.Site("of a test", authority.Leaf{Names: []string{"localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSite(0)
	if err != nil {
		t.Fatal(err)
	}
	var out lockedText
	s.log = newComplaints(&out)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- run(ctx, mountNetHTTP(s), s, ln, func() error { return nil }) }()
	for range 3 * complaintsMost {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") // its end says that it was dealt with
		_, _ = io.ReadAll(c)
		c.Close()
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if text := out.text.String(); strings.Count(text, "\n") != complaintsMost+1 || !strings.Contains(text, "not printed") {
		t.Errorf("%s", text)
	}
}
