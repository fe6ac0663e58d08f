package baseline

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ceiling/internal/leak"
)

// fasthttp leaves goroutines that sleep, some until they see that they are not
// needed, some for ever.
func TestMain(m *testing.M) {
	leak.Main(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*inMemoryCacheManager).handleCleanCache"))
}

// serve runs a baseline until the end of the test, which fails if that has an error.
func serve(t *testing.T, kind string, c Config) (addr string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	c.Addr, c.Ready = "127.0.0.1:0", func(addr string) { ready <- addr }
	go func() { ended <- Serve(ctx, kind, c) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Error("it does not end")
		}
	}
	t.Cleanup(stop)
	select {
	case addr = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return addr, stop
}

// get sends one request on a connection of its own and reads the answer.
func get(t *testing.T, addr, path string) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a.example\r\nUser-Agent: a test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// TestProxies: both pass a request on with the fields that were asked for, log it,
// and end.
func TestProxies(t *testing.T) {
	heads := make(chan http.Header, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := r.Header.Clone()
		h.Set("Host", r.Host)
		h.Set("Target", r.RequestURI)
		heads <- h
		_, _ = io.WriteString(w, "hello")
	}))
	defer backend.Close()
	for _, kind := range Kinds() {
		for _, forward := range []bool{true, false} {
			log := filepath.Join(t.TempDir(), "access.log")
			addr, stop := serve(t, kind, Config{Backend: backend.Listener.Addr().String(), Forward: forward, Log: log})
			res, body := get(t, addr, "/a%20b?c=%2F")
			if res.StatusCode != 200 || body != "hello" {
				t.Errorf("%s: %d %q", kind, res.StatusCode, body)
			}
			want := map[string]string{"Host": "a.example", "Target": "/a%20b?c=%2F", "X-Forwarded-For": "", "X-Forwarded-Proto": "",
				"X-Forwarded-Host": ""}
			if forward {
				want["X-Forwarded-For"], want["X-Forwarded-Proto"], want["X-Forwarded-Host"] = "127.0.0.1", "http", "a.example"
			}
			h := <-heads
			for name, value := range want {
				if got := h.Get(name); got != value {
					t.Errorf("%s: %s is %q, want %q", kind, name, got, value)
				}
			}
			stop()
			text, err := os.ReadFile(log)
			if err != nil || !strings.HasPrefix(string(text), "127.0.0.1 - - [") ||
				!strings.Contains(string(text), `] "GET /a%20b?c=%2F HTTP/1.1" 200 5 "-" "a test"`) {
				t.Errorf("%s: %q, %v", kind, text, err)
			}
		}
	}
}

// TestNoBackend: a backend that is not there is a 502.
func TestNoBackend(t *testing.T) {
	for _, kind := range Kinds() {
		addr, _ := serve(t, kind, Config{Backend: "127.0.0.1:1"})
		if res, _ := get(t, addr, "/"); res.StatusCode != http.StatusBadGateway {
			t.Errorf("%s: %d", kind, res.StatusCode)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.html"), []byte("<p>hi</p>"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, kind := range Kinds() {
		addr, _ := serve(t, kind, Config{Files: dir})
		res, body := get(t, addr, "/a.html")
		if res.StatusCode != 200 || body != "<p>hi</p>" || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %q %q", kind, res.StatusCode, body, res.Header.Get("Content-Type"))
		}
	}
}

func TestRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		Config
		want string
	}{
		"kind":    {"squid", Config{Backend: "127.0.0.1:1"}, "fasthttp, httputil"},
		"nothing": {"fasthttp", Config{}, "either"},
		"both":    {"fasthttp", Config{Backend: "a:1", Files: "b"}, "either"},
		"address": {"httputil", Config{Addr: "nowhere", Backend: "a:1"}, "nowhere"},
		"log":     {"httputil", Config{Backend: "a:1", Log: "/nowhere/log"}, "/nowhere/log"},
	} {
		if err := Serve(t.Context(), c.kind, c.Config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q in it", name, err, c.want)
		}
	}
}
