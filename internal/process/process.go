// Package process starts commands that end with this process, even if this one is killed.
package process

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"ceiling/internal/sys"
)

// Command is what Start starts, in a process group of its own: the terminal's interrupt does not
// reach it.
type Command struct {
	Name string
	Args []string
	Dir  string   // "": this process's
	Env  []string // in addition to this process's
	// As is its user; nil: this process's.
	As *Credential
	// CPUs that it runs on, from its first instruction: programs that count their CPUs once at
	// start, as Go's runtime and many servers do, count these. nil: those of this process.
	CPUs  []int
	Stdin *os.File   // nil: /dev/null
	Files []*os.File // its descriptors from 3 on
	// Ready finds in a line of its output that it is ready, and what it says with it, for Await.
	// nil: no line does.
	Ready func(line string) (what string, ok bool)
	// Death is what asks it to end, also when this process ends; 0: SIGTERM.
	Death syscall.Signal
	// Group: a shell wraps the program. What asks it to end goes to the whole group.
	Group bool
}

// Process is a command that was started.
type Process struct {
	PID int

	death syscall.Signal
	group bool
	ready chan string   // what Ready found, once
	done  chan struct{} // closed when it has ended
	err   error         // how it ended, after done
	// said are its errors, printed its output until it is ready.
	said, printed tail
}

const (
	// stopTimeout is how long it may take to end when asked.
	stopTimeout = 3 * time.Second
	// probeEvery is the interval of Await's probes.
	probeEvery = 20 * time.Millisecond
)

// Start starts the command.
func (c *Command) Start() (*Process, error) {
	p := &Process{death: c.Death, group: c.Group, ready: make(chan string, 1), done: make(chan struct{})}
	if p.death == 0 {
		p.death = syscall.SIGTERM
	}
	started := make(chan error, 1)
	go p.live(c, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// live starts the process and waits for its end, on one thread that it keeps: the kernel sends
// Pdeathsig when the thread that started the child ends, not when the process does (prctl(2),
// PR_SET_PDEATHSIG).
func (p *Process) live(c *Command, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(c.Name, c.Args...)
	cmd.Dir, cmd.Env, cmd.Stderr = c.Dir, append(os.Environ(), c.Env...), &p.said
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	cmd.SysProcAttr = apart(c.As, p.death)
	cmd.ExtraFiles, cmd.WaitDelay = c.Files, time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = StartOn(c.CPUs, cmd)
	}
	if err != nil {
		started <- err
		return
	}
	defer close(p.done)
	p.PID = cmd.Process.Pid
	started <- nil
	p.read(out, c.Ready)
	p.err = cmd.Wait()
	if p.group {
		// The shell has ended; what it left in the background ends with it.
		_ = signal(-p.PID, p.death)
	}
}

// StartOn starts a command on some CPUs only, from its first instruction; nil: those of this
// process. It inherits them from the thread that starts it.
func StartOn(cpus []int, cmd *exec.Cmd) error {
	if cpus == nil {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := sys.AllowedCPUs(0)
	if err != nil {
		return err
	}
	if err := sys.Pin(0, cpus); err != nil {
		return err
	}
	err = cmd.Start()
	if sys.Pin(0, before) != nil {
		// Locked once more than it is unlocked, the thread ends with its goroutine and never runs
		// another one restricted to these CPUs.
		runtime.LockOSThread()
	}
	return err
}

// read reads its output to the end, so that it never blocks on it. An error is an end, too.
func (p *Process) read(out io.Reader, ready func(string) (string, bool)) {
	if ready == nil {
		_, _ = io.Copy(&p.printed, out)
		return
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if what, ok := ready(lines.Text()); ok {
			p.ready <- what
			break
		}
		fmt.Fprintln(&p.printed, lines.Text())
	}
	_, _ = io.Copy(io.Discard, out)
}

// Await waits until a line says that the process is ready, and returns what it says with it, or
// until probe, unless nil, returns true. If the process ends or the context does before, it stops
// the process; the error has the cause and the last line that the process printed.
func (p *Process) Await(ctx context.Context, probe func() bool) (what string, err error) {
	again := time.NewTicker(probeEvery)
	defer again.Stop()
	for {
		select {
		case what := <-p.ready:
			return what, nil
		case <-p.done:
			select {
			case what := <-p.ready: // it said so, and ended at once
				return what, nil
			default:
				return "", p.Died()
			}
		case <-ctx.Done():
			p.Stop()
			return "", fmt.Errorf("%w%s", context.Cause(ctx), p.quoted())
		case <-again.C:
			if probe != nil && probe() {
				return "", nil
			}
		}
	}
}

// Wait waits until the process has ended, or stops it when the context ends.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.Err()
	case <-ctx.Done():
		p.Stop()
		return context.Cause(ctx)
	}
}

// Ended reports, without waiting, whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Err returns how the process ended, nil for success or if it has not yet.
func (p *Process) Err() error {
	if !p.Ended() || p.err == nil {
		return nil
	}
	return fmt.Errorf("%w%s", p.err, p.quoted())
}

// Died returns nil while the process runs; then how it ended, be it with success.
func (p *Process) Died() error {
	if !p.Ended() {
		return nil
	}
	if err := p.Err(); err != nil {
		return fmt.Errorf("it ended: %w", err)
	}
	return errors.New("it ended: without an error" + p.quoted())
}

// quoted returns the last line that it printed, of its errors if there are any, for an error.
func (p *Process) quoted() string {
	if said := cmp.Or(p.said.last(), p.printed.last()); said != "" {
		return "; it said: " + said
	}
	return ""
}

// Signal sends a signal. An error means that it has just ended.
func (p *Process) Signal(s syscall.Signal) error {
	if p.Ended() {
		return os.ErrProcessDone
	}
	if p.group {
		return signal(-p.PID, s)
	}
	return signal(p.PID, s)
}

// kept is how much of the output is kept at least, in bytes, and half of what is at most.
const kept = 4096

// tail keeps the end of a process's output, to explain why it exited. The zero value is ready; it
// is safe for concurrent use.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > 2*kept {
		t.b = append(t.b[:0], t.b[len(t.b)-kept:]...)
	}
	return len(p), nil
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return LastLine(t.b)
}

// LastLine returns the last non-empty line of a text, "" if there is none.
func LastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}
