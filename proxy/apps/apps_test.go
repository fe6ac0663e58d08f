package apps

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/leak"
	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/internal/sys"
	"ceiling/proxy/config"
)

func TestMain(m *testing.M) { leak.Main(m) }

// patience bounds what a test waits for. It is never part of a claim.
const patience = 60 * time.Second

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// under is a supervisor under test, with what it said.
type under struct {
	*Supervisor
	mu   sync.Mutex
	text bytes.Buffer
}

func (u *under) Write(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.text.Write(b)
}

func (u *under) said() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.text.String()
}

func supervise(t *testing.T, list ...config.Application) *under {
	t.Helper()
	u := &under{}
	u.Supervisor = New(nil, func(line string) { fmt.Fprintln(u, line) }, u)
	t.Cleanup(u.Close)
	u.Replace(of(list...))
	return u
}

func of(list ...config.Application) *config.Config {
	return &config.Config{Regions: []config.Region{{Applications: list}}}
}

func shell(id, script string) config.Application {
	return config.Application{ID: id, Command: []string{"/bin/sh", "-c", script}}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// number waits for a file with a number in it.
func number(t *testing.T, name string) (n int) {
	t.Helper()
	until(t, name, func() bool {
		text, err := os.ReadFile(name)
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		_, err = fmt.Sscan(string(text), &n)
		return err == nil
	})
	return n
}

// TestStartsAgain: an application that ends is started again; its lines have its
// name, its environment and directory are those that were asked for.
func TestStartsAgain(t *testing.T) {
	needs.Time(t)
	a := shell("web", "echo \"at $PWD with $MARK\"; echo -n half >&2; exit 3")
	a.Workdir, a.Environment = t.TempDir(), []string{"MARK=m"}
	u := supervise(t, a)
	until(t, "a third start", func() bool { return u.Status()[0].Starts >= 3 })
	u.Close()
	for _, want := range []string{"web | at " + a.Workdir + " with m\n", "web | half\n",
		"application web: exit status 3; started again in 100ms\n", "again in 200ms\n"} {
		if !strings.Contains(u.said(), want) {
			t.Errorf("%q is not in %s", want, u.said())
		}
	}
}

// TestGroup: what an application has started ends with it, also what ignores
// SIGTERM, whether it is stopped or ends by itself.
func TestGroup(t *testing.T) {
	for _, byItself := range []bool{false, true} {
		pid := filepath.Join(t.TempDir(), "pid")
		script := fmt.Sprintf("(trap '' TERM; echo $$ >/dev/null; sh -c 'echo $PPID' >%s; while :; do sleep 1000; done) & ", pid)
		if byItself {
			script += fmt.Sprintf("while ! grep -q . %s 2>/dev/null; do sleep 0.05; done", pid)
		} else {
			script += "wait"
		}
		a := shell("tree", script)
		a.Stop = config.Duration(50 * time.Millisecond)
		u := supervise(t, a)
		child := number(t, pid)
		if byItself {
			until(t, "it has ended", func() bool { return strings.Contains(u.said(), "exit status 0") })
		}
		u.Close()
		until(t, "its child has ended", func() bool { return !running(child) })
	}
}

// running tells a process from one that has ended and was not reaped: who reaps an
// orphan is the machine's matter.
func running(pid int) bool {
	p, err := sys.ReadPIDStat(pid)
	return err == nil && p.State != 'Z' && p.State != 'X'
}

// TestReady: an application is running once its address answers, and ended when it
// never does.
func TestReady(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	a := shell("slow", "sleep 1000")
	a.Ready = addr
	u := supervise(t, a)
	until(t, "it runs", func() bool { return u.Status()[0].State == Running })
	ln.Close()
	refuses := porttest.Refused(t)
	b := shell("never", "sleep 1000")
	b.Ready, b.ReadyWithin = "http://"+refuses+"/", config.Duration(50*time.Millisecond)
	u.Replace(of(b))
	until(t, "it is started again", func() bool { return strings.Contains(u.said(), "never: not ready at http://"+refuses) })
}

// TestReplace: what has not changed goes on; the rest is stopped and started.
func TestReplace(t *testing.T) {
	a, b, c := shell("a", "sleep 1000"), shell("b", "sleep 1000"), shell("c", "sleep 1000")
	u := supervise(t, a, b)
	pids := func() map[string]int {
		m := map[string]int{}
		until(t, "all run", func() bool {
			for _, s := range u.Status() {
				if s.State != Running {
					return false
				}
				m[s.ID] = s.PID
			}
			return true
		})
		return m
	}
	before := pids()
	b.Environment = []string{"X=1"}
	u.Replace(of(a, b, c))
	after := pids()
	if after["a"] != before["a"] || after["b"] == before["b"] || after["c"] == 0 || alive(before["b"]) {
		t.Errorf("%v, then %v", before, after)
	}
	if err := u.Stop("a"); err != nil || alive(before["a"]) {
		t.Errorf("%v", err)
	}
	if s := u.Status()[0]; s.State != Stopped {
		t.Errorf("%+v", s)
	}
	if err := u.Restart("a"); err != nil {
		t.Error(err)
	}
	if pids()["a"] == before["a"] || u.Restart("x") == nil {
		t.Error("not restarted")
	}
}

// TestLogFile: an application's own file is appended to.
func TestLogFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := shell("web", "echo after; sleep 1000")
	a.Log = name
	supervise(t, a)
	until(t, "its line", func() bool { text, err := os.ReadFile(name); return err == nil && string(text) == "before\nafter\n" })
}

// TestNoSuchProgram: it is said, and tried again.
func TestNoSuchProgram(t *testing.T) {
	u := supervise(t, config.Application{ID: "x", Command: []string{"/no/such/program"}})
	until(t, "it is said", func() bool { return strings.Contains(u.said(), "application x: does not start: ") })
}

func TestLines(t *testing.T) {
	var b bytes.Buffer
	l := &lines{prefix: "p ", to: &b}
	for _, piece := range []string{"a", "b\nc\n\nd", strings.Repeat("x", longestLine), "\ne"} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	l.flush()
	want := "p ab\np c\np \np d" + strings.Repeat("x", longestLine-1) + "\np x\np e\n"
	if b.String() != want {
		t.Errorf("%d bytes %.50q", b.Len(), b.String())
	}
}

// TestRecentOutput: the end of what an application has printed, from its file or without one.
func TestRecentOutput(t *testing.T) {
	script := "echo first; echo error >&2; i=0; while [ $i -lt 3000 ]; do echo a line that fills the memory for it; i=$((i+1)); done; echo last; exec sleep 1000"
	file := shell("file", script)
	file.Log = filepath.Join(t.TempDir(), "log")
	u := supervise(t, shell("memory", script), file, shell("short", "echo first; echo error >&2; exec sleep 1000"))
	until(t, "short", func() bool { text, err := u.Output("short"); return err == nil && text == "first\nerror\n" })
	for _, id := range []string{"memory", "file"} {
		until(t, id, func() bool {
			text, err := u.Output(id)
			return err == nil && len(text) == recentBytes && strings.HasSuffix(text, "\nlast\n")
		})
	}
	if _, err := u.Output("none"); err == nil {
		t.Error("output of an unknown application")
	}
}

// TestChanged: whether an application starts is known from before its start until it is ready,
// through its exits, its restarts and its changes, without a gap.
func TestChanged(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &under{}
	u.Supervisor = New(nil, func(line string) { fmt.Fprintln(u, line) }, u)
	t.Cleanup(u.Close)
	key := config.SameHost(ln.Addr().String())
	var mu sync.Mutex
	var said []string
	u.Changed = func(starting map[string]bool) {
		mu.Lock()
		defer mu.Unlock()
		switch is, known := starting[key]; {
		case !known:
			said = append(said, "none")
		default:
			said = append(said, map[bool]string{true: "starting", false: "ready"}[is])
		}
	}
	all := func(want string) {
		t.Helper()
		until(t, want, func() bool { mu.Lock(); defer mu.Unlock(); return strings.Join(said, " ") == want })
	}
	a := shell("web", "sleep 1000")
	a.Ready = "http://" + ln.Addr().String() + "/?query"
	var up atomic.Bool
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	u.Replace(of(a))
	all("starting")
	up.Store(true)
	all("starting ready")
	up.Store(false)
	if err := syscall.Kill(u.Status()[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	all("starting ready starting")
	up.Store(true)
	all("starting ready starting ready")
	up.Store(false)
	if err := u.Restart("web"); err != nil {
		t.Fatal(err)
	}
	all("starting ready starting ready starting")
	up.Store(true)
	all("starting ready starting ready starting ready")
	up.Store(false)
	a.Environment = []string{"X=1"}
	u.Replace(of(a))
	all("starting ready starting ready starting ready starting")
	up.Store(true)
	all("starting ready starting ready starting ready starting ready")
	u.Replace(of())
	until(t, "it is gone", func() bool { mu.Lock(); defer mu.Unlock(); return said[len(said)-1] == "none" })
}
