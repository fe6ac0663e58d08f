package apps

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// defaultStop is how long an application may take to exit after SIGTERM.
	defaultStop = 10 * time.Second
	// defaultReady is how long it may take to become ready.
	defaultReady = time.Minute
	// probeEvery is the interval of readiness probes.
	probeEvery = 100 * time.Millisecond
)

// once runs the application until it exits, or ctx ends, and returns how it ended.
func (a *app) once(ctx context.Context) (exit string) {
	// The kernel sends Pdeathsig when the thread that started the child exits (prctl(2)), so this
	// thread must last.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := a.output()
	if err != nil {
		return err.Error()
	}
	defer out.Close()
	c := &a.config
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Dir, cmd.Env = c.Workdir, append(os.Environ(), c.Environment...)
	cmd.Stdout = out.writer(&a.recent)
	cmd.Stderr = cmd.Stdout // as one pipe
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.WaitDelay = time.Second // a process outside the group may hold the pipe
	if err := cmd.Start(); err != nil {
		return "does not start: " + err.Error()
	}
	a.set(func(s *Status) { s.State, s.PID = Starting, cmd.Process.Pid; s.Starts++ })
	ended := make(chan struct{})
	own, cancel := context.WithCancelCause(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { a.end(own, cmd.Process.Pid, ended) })
	tasks.Go(func() { a.await(own, cancel) })
	awaitExit(cmd.Process.Pid)
	if ctx.Err() == nil {
		a.set(func(s *Status) { s.State, s.PID = Waiting, 0 }) // at once: what follows may take a second
	}
	// The process is not reaped yet and keeps its group ID: killing the rest of the group cannot
	// hit another one.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // kill what is left
	cause := context.Cause(own)
	close(ended)
	cancel(nil)
	tasks.Wait()
	err = cmd.Wait()
	if cause != nil && ctx.Err() == nil {
		return cause.Error()
	}
	if err != nil {
		return err.Error()
	}
	return "exit status 0"
}

// awaitExit waits without reaping (waitid(2)).
func awaitExit(pid int) {
	const byPID, exited, leave = 1, 4, 0x1000000 // P_PID, WEXITED, WNOWAIT
	for {
		_, _, err := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), 0, exited|leave, 0, 0)
		if err != syscall.EINTR {
			return
		}
	}
}

// end stops the process group when ctx ends: SIGTERM first, SIGKILL after a delay.
func (a *app) end(ctx context.Context, pid int, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	_ = syscall.Kill(-pid, syscall.SIGTERM) // it fails if all have exited
	late := time.NewTimer(a.config.Stop.Or(defaultStop))
	defer late.Stop()
	select {
	case <-ended:
		return
	case <-late.C:
		a.s.report(fmt.Sprintf("application %s: has not ended after SIGTERM, and is killed", a.config.ID))
	case <-a.s.now:
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL) // as above
}

// await probes the application until it is ready, and ends one that never becomes ready.
func (a *app) await(ctx context.Context, cancel context.CancelCauseFunc) {
	if a.config.Ready != "" {
		soon, done := context.WithTimeout(ctx, a.config.ReadyWithin.Or(defaultReady))
		defer done()
		for !ready(soon, a.config.Ready) {
			select {
			case <-soon.Done():
				if ctx.Err() == nil {
					cancel(fmt.Errorf("not ready at %s after %v", a.config.Ready, a.config.ReadyWithin.Or(defaultReady)))
				}
				return
			case <-time.After(probeEvery):
			}
		}
	}
	if ctx.Err() == nil {
		a.set(func(s *Status) {
			if s.State == Starting && s.PID != 0 {
				s.State = Running
			}
		})
	}
}

// ready reports whether an http URI answers with a status below 500, or an address accepts a
// connection.
func ready(ctx context.Context, at string) bool {
	if !strings.HasPrefix(at, "http") {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return false
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(q)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode < 500
}

// output is where an application's output goes.
type output struct {
	file  *os.File // its own
	lines *lines
}

func (a *app) output() (*output, error) {
	if a.config.Log == "" {
		return &output{lines: &lines{prefix: a.config.ID + " | ", to: a.s.stderr}}, nil
	}
	if err := os.MkdirAll(filepath.Dir(a.config.Log), 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(a.config.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	return &output{file: f}, err
}

func (o *output) writer(recent *recent) io.Writer {
	if o.file != nil {
		return o.file
	}
	return io.MultiWriter(recent, o.lines)
}

func (o *output) Close() error {
	if o.file != nil {
		return o.file.Close()
	}
	o.lines.flush()
	return nil
}

// shared is a writer shared by several applications.
type shared struct {
	mu sync.Mutex
	to io.Writer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(b)
}

// longestLine is where an unterminated line is broken.
const longestLine = 16 << 10

// lines forwards whole lines, each with a prefix. It drops what cannot be written: an application
// must not block because its log is not read.
type lines struct {
	prefix string
	to     io.Writer
	rest   []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 && len(l.rest) < longestLine {
			return len(b), nil
		}
		n, skip := i, i+1
		if i < 0 || i > longestLine {
			n, skip = longestLine, longestLine
		}
		l.line(l.rest[:n])
		l.rest = append(l.rest[:0], l.rest[skip:]...)
	}
}

func (l *lines) line(b []byte) {
	_, _ = l.to.Write(append(append([]byte(l.prefix), b...), '\n')) // dropped on error, see above
}

// flush forwards an unterminated rest.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.line(l.rest)
		l.rest = nil
	}
}
