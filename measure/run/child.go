package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"ceiling/internal/lastline"
	"ceiling/internal/sys"
)

// Child is a server that this process started and will end.
type Child struct {
	// Addr as the server reported it: "127.0.0.1:8080".
	Addr string
	// PID of the process that was started.
	PID int

	done   chan struct{} // closed when the process has ended
	err    error         // how it ended, after done
	errors *lastline.Writer
	cpus   []int // that it is started on; nil: those of this process
	group  bool  // a shell wraps the server: signals go to both
}

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 3 * time.Second
)

// servesOn is what a server prints before its address once it accepts connections.
const servesOn = " serves on "

// StartChild starts a command that prints a line "… serves on ADDR" once it accepts connections, as
// `ceiling serve` does, and waits for that line. The process ends with this one, even if this one
// is killed.
func StartChild(ctx context.Context, name string, args ...string) (*Child, error) {
	return StartChildOn(ctx, nil, name, args...)
}

// StartChildOn is StartChild on some CPUs only, from the process's first instruction: programs that
// count their CPUs once at start, as Go's runtime and many servers do, count these. nil: those of
// this process.
func StartChildOn(ctx context.Context, cpus []int, name string, args ...string) (*Child, error) {
	c := &Child{cpus: cpus, done: make(chan struct{}), errors: &lastline.Writer{}}
	started := make(chan error, 1)
	ready := make(chan string, 1)
	go c.live(exec.Command(name, args...), started, ready)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	var why error
	select {
	case c.Addr = <-ready:
		return c, nil
	case <-c.done:
		why = fmt.Errorf("it ended: %w", cmpErr(c.err))
	case <-timer.C:
		why = fmt.Errorf("no line %q within %s", strings.TrimSpace(servesOn), startTimeout)
	case <-ctx.Done():
		why = ctx.Err()
	}
	c.Stop()
	return nil, fmt.Errorf("start %s %s: %w%s", name, strings.Join(args, " "), why, c.itSaid())
}

// cmpErr is err, or an error for a process that ended without one.
func cmpErr(err error) error {
	if err == nil {
		return errors.New("without an error")
	}
	return err
}

// live starts the process and waits for its end, on one thread that it keeps: the kernel sends
// Pdeathsig when the thread that started the child ends, not when the process does (prctl(2),
// PR_SET_PDEATHSIG).
func (c *Child) live(cmd *exec.Cmd, started chan<- error, ready chan<- string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.done)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Stderr = c.errors
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = c.start(cmd)
	}
	if err != nil {
		started <- err
		return
	}
	c.PID = cmd.Process.Pid
	started <- nil
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, addr, ok := strings.Cut(lines.Text(), servesOn); ok {
			select {
			case ready <- addr:
			default: // already reported
			}
		}
	}
	c.err = cmd.Wait()
	if c.group {
		// The shell has ended; what it left in the background ends with it.
		_ = syscall.Kill(-c.PID, syscall.SIGTERM)
	}
}

// start starts the process from this thread, whose CPUs it inherits.
func (c *Child) start(cmd *exec.Cmd) error {
	if c.cpus == nil {
		return cmd.Start()
	}
	before, err := sys.AllowedCPUs(0)
	if err != nil {
		return err
	}
	if err := sys.Pin(0, c.cpus); err != nil {
		return err
	}
	err = cmd.Start()
	if sys.Pin(0, before) != nil {
		// Locked once more than live unlocks, the thread ends with its goroutine and never runs
		// another one restricted to these CPUs.
		runtime.LockOSThread()
	}
	return err
}

// Ended reports, without waiting, whether the process has ended.
func (c *Child) Ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Stop asks the process to end, kills its whole group if it does not, and waits until it has. Where
// a shell wraps the server, it waits for every process of the group: the shell ends first, and what
// it started may keep its port for a while longer.
func (c *Child) Stop() {
	if c.Ended() {
		return
	}
	to := c.PID
	if c.group {
		to = -c.PID
	}
	// An error means that it has just ended, which is the goal.
	_ = syscall.Kill(to, syscall.SIGTERM)
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-c.done:
		if !c.group || c.groupEnds(timeout.C) {
			return
		}
	case <-timeout.C:
	}
	_ = syscall.Kill(-c.PID, syscall.SIGKILL)
	<-c.done
}

// groupEnds waits until every process of the group has ended, whether its parent has noticed or
// not, and returns false if that takes too long.
func (c *Child) groupEnds(tooLong <-chan time.Time) bool {
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for c.groupLives() {
		select {
		case <-again.C:
		case <-tooLong:
			return false
		}
	}
	return true
}

func (c *Child) groupLives() bool {
	if syscall.Kill(-c.PID, 0) != nil {
		return false
	}
	// An error: nothing more can be learned of it than that a signal found it.
	all, err := sys.Processes()
	if err != nil {
		return true
	}
	for _, p := range all {
		if p.Group == c.PID && !p.Ended() {
			return true
		}
	}
	return false
}

// itSaid returns the last line of its stderr, for an error.
func (c *Child) itSaid() string {
	if said := c.errors.Text(); said != "" {
		return "; it said: " + said
	}
	return ""
}
