//go:build linux

package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"

	"ceiling/internal/exit"
	"ceiling/internal/needs"
	"ceiling/internal/screen"
	"ceiling/measure/run"
)

// patience is how long something may take that takes a second: a busy machine
// runs these tests too.
const patience = 2 * time.Minute

// programAndServer is the program, and a server that it serves.
func programAndServer(t *testing.T) (program string, server *run.Child) {
	t.Helper()
	program = programFile(t)
	server, err := run.StartChild(t.Context(), program, "serve", "fasthttp", "--addr", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return program, server
}

// programFile is this test's binary under the name by which it is the command.
func programFile(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"ceiling", proxyProgram, labProgram, controllerProgram} {
		file := filepath.Join(dir, name)
		if os.Link(exe, file) == nil {
			continue
		}
		program, err := os.ReadFile(exe)
		if err == nil {
			err = os.WriteFile(file, program, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "ceiling")
}

// seat is a person's terminal with the command in it.
type seat struct {
	t      *testing.T
	shown  *screen.Screen
	cmd    *exec.Cmd
	master *os.File
	tty    *os.File
	before *term.State
	done   chan struct{}
}

func sit(t *testing.T, program string, env []string, args ...string) *seat {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Cols: 80, Rows: 50}); err != nil {
		t.Fatal(err)
	}
	s := &seat{t: t, shown: screen.New(80, 50), master: master, tty: tty, done: make(chan struct{})}
	if s.before, err = term.GetState(tty.Fd()); err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(program, args...)
	s.cmd.Env = append(append(os.Environ(), "TERM=xterm-256color"), env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		io.Copy(s.shown, master) // ends with an error when nobody has the other end
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it has ended where the test went well
		tty.Close()
		<-s.done
		master.Close()
	})
	return s
}

func (s *seat) sees(what string) {
	s.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(s.shown.Text(), what); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("never %q; the screen is:\n%s", what, s.shown.Text())
		}
	}
}

// ends waits for the command and looks whether it left the terminal as it was.
func (s *seat) ends(code int) {
	s.t.Helper()
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	if got := s.cmd.ProcessState.ExitCode(); code >= 0 && got != code {
		s.t.Errorf("exit %d, want %d", got, code)
	}
	after, err := term.GetState(s.tty.Fd())
	if err != nil || *after != *s.before {
		s.t.Errorf("the terminal's settings changed (%v)", err)
	}
	s.tty.Close()
	<-s.done // all that was painted has been read
	if s.shown.CursorHidden() || len(s.shown.Asked()) > 0 || len(s.shown.Unknown()) > 0 {
		s.t.Errorf("cursor hidden %v, asked %q, unknown %q", s.shown.CursorHidden(), s.shown.Asked(), s.shown.Unknown())
	}
	for _, left := range []string{"so far  ", "no data yet", "━"} {
		if strings.Contains(s.shown.Text(), left) {
			s.t.Errorf("%q is left on the screen:\n%s", left, s.shown.Text())
		}
	}
}

// A terminal shows the run while it goes on, and is clean after its end, after
// Ctrl-C and after SIGTERM.
func TestTerminalIsLeftClean(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	program, server := programAndServer(t)
	url := "http://" + server.Addr + "/simple"
	for _, c := range []struct {
		name string
		args []string
		end  func(*seat)
		code int
	}{
		{"its end", []string{"run", "-c", "8", "-d", "2s", url}, func(*seat) {}, -1},
		{"Ctrl-C", []string{"run", "-c", "8", "-n", "1000000000", url}, func(s *seat) {
			if _, err := s.master.Write([]byte{3}); err != nil {
				s.t.Error(err)
			}
		}, exit.Interrupted},
		{"SIGTERM", []string{"run", "-c", "8", "-n", "1000000000", url}, func(s *seat) {
			if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				s.t.Error(err)
			}
		}, exit.Interrupted},
		{"SIGHUP", []string{"run", "-c", "8", "-n", "1000000000", url}, func(s *seat) {
			if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				s.t.Error(err)
			}
		}, exit.Interrupted},
		{"a sweep", []string{"run", "-c", "1,4", "-d", "700ms", "--repeats", "1", url}, func(s *seat) { s.sees("step 2 of") }, -1},
	} {
		if c.name == "SIGHUP" && signal.Ignored(syscall.SIGHUP) {
			continue // under nohup a run shall go on
		}
		t.Run(c.name, func(t *testing.T) {
			s := sit(t, program, nil, c.args...)
			s.sees("response")
			c.end(s)
			s.ends(c.code)
			s.t.Log("\n" + s.shown.Text())
			if c.name != "a sweep" {
				s.sees("Requests/sec:")
			}
			s.sees("saved ")
		})
	}
}

// Without a terminal that can be painted, and where only the answer is wanted,
// nothing is painted.
func TestPlainLines(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	program, server := programAndServer(t)
	sweep := []string{"run", "-c", "1,4", "-d", "300ms", "--repeats", "1", "http://" + server.Addr + "/simple"}
	s := sit(t, program, []string{"TERM=dumb"}, sweep...)
	s.ends(-1)
	s.sees("saved ")
	if !strings.Contains(s.shown.Text(), "conns ") {
		t.Errorf("no line for a run:\n%s", s.shown.Text())
	}
	s = sit(t, program, nil, append(sweep, "--quiet")...)
	s.ends(-1)
	if text := s.shown.Text(); strings.Contains(text, "saved ") || !strings.Contains(text, "answer") {
		t.Errorf("--quiet:\n%s", text)
	}
	out, err := exec.Command(program, sweep...).CombinedOutput()
	if len(out) == 0 || strings.Contains(string(out), "\x1b") {
		t.Errorf("%v, output %q", err, out)
	}
}

// In a terminal the page stays after the end, with a link to the report, until Ctrl-C;
// the exit code is the run's.
func TestPageStays(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	program, server := programAndServer(t)
	s := sit(t, program, nil, "run", "-c", "2", "-d", "300ms", "--slo", "p50<1ns", "--live", "http://"+server.Addr+"/simple")
	s.sees("the page stays at ")
	_, at, _ := strings.Cut(s.shown.Text(), "the page stays at ")
	at, _, _ = strings.Cut(at, " ")
	res, err := http.Get(at + "report")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(text), "Where the time goes") {
		t.Errorf("the report: %s %v %.200s", res.Status, err, text)
	}
	if _, err := s.master.Write([]byte{3}); err != nil {
		t.Error(err)
	}
	want := exit.Fail
	if strings.Contains(s.shown.Text(), "invalid ·") { // others had the CPUs, and it says so
		want = exit.Invalid
	}
	s.ends(want)
}
