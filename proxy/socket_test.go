package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ceiling/proxy/listen"
)

// dialUnix is dial for a unix socket.
func dialUnix(t *testing.T, path string) *link {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &link{c, bufio.NewReader(c), t}
}

func TestUnixListener(t *testing.T) {
	o := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", r.Header["X-Forwarded-For"]) })
	engines(t, func(t *testing.T, engine string) {
		dir := t.TempDir()
		path := filepath.Join(dir, "s")
		// One that nothing listens on any more is replaced.
		stale, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		stale.(*net.UnixListener).SetUnlinkOnClose(false)
		stale.Close()
		for _, trusted := range []bool{false, true} {
			text := strings.Replace(to("http://"+o.addr, `access = { deny = ["10.9.9.9"] }`), `"127.0.0.1:0"`, `"unix:`+path+`"`, 1)
			text = strings.Replace(text, "workers = 1", "workers = 2", 1)
			want := `["unknown"]`
			if trusted {
				text, want = "trust = [\"unix\"]\n"+text, `["10.1.1.1, unknown"]`
			}
			r := run(t, engine, text)
			if r.addr != "unix:"+path {
				t.Errorf("it serves on %s", r.addr)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
				t.Errorf("%v %v", info, err)
			}
			for range 4 {
				res, body := dialUnix(t, path).ask("GET", "/", "X-Forwarded-For: 10.1.1.1\r\n")
				if res.StatusCode != 200 || body != want {
					t.Errorf("%s %s, want %s", res.Status, body, want)
				}
			}
			if res, _ := dialUnix(t, path).ask("GET", "/", "X-Forwarded-For: 10.9.9.9\r\n"); (res.StatusCode == 403) != trusted {
				t.Errorf("trusted %t: %s", trusted, res.Status)
			}
			if _, err := New(parse(t, text), Options{Engine: engine}); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("a second one: %v", err)
			}
			r.stop()
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := listen.Listen("unix:"+filepath.Join(dir, "file"), 1); err == nil || !strings.Contains(err.Error(), "not a socket") {
			t.Errorf("a file: %v", err)
		}
	})
}

// TestSystemd: the socket is open before the proxy is, and after it; a connection made in between is
// served by the next one.
func TestSystemd(t *testing.T) {
	if os.Getenv("CEILING_SYSTEMD_CHILD") != "" {
		systemdChild(t)
		return
	}
	keepsNothing(t)
	if _, _, err := listen.Listen("systemd:web", 1); err == nil || !strings.Contains(err.Error(), "passed no socket") {
		t.Errorf("without systemd: %v", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	c := dial(t, ln.Addr().String()) // before any proxy
	for range 2 {
		cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" -test.run='^TestSystemd$'`, os.Args[0])
		cmd.Env = append(os.Environ(), "CEILING_SYSTEMD_CHILD=1", "LISTEN_FDS=2", "LISTEN_FDNAMES=other:web")
		cmd.ExtraFiles = []*os.File{null, file}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, body := c.get("/"); body != "up" {
			t.Errorf("%q", body)
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		c = dial(t, ln.Addr().String()) // between two
	}
}

func systemdChild(t *testing.T) {
	p, err := New(parse(t, "workers = 2\nlisten = [\"systemd:web\"]\n[[locations]]\nrespond = { body = \"up\" }\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for fd := uintptr(3); fd < 5; fd++ { // what is started here must not hold them
		if flags, _, no := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFD, 0); no != 0 || flags&syscall.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d: flags %x, %v", fd, flags, no)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer cancel(); _, _ = io.Copy(io.Discard, os.Stdin) }()
	if err := p.Run(ctx, nil); err != nil {
		t.Fatal(err)
	}
}
