//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// reloader is a proxy under load that is reloaded again and again.
type reloader struct {
	t        *testing.T
	p        *proxyProcess
	admin    string
	file     string
	backends [2]*httptest.Server
	counted  atomic.Int64 // requests at the backends
	answered atomic.Int64 // and at the clients
	done     chan struct{}
	clients  sync.WaitGroup
}

// TestReloadsLoseNothing: reloads by signal and over the admin address, under load
// with keep-alive, slow bodies and open tunnels, lose no request: each is answered,
// and was answered once. CEILING_RELOAD_MINUTE=1 makes it one a second for a minute.
func TestReloadsLoseNothing(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	reloads, pause := 20, 50*time.Millisecond
	if os.Getenv("CEILING_RELOAD_MINUTE") != "" {
		reloads, pause = 60, time.Second
	}
	for _, mode := range []string{"--workers=2", "--prefork"} {
		t.Run(mode, func(t *testing.T) {
			r := &reloader{t: t, file: filepath.Join(t.TempDir(), "site.toml"), done: make(chan struct{})}
			for i := range r.backends {
				r.backends[i] = httptest.NewServer(http.HandlerFunc(r.serve))
				defer r.backends[i].Close()
			}
			r.write(0)
			r.p = startProxy(t, mode, r.file)
			r.p.said(t, "admin address ")
			_, rest, _ := strings.Cut(r.stderr(), "admin address ")
			r.admin, _, _ = strings.Cut(rest, "\n")
			r.load()
			for i := range reloads {
				time.Sleep(pause)
				r.write(i + 1)
				r.reload(i)
				if want := fmt.Sprint("200 reload ", i+1); getText(t, "http://"+r.p.addr+"/which") != want {
					t.Errorf("not %q", want)
				}
			}
			close(r.done)
			r.clients.Wait()
			if r.counted.Load() != r.answered.Load() || r.answered.Load() < 100 {
				t.Errorf("%d requests at the backends, %d answered", r.counted.Load(), r.answered.Load())
			}
			metrics := getText(t, "http://"+r.admin+"/metrics")
			for _, name := range []string{"own_errors_total 0", "upstream_cut_responses_total 0", "retries_total 0",
				"upstream_connect_errors_total 0"} {
				if !strings.Contains(metrics, "\nceiling_proxy_"+name+"\n") {
					t.Errorf("not %s", name)
				}
			}
			t.Logf("%d reloads, %d requests, none lost", reloads, r.answered.Load())
			if err := r.p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := r.p.cmd.Wait(); err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func (r *reloader) stderr() string {
	text, err := os.ReadFile(r.p.stderr.Name())
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// write writes the n-th file: / stays where it is, /moved goes to the other backend
// each time, and other things change with every reload.
func (r *reloader) write(n int) {
	r.t.Helper()
	page := filepath.Join(filepath.Dir(r.file), "page")
	text := fmt.Sprintf("workers = 2\nlisten = [\"127.0.0.1:0\"]\nadmin = \"127.0.0.1:0\"\n[timeouts]\nidle = \"%ds\"\ndrain = \"20s\"\n"+
		"[[locations]]\n[[locations.destinations]]\nuri = %q\n"+
		"[[locations]]\npaths = [\"/moved\"]\nretry = { attempts = %d }\n[[locations.destinations]]\nuri = %q\n"+
		"[[locations]]\npaths = [\"/which\"]\n[[locations.destinations]]\nuri = \"files://%s%d?prefix=\"\n",
		60+n, r.backends[0].URL, n%3, r.backends[n%2].URL, page, n)
	if err := os.MkdirAll(fmt.Sprint(page, n), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(fmt.Sprint(page, n), "which"), fmt.Append(nil, "reload ", n), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// reload asks for the i-th, in turns by signal and over the admin address, and waits
// until it is made.
func (r *reloader) reload(i int) {
	if i%2 == 1 {
		res, err := http.Post("http://"+r.admin+"/reload", "", nil)
		if err != nil {
			r.t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			r.t.Error(res.Status)
		}
		return
	}
	before := strings.Count(r.stderr(), "ceiling: reloaded")
	if err := r.p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		r.t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); strings.Count(r.stderr(), "ceiling: reloaded") == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not reloaded: %s", r.stderr())
		}
	}
}

// serve is a backend: it answers with what it was sent, or becomes a tunnel.
func (r *reloader) serve(w http.ResponseWriter, q *http.Request) {
	r.counted.Add(1)
	if q.Header.Get("Upgrade") == "" {
		_, _ = io.Copy(w, q.Body)
		return
	}
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_ = rw.Flush()
	_, _ = io.Copy(conn, rw)
}

// load starts the clients; each ends with the request that it is at.
func (r *reloader) load() {
	for i := range 8 {
		path := []string{"/", "/moved"}[i%2]
		r.clients.Go(func() { r.asks(path, func() io.Reader { return strings.NewReader("quick") }, "quick") })
	}
	for i := range 2 {
		path := []string{"/", "/moved"}[i%2]
		r.clients.Go(func() {
			r.asks(path, func() io.Reader { return &slowBody{left: 8} }, "slowslowslowslowslowslowslowslow")
		})
	}
	for range 2 {
		r.clients.Go(r.tunnel)
	}
}

// slowBody takes longer than the time between two reloads.
type slowBody struct{ left int }

func (s *slowBody) Read(b []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	s.left--
	time.Sleep(15 * time.Millisecond)
	return copy(b, "slow"), nil
}

// asks sends requests over a connection that the proxy has to keep.
func (r *reloader) asks(path string, body func() io.Reader, want string) {
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr, Timeout: 30 * time.Second}
	for {
		select {
		case <-r.done:
			return
		default:
		}
		res, err := client.Post("http://"+r.p.addr+path, "text/plain", body())
		if err != nil {
			r.t.Error(err)
			return
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 || string(got) != want || res.Close {
			r.t.Errorf("%s: %s %q %v", path, res.Status, got, err)
			return
		}
		r.answered.Add(1)
	}
}

// tunnel is open all the time.
func (r *reloader) tunnel() {
	conn, err := net.Dial("tcp", r.p.addr)
	if err != nil {
		r.t.Error(err)
		return
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(conn)
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 101 {
		r.t.Errorf("%v %v", res, err)
		return
	}
	r.answered.Add(1)
	for i := 0; ; i++ {
		select {
		case <-r.done:
			return
		case <-time.After(5 * time.Millisecond):
		}
		word := fmt.Sprintln("word", i)
		fmt.Fprint(conn, word)
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		if got, err := in.ReadString('\n'); err != nil || got != word {
			r.t.Errorf("tunnel: %q %v", got, err)
			return
		}
	}
}
