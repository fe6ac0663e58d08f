//go:build linux

package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// proxyProcess is a proxy in a process of its own.
type proxyProcess struct {
	cmd    *exec.Cmd
	addr   string
	stdout *bufio.Reader
	stderr *os.File
}

// startProxy runs this test binary as the command, whatever root.go knows of it.
func startProxy(t *testing.T, args ...string) *proxyProcess {
	t.Helper()
	return startProxyWith(t, "", args...)
}

// startProxyWith runs a shell's command before, ulimit.
func startProxyWith(t *testing.T, before string, args ...string) *proxyProcess {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	link, err := linked(exe, t.TempDir()) // testscript runs the command by its name
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", append([]string{"-c", before + "\nexec \"$0\" proxy \"$@\"", link}, args...)...)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); log.Close() })
	stdout := bufio.NewReader(out)
	line, err := stdout.ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "proxy serves on ")
	if err != nil || !ok {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("%q %v\n%s", line, err, text)
	}
	return &proxyProcess{cmd, addr, stdout, log}
}

func (p *proxyProcess) said(t *testing.T, what string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(p.stderr.Name())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), what) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("never said %q: %s", what, text)
		}
	}
}

func getText(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", res.StatusCode, body)
}

// TestProxyProcess: signals reload and end it, with workers and with prefork; a bad
// file changes nothing; the admin address is there once.
func TestProxyProcess(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	for _, mode := range []string{"--workers=2", "--prefork"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "site.toml")
			write := func(text string) {
				t.Helper()
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			site := func(name string) string {
				page := filepath.Join(dir, name)
				if err := os.MkdirAll(page, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(page, "index.html"), []byte(name), 0o600); err != nil {
					t.Fatal(err)
				}
				return "workers = 2\nlisten = [\"127.0.0.1:0\"]\n[timeouts]\ndrain = \"5s\"\n[[locations]]\n[[locations.destinations]]\nuri = \"files://" + page + "\"\n"
			}
			write(site("one"))
			p := startProxy(t, mode, "--admin", "127.0.0.1:0", file)
			if got := getText(t, "http://"+p.addr); got != "200 one" {
				t.Error(got)
			}
			write("listen = 5\n")
			if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			p.said(t, "the old configuration stays")
			if got := getText(t, "http://"+p.addr); got != "200 one" {
				t.Error(got)
			}
			write(site("two"))
			if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			p.said(t, "ceiling: reloaded")
			for range 8 { // over all workers
				if got := getText(t, "http://"+p.addr); got != "200 two" {
					t.Error(got)
				}
			}
			text, err := os.ReadFile(p.stderr.Name())
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(text), "admin address ")
			admin, _, _ := strings.Cut(rest, "\n")
			if got := getText(t, "http://"+admin+"/metrics"); !strings.Contains(got, "ceiling_proxy_files_total 10\n") ||
				strings.Count(string(text), "admin address") != 1 {
				t.Errorf("%s", got)
			}
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// TestProxyOnce: with workers and with prefork there is one of each application; a
// published release is served by all; a wrong region leaves everything; what was
// started ends with the proxy.
func TestProxyOnce(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	for _, mode := range []string{"--workers=2", "--prefork"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			regions := filepath.Join(dir, "regions")
			if err := errors.Join(os.Mkdir(regions, 0o700), os.Mkdir(filepath.Join(dir, "www"), 0o700),
				os.WriteFile(filepath.Join(dir, "www", "index.html"), []byte("before"), 0o600)); err != nil {
				t.Fatal(err)
			}
			file, pids := filepath.Join(dir, "site.toml"), filepath.Join(dir, "pids")
			text := fmt.Sprintf(`workers = 2
listen = ["127.0.0.1:0"]
admin = "127.0.0.1:0"
include = ["regions/*.toml"]
[security]
credential = "secret"
[publish]
regions = %q
[[publish.sites]]
id = "www"
directory = %q
[[locations]]
paths = ["/"]
[[locations.destinations]]
uri = "files://%[2]s"
[[applications]]
id = "worker"
command = ["/bin/sh", "-c", "echo $$ >>%[3]s; exec sleep 1000"]
`, regions, filepath.Join(dir, "www"), pids)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p := startProxy(t, mode, file)
			p.said(t, "admin address ")
			said, err := os.ReadFile(p.stderr.Name())
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(said), "admin address ")
			admin, _, _ := strings.Cut(rest, "\n")
			put := func(path string, body []byte) (int, string) {
				q, err := http.NewRequest("PUT", "http://"+admin+path, bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				q.Header.Set("Authorization", "Bearer secret")
				res, err := (&http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				b, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				return res.StatusCode, string(b)
			}
			var z bytes.Buffer
			w := zip.NewWriter(&z)
			page, err := w.Create("index.html")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = page.Write([]byte("after"))
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if got := getText(t, "http://"+p.addr); got != "200 before" {
				t.Error(got)
			}
			if code, got := put("/sites/www", z.Bytes()); code != 200 {
				t.Errorf("%d %s", code, got)
			}
			if code, got := put("/regions/a.toml", []byte(
				"[[locations]]\npaths = [\"/a\"]\n[[locations.destinations]]\nuri = \"http://127.0.0.1:1\"\nmax_connections = 1\n")); code != 422 ||
				!strings.Contains(got, "the old configuration stays") {
				t.Errorf("%d %s", code, got)
			}
			for range 8 {
				if got := getText(t, "http://"+p.addr); got != "200 after" {
					t.Error(got)
				}
			}
			var pid int
			for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				all, err := os.ReadFile(pids)
				if n := len(strings.Fields(string(all))); err == nil && n == 1 {
					_, _ = fmt.Sscan(string(all), &pid)
					break
				} else if n > 1 || time.Now().After(end) {
					t.Fatalf("applications: %q %v", all, err)
				}
			}
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("ended with %v", err)
			}
			if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
				t.Errorf("the application is left: %v", err)
			}
			if all, err := os.ReadFile(pids); err != nil || len(strings.Fields(string(all))) != 1 {
				t.Errorf("%q %v", all, err)
			}
		})
	}
}

// TestProxyAdminCredential: a reload that adds a credential closes the admin address,
// and another site's name never opens it.
func TestProxyAdminCredential(t *testing.T) {
	file := filepath.Join(t.TempDir(), "site.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("listen = [\"127.0.0.1:0\"]\nadmin = \"127.0.0.1:0\"\n"+text+"[[locations]]\nredirect = { to = \"/x\" }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	p := startProxy(t, "--workers=1", file)
	admin := p.admin(t)
	post := func(host, credential string) int {
		t.Helper()
		q, err := http.NewRequest("POST", "http://"+admin+"/reload", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Host = host
		if credential != "" {
			q.Header.Set("Authorization", "Bearer "+credential)
		}
		res, err := (&http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	if got := post("evil.example", ""); got != 421 {
		t.Errorf("another site's name: %d", got)
	}
	write("[security]\ncredential = \"first\"\n")
	if got := post("", ""); got != 200 {
		t.Errorf("reload: %d", got)
	}
	if got := post("", ""); got != 401 {
		t.Errorf("without the credential that the reload has set: %d", got)
	}
	write("[security]\ncredential = \"second\"\n")
	if got := post("", "first"); got != 200 {
		t.Errorf("with the credential: %d", got)
	}
	if got := []int{post("", "first"), post("", "second")}; got[0] != 401 || got[1] != 200 {
		t.Errorf("the credential before the reload and the one of it: %d", got)
	}
}

// admin is the address that the proxy has said.
func (p *proxyProcess) admin(t *testing.T) string {
	t.Helper()
	p.said(t, "admin address ")
	text, err := os.ReadFile(p.stderr.Name())
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "admin address ")
	address, _, _ := strings.Cut(rest, "\n")
	return address
}

// TestProxyEndsUnderLoad: of the requests on accepted connections none stays without its answer when the proxy
// ends.
func TestProxyEndsUnderLoad(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(w, q.Body)
	}))
	defer backend.Close()
	for _, mode := range []string{"--workers=2", "--prefork"} {
		t.Run(mode, func(t *testing.T) {
			p := startProxy(t, mode, "--workers=2", "--listen", "127.0.0.1:0", backend.URL)
			var answered, unanswered, first atomic.Int64
			var clients sync.WaitGroup
			for i := range 24 {
				clients.Go(func() {
					for { // until none is accepted any more
						c, err := net.Dial("tcp", p.addr)
						if err != nil {
							return
						}
						if requestOn(c, i, &answered, &first) { // a first one is lost if the kernel ends a handshake
							for requestOn(c, i, &answered, &unanswered) {
							}
						}
						c.Close()
					}
				})
			}
			for end := time.Now().Add(30 * time.Second); answered.Load() < 2000; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d answers", answered.Load())
				}
			}
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("ended with %v", err)
			}
			clients.Wait()
			t.Logf("%d answered; %d first ones not", answered.Load(), first.Load())
			if unanswered.Load() > 0 {
				t.Errorf("%d requests were accepted and not answered, %d were answered", unanswered.Load(), answered.Load())
			}
		})
	}
}

// requestOn sends a request on a connection that has not ended; it reports whether another one may follow.
func requestOn(c net.Conn, i int, answered, unanswered *atomic.Int64) bool {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return false
	}
	ended := false
	err = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		ended = n >= 0 && err == nil || err == syscall.ECONNRESET
	})
	if ended || err != nil {
		return false
	}
	text := []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"}[i%2]
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		unanswered.Add(1)
		return false
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		_, err = io.ReadAll(res.Body)
	}
	if err != nil {
		unanswered.Add(1)
		return false
	}
	answered.Add(1)
	return !res.Close && i%8 != 7 // of these each has its own connection
}

// TestProxyEndsAtOnce: another signal ends what the first one lets finish: requests, and applications.
func TestProxyEndsAtOnce(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	for _, mode := range []string{"--workers=2", "--prefork"} {
		for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(fmt.Sprint(mode, second), func(t *testing.T) {
				began := make(chan struct{}, 1)
				backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
					began <- struct{}{}
					<-q.Context().Done()
				}))
				defer backend.Close()
				dir := t.TempDir()
				file, pids := filepath.Join(dir, "site.toml"), filepath.Join(dir, "pids")
				text := "workers = 2\nlisten = [\"127.0.0.1:0\"]\n[timeouts]\ndrain = \"1h\"\n[[locations]]\n[[locations.destinations]]\nuri = \"" + backend.URL +
					"\"\n[[applications]]\nid = \"worker\"\nstop = \"1h\"\ncommand = [\"/bin/sh\", \"-c\", \"trap '' TERM; echo $$ >" + pids + "; while :; do sleep 1000; done\"]\n"
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				p := startProxy(t, mode, file)
				var pid int
				for end := time.Now().Add(30 * time.Second); pid == 0; time.Sleep(10 * time.Millisecond) {
					all, _ := os.ReadFile(pids)
					if _, _ = fmt.Sscan(string(all), &pid); time.Now().After(end) {
						t.Fatal("the application does not start")
					}
				}
				c, err := net.Dial("tcp", p.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				<-began
				if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
					other, err := net.Dial("tcp", p.addr)
					if err != nil {
						break // it is ending
					}
					if other.Close(); time.Now().After(end) {
						t.Fatal("it still accepts")
					}
				}
				ended := make(chan error, 1)
				go func() { ended <- p.cmd.Wait() }()
				if err := p.cmd.Process.Signal(second); err != nil {
					t.Fatal(err)
				}
				select {
				case err := <-ended:
					if err != nil {
						t.Errorf("ended with %v", err)
					}
				case <-time.After(30 * time.Second):
					_ = p.cmd.Process.Kill()
					<-ended
					_ = syscall.Kill(-pid, syscall.SIGKILL)
					t.Fatal("it has not ended")
				}
				if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
					t.Errorf("the application is left: %v", err)
				}
			})
		}
	}
}
