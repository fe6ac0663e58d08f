package quorum

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"ceiling/internal/lastline"
	"ceiling/measure/netns"
)

// A process is a replica started by this process. It exits with it, in whatever way.
type process struct {
	cmd   *exec.Cmd
	ready chan struct{}   // closed when it accepts connections
	ended chan struct{}   // closed when it has exited
	said  lastline.Writer // its standard error
}

// run starts this program as a replica, configured by its environment, in a namespace if given.
func run(p *plan, in *netns.Namespace) (*process, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	// Under its original name, on which a program may depend.
	name, err := exec.LookPath(os.Args[0])
	if err != nil {
		if name, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	// The command line shows the replica's name in process lists; the variable is what matters.
	args := []string{"replica", p.Name}
	if in != nil {
		name, args = in.Within(name, args...)
	}
	c := &process{cmd: exec.Command(name, args...), ready: make(chan struct{}), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), ReplicaEnv+"="+string(text))
	c.cmd.Stderr = &c.said
	// A separate group shields it from the terminal's interrupt until we stop it.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go c.live(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start replica %s: %w", p.Name, err)
	}
	return c, nil
}

// live starts the process and waits for its exit, on a thread that lives as long: Pdeathsig
// follows the thread.
func (c *process) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if started <- err; err != nil {
		return
	}
	defer close(c.ended)
	lines, ready := bufio.NewScanner(out), false
	for lines.Scan() {
		if lines.Text() == readyLine && !ready {
			ready = true
			close(c.ready)
		}
	}
	_, _ = io.Copy(io.Discard, out) // after an overlong line
	_ = c.cmd.Wait()                // the error is in said
}

// await waits until it accepts connections.
func (c *process) await(name string, limit <-chan time.Time, stop <-chan struct{}) error {
	select {
	case <-c.ready:
		return nil
	case <-c.ended:
		return fmt.Errorf("replica %s ended: %v: %s", name, c.cmd.ProcessState, c.said.Text())
	case <-limit:
		return fmt.Errorf("replica %s takes no connections in time", name)
	case <-stop:
		return errors.New("it was stopped")
	}
}

// kill kills it at once, like a crash. Its files are deleted with it, or a test examines them.
func (c *process) kill() {
	_ = c.cmd.Process.Kill() // fails if it has exited
	<-c.ended
}
