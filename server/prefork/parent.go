// Package prefork runs a server as several processes that share a port: the parent creates the
// listeners, so that the port is chosen once, and starts the program again for each of them, with
// the same command line. A child inherits its listener on descriptor 3. It writes one byte to
// descriptor 4 when it serves. Descriptor 5 is a pipe that only the parent can write to: what the
// child needs to know first, and then nothing. Its end tells the child to stop; the kernel closes
// it even if the parent is killed by SIGKILL.
package prefork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	listenerFD = 3
	readyFD    = 4
	lifeFD     = 5
	// FirstFD is the first descriptor of those that Start adds.
	FirstFD = 6

	// kindEnv is set in the environment of a child, to its kind.
	kindEnv = "CEILING_PREFORK_CHILD"

	// readyWithin limits the start of a child, which takes about 0.1 s of CPU, on a machine that
	// may be busy.
	readyWithin = 30 * time.Second
)

// Share creates n listeners on one address, among which the kernel distributes new connections by
// a hash of their addresses (SO_REUSEPORT: Linux 3.9, socket(7)). The caller owns the files;
// nothing else stays open.
func Share(ctx context.Context, addr string, n int) (files []*os.File, shared string, err error) {
	if strings.HasPrefix(addr, "unix:") {
		return nil, "", fmt.Errorf("prefork on %s: only ports can be shared among processes", addr)
	}
	defer func() {
		if err != nil {
			Close(files)
		}
	}()
	if err := MustBeFree(ctx, addr); err != nil {
		return nil, "", err
	}
	config := net.ListenConfig{Control: setReusePort}
	config.SetMultipathTCP(false) // as the frameworks' own: Go's listeners have it otherwise
	shared = addr
	for range n {
		ln, err := config.Listen(ctx, "tcp", shared)
		if err != nil {
			return files, "", err
		}
		// The first one has chosen a free port if none was given.
		shared = ln.Addr().String()
		file, err := ln.(*net.TCPListener).File() // duplicates
		if err := errors.Join(err, ln.Close()); err != nil {
			return files, "", err
		}
		files = append(files, file)
	}
	return files, shared, nil
}

// MustBeFree fails if addr is in use. SO_REUSEPORT would also bind next to another server of the
// same user that shares its port, which would get some of the connections; a listener without it
// is refused. Port 0 needs no check: the kernel never assigns a port twice.
func MustBeFree(ctx context.Context, addr string) error {
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "0" || port == "" {
		return err
	}
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return ln.Close()
}

// Close closes files.
func Close(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Parent of children of one kind. Stop ends them, also if Start failed.
type Parent struct {
	kind     string
	events   chan event
	children []*child
}

// child is the parent's view of a process.
type child struct {
	cmd   *exec.Cmd
	life  *os.File      // closing it stops the child
	ended chan struct{} // closed when it has exited and cmd.ProcessState is set
}

// An event is the first of a child (it serves) or the last (it has exited).
type event struct {
	child *child
	ended bool
}

// New returns a parent of up to n children.
func New(kind string, n int) *Parent { return &Parent{kind: kind, events: make(chan event, 2*n)} }

// Start starts a child with more environment variables and files, and closes nothing of the
// caller's. It returns the child's process ID.
func (p *Parent) Start(listener *os.File, env []string, more ...*os.File) (pid int, err error) {
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	ready, readyChild, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	lifeChild, life, err := os.Pipe()
	if err != nil {
		Close([]*os.File{ready, readyChild})
		return 0, err
	}
	c := &child{life: life, ended: make(chan struct{}), cmd: &exec.Cmd{
		Path:        program,
		Args:        os.Args,
		Env:         append(append(os.Environ(), kindEnv+"="+p.kind), env...),
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		ExtraFiles:  append([]*os.File{listener, readyChild, lifeChild}, more...),
		SysProcAttr: ownGroup(),
	}}
	err = c.cmd.Start()
	Close([]*os.File{readyChild, lifeChild})
	if err != nil {
		Close([]*os.File{ready, life})
		return 0, fmt.Errorf("start prefork child: %w", err)
	}
	p.children = append(p.children, c)
	go c.watch(ready, p.events)
	return c.cmd.Process.Pid, nil
}

// Greet sends every child what it reads first.
func (p *Parent) Greet(greeting []byte) (err error) {
	for _, c := range p.children {
		if len(greeting) > 0 && err == nil {
			_, err = c.life.Write(greeting)
		}
	}
	return err
}

// watch reports the child's two events. It returns when the child exits.
func (c *child) watch(ready *os.File, events chan<- event) {
	_, err := io.ReadFull(ready, make([]byte, 1)) // fails if the child exits before it serves
	_ = ready.Close()
	if err == nil {
		events <- event{child: c}
	}
	_ = c.cmd.Wait() // its error is in ProcessState
	close(c.ended)
	events <- event{child: c, ended: true}
}

// Supervise calls ready when all children serve. It returns nil when ctx ends, or an error when a
// child exits.
func (p *Parent) Supervise(ctx context.Context, ready func()) error {
	late := time.NewTimer(readyWithin)
	defer late.Stop()
	for serving := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-late.C:
			return fmt.Errorf("prefork: %d of %d children serve after %v", serving, len(p.children), readyWithin)
		case e := <-p.events:
			if e.ended && ctx.Err() != nil {
				return nil
			}
			if e.ended {
				return fmt.Errorf("prefork child %d ended: %v", e.child.cmd.Process.Pid, e.child.cmd.ProcessState)
			}
			if serving++; serving == len(p.children) {
				late.Stop()
				ready()
			}
		}
	}
}

// Stop stops the children, kills those still running after a time, and waits for all.
func (p *Parent) Stop(killAfter time.Duration) {
	for _, c := range p.children {
		_ = c.life.Close()
	}
	patience := time.NewTimer(killAfter)
	defer patience.Stop()
	for _, c := range p.children {
		select {
		case <-c.ended:
			continue
		case <-patience.C:
		}
		for _, c := range p.children {
			_ = c.cmd.Process.Kill() // fails if it has exited
		}
		break
	}
	for _, c := range p.children {
		<-c.ended
	}
}
