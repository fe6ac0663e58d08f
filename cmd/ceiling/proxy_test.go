//go:build linux

package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
