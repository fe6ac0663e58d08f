package prefork

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/leak"
	"ceiling/internal/needs"
	"ceiling/proxy"
	"ceiling/proxy/config"
)

// fileEnv names the configuration of the children, which are this program.
const fileEnv = "CEILING_PREFORK_TEST"

func TestMain(m *testing.M) {
	if !IsChild() {
		leak.Main(m)
		return
	}
	load := func() (*config.Config, error) { return config.Read(os.Getenv(fileEnv)) }
	if err := Run(context.Background(), nil, load, proxy.Options{Report: func(line string) { fmt.Fprintln(os.Stderr, line) }}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// running is a Parent under test.
type running struct {
	*Parent
	t     *testing.T
	file  string
	stop  context.CancelFunc
	ended chan error
	mu    sync.Mutex
	said  []string
}

func (r *running) report(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, line)
}

// write writes the configuration of two children that serve a page.
func (r *running) write(page string) {
	r.t.Helper()
	dir := filepath.Dir(r.file)
	text := fmt.Sprintf("workers = 2\nlisten = [\"127.0.0.1:0\"]\n[[locations]]\n[[locations.destinations]]\nuri = \"files://%s/%s\"\n", dir, page)
	for name, content := range map[string]string{r.file: text, filepath.Join(dir, page, "index.html"): page} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

func start(t *testing.T) *running {
	t.Helper()
	r := &running{t: t, file: filepath.Join(t.TempDir(), "site.toml"), ended: make(chan error, 1)}
	t.Setenv(fileEnv, r.file)
	r.write("one")
	c, err := config.Read(r.file)
	if err != nil {
		t.Fatal(err)
	}
	if r.Parent, err = New(c, r.report); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	ready := make(chan struct{})
	go func() { r.ended <- r.Run(ctx, nil, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-r.ended:
		t.Fatal(err)
	}
	return r
}

// get gets the page over a new connection, from either child.
func (r *running) get() string {
	r.t.Helper()
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + r.Addresses[0])
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestChildren: both serve and are counted; a reload reaches both; one that was killed is replaced,
// and its clients wait for its successor; in the end both are gone.
func TestChildren(t *testing.T) {
	needs.Time(t)
	r := start(t)
	for range 8 {
		if got := r.get(); got != "one" {
			t.Fatal(got)
		}
	}
	s, err := r.Snapshot()
	if err != nil || s.Loops != 2 || s.Counters["files_total"] != 8 {
		t.Errorf("%+v, %v", s, err)
	}
	r.write("two")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	killed := r.children[0].cmd.Process
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if got := r.get(); got != "two" && !strings.Contains(got, "reset") && !strings.Contains(got, "EOF") { // those it had accepted
			t.Error(got)
		}
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if s, err = r.Snapshot(); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if s.Loops != 2 || len(r.said) != 1 || !strings.Contains(r.said[0], "proxy child 0 ended: signal: killed; restarting") {
		t.Errorf("%d loops, %q", s.Loops, r.said)
	}
	if err := os.WriteFile(r.file, []byte("listen = 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(); err == nil || strings.Count(err.Error(), "proxy child") != 2 {
		t.Error(err)
	}
	if got := r.get(); got != "two" {
		t.Error(got)
	}
	last := r.children[1].cmd.Process.Pid
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(last, 0); err != syscall.ESRCH {
		t.Errorf("a child is left: %v", err)
	}
}

// TestChildThatDoesNotServe: it is an error, and the others end.
func TestChildThatDoesNotServe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none.toml")
	t.Setenv(fileEnv, file)
	c, err := config.Parse("test", []byte("workers = 2\nlisten = [\"127.0.0.1:0\"]\n[[locations]]\n[[locations.destinations]]\nuri = \"http://127.0.0.1:1\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(c, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Run(t.Context(), nil, func() { t.Error("it is ready") })
	if err == nil || !strings.Contains(err.Error(), "proxy child") {
		t.Error(err)
	}
}
