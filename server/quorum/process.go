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

// A process is a replica that this one has started. It ends with this one, however that ends.
type process struct {
	cmd   *exec.Cmd
	ready chan struct{}   // closed when it takes connections
	ended chan struct{}   // closed when it has ended
	said  lastline.Writer // on its standard error
}

// run starts this program as a replica, in a namespace where one is given. The environment tells it.
func run(p *plan, in *netns.Namespace) (*process, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	// By the name that it was started by, on which a program may depend.
	name, err := exec.LookPath(os.Args[0])
	if err != nil {
		if name, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	// The command line says which replica it is, for a person who looks at the processes; the variable counts.
	args := []string{"replica", p.Name}
	if in != nil {
		name, args = in.Within(name, args...)
	}
	c := &process{cmd: exec.Command(name, args...), ready: make(chan struct{}), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), ReplicaEnv+"="+string(text))
	c.cmd.Stderr = &c.said
	// A group of its own keeps the terminal's interrupt from it, until we stop it.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go c.live(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start replica %s: %w", p.Name, err)
	}
	return c, nil
}

// live starts the process and waits for its end, from a thread that lives as long as it: Pdeathsig is about the thread.
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
	_, _ = io.Copy(io.Discard, out) // a line that was too long
	_ = c.cmd.Wait()                // what it would say is in said
}

// await waits until it takes connections.
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

// kill ends it at once, as a crash does. There is nothing to save: what it wrote goes with it, or is what a test looks at.
func (c *process) kill() {
	_ = c.cmd.Process.Kill() // fails where it has ended
	<-c.ended
}
