package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"ceiling/server/backend"

	"github.com/gofiber/fiber/v3"
)

// Prefork is our own implementation for all kinds that support it, instead of the frameworks'. A
// request sees what the frameworks do on Linux: as many processes as CPUs, each with
// GOMAXPROCS(1) and its own SO_REUSEPORT listener, among which the kernel distributes new
// connections by a hash of their addresses (Linux 3.9, socket(7)). The rest differs, because
// neither fiber 3.1 nor fasthttp 1.74 can report when the children accept, choose a free port,
// set the number of children, or stop within a known time; and fasthttp restarts a crashed child,
// which would hide the crash.
//
// The parent creates all listeners, so the port is chosen once, and a child inherits its own on
// descriptor 3. The child writes one byte to descriptor 4 when it serves. Descriptor 5 is a pipe
// that only the parent can write to. It carries the certificate for a child with TLS
// (prefork_tls.go) and nothing else: its end of file tells the child to stop. The kernel closes
// it even if the parent is killed by SIGKILL.
const (
	childListenerFD = 3
	childReadyFD    = 4
	childLifeFD     = 5

	// preforkChildEnv is set in the environment of a child, to its kind.
	preforkChildEnv = "CEILING_PREFORK_CHILD"

	// soReusePort is SO_REUSEPORT of include/uapi/asm-generic/socket.h, which package syscall lacks on amd64.
	soReusePort = 0xf

	// childReadyWithin limits the start of a child, which takes about 0.1 s of CPU, on a machine
	// that may be busy.
	childReadyWithin = 30 * time.Second
)

// IsPreforkChild reports whether Serve started this process as part of a prefork server. A
// program that does more than call Serve, such as printing or opening files, can then skip it.
func IsPreforkChild() bool { return os.Getenv(preforkChildEnv) != "" || fiber.IsChild() }

// serveChild is Serve in a child.
func serveChild(ctx context.Context, f framework, cfg Config) error {
	if asked := os.Getenv(preforkChildEnv); asked != f.Name {
		return fmt.Errorf("prefork child: the parent wants %s, the command line %s", asked, f.Name)
	}
	runtime.GOMAXPROCS(1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Nonblocking before it becomes a File, so that Close interrupts the Read.
	if err := syscall.SetNonblock(childLifeFD, true); err != nil {
		return fmt.Errorf("prefork child: descriptor %d: %w", childLifeFD, err)
	}
	life := os.NewFile(childLifeFD, "life")
	defer life.Close()
	var secure *tls.Config
	if os.Getenv(preforkTLSEnv) != "" {
		var err error
		if secure, err = readIdentity(life); err != nil {
			return err
		}
	}
	go func() {
		_, _ = life.Read(make([]byte, 1)) // its end means stop
		cancel()
	}()
	file := os.NewFile(childListenerFD, "listener")
	ln, err := net.FileListener(file) // duplicates
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("prefork child: %w", err)
	}
	if secure != nil {
		ln = tls.NewListener(ln, secure)
	}
	s, err := newSite(cfg.ListKB)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	if err := s.openInherited(ctx, cfg.Database); err != nil {
		return errors.Join(err, ln.Close())
	}
	stop, err := profilesOfChild()
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer stop()
	return run(ctx, f.mount(s), s, ln, func() error {
		ready := os.NewFile(childReadyFD, "ready")
		_, err := ready.Write([]byte{1})
		return errors.Join(err, ready.Close())
	})
}

// A child is the parent's view of a process of a prefork server.
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

// serveChildren is Serve in the parent of a prefork server.
func serveChildren(ctx context.Context, f framework, cfg Config) error {
	n := cfg.Workers
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	files, addr, err := shareAddress(ctx, cfg.Addr, n)
	if err != nil {
		return err
	}
	greeting, err := identityOf(cfg.TLS)
	if err != nil {
		closeFiles(files)
		return err
	}
	front, err := newPreforkProfiles(ctx, &cfg)
	if err != nil {
		closeFiles(files)
		return err
	}
	defer front.stop()
	events := make(chan event, 2*n)
	defer func() { closeFiles(files) }() // if the database failed; otherwise startChildren closes them
	return withDatabase(ctx, cfg.Database, func(db backend.Prepared) error {
		env := []string{preforkChildEnv + "=" + f.Name}
		if db != nil {
			env = append(env, preforkDatabaseEnv+"="+db.String())
		}
		if greeting != nil {
			env = append(env, preforkTLSEnv+"=1")
		}
		children, err := startChildren(env, files, front, events)
		err = errors.Join(err, greet(children, greeting))
		files = nil
		if err == nil {
			err = supervise(ctx, n, events, func() {
				if front != nil {
					cfg.pprofReady(front.server.addr)
				}
				cfg.ready(db, nil, addr)
			})
		}
		stopChildren(children)
		return err
	})
}

// shareAddress creates n listeners on one address. The caller owns the files; nothing else stays
// open.
func shareAddress(ctx context.Context, addr string, n int) (files []*os.File, shared string, err error) {
	if strings.HasPrefix(addr, "unix:") {
		return nil, "", fmt.Errorf("prefork on %s: only ports can be shared among processes", addr)
	}
	defer func() {
		if err != nil {
			closeFiles(files)
		}
	}()
	if err := mustBeFree(ctx, addr); err != nil {
		return nil, "", err
	}
	config := net.ListenConfig{Control: setReusePort}
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

// mustBeFree fails if addr is in use. SO_REUSEPORT would also bind next to another server of the
// same user that shares its port, which would get some of the connections; a listener without it
// is refused. Port 0 needs no check: the kernel never assigns a port twice.
func mustBeFree(ctx context.Context, addr string) error {
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "0" || port == "" {
		return err
	}
	ln, err := listen(ctx, addr)
	if err != nil {
		return err
	}
	return ln.Close()
}

// startChildren starts a child per listener, with env added to this process's environment, and
// closes the files. If it fails, it returns the children already started.
func startChildren(env []string, listeners []*os.File, front *preforkProfiles, events chan<- event) ([]*child, error) {
	defer closeFiles(listeners)
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var children []*child
	for i, ln := range listeners {
		c, err := startProfiled(program, env, ln, front, i, events)
		if err != nil {
			return children, fmt.Errorf("start prefork child: %w", err)
		}
		children = append(children, c)
	}
	return children, nil
}

// greet sends the children their identity, if they use TLS.
func greet(children []*child, greeting []byte) (err error) {
	for _, c := range children {
		if len(greeting) > 0 && err == nil {
			_, err = c.life.Write(greeting)
		}
	}
	return err
}

// startProfiled starts a child, with a socket for its profiles if they are served.
func startProfiled(program string, env []string, ln *os.File, front *preforkProfiles, n int, events chan<- event) (
	*child, error) {
	if front == nil {
		return startChild(program, env, ln, nil, events)
	}
	file, socket, err := front.socket(n)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c, err := startChild(program, env, ln, file, events)
	if err == nil {
		front.add(c.cmd.Process.Pid, socket)
	}
	return c, err
}

// startChild starts a child; profiles is the listener for its profiles, or nil.
func startChild(program string, env []string, ln, profiles *os.File, events chan<- event) (*child, error) {
	ready, readyChild, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	lifeChild, life, err := os.Pipe()
	if err != nil {
		closeFiles([]*os.File{ready, readyChild})
		return nil, err
	}
	c := &child{life: life, ended: make(chan struct{}), cmd: &exec.Cmd{
		Path:        program,
		Args:        os.Args,
		Env:         append(os.Environ(), env...),
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		ExtraFiles:  []*os.File{ln, readyChild, lifeChild},
		SysProcAttr: ownGroup(),
	}}
	if profiles != nil {
		c.cmd.ExtraFiles = append(c.cmd.ExtraFiles, profiles)
		c.cmd.Env = append(c.cmd.Env, preforkPprofEnv+"=1")
	}
	err = c.cmd.Start()
	closeFiles([]*os.File{readyChild, lifeChild})
	if err != nil {
		closeFiles([]*os.File{ready, life})
		return nil, err
	}
	go c.watch(ready, events)
	return c, nil
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

// supervise calls ready when all n children serve. It returns nil when ctx ends, or an error when
// a child exits.
func supervise(ctx context.Context, n int, events <-chan event, ready func()) error {
	late := time.NewTimer(childReadyWithin)
	defer late.Stop()
	for serving := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-late.C:
			return fmt.Errorf("prefork: %d of %d children serve after %v", serving, n, childReadyWithin)
		case e := <-events:
			if e.ended && ctx.Err() != nil {
				return nil
			}
			if e.ended {
				return fmt.Errorf("prefork child %d ended: %v", e.child.cmd.Process.Pid, e.child.cmd.ProcessState)
			}
			if serving++; serving == n {
				late.Stop()
				ready()
			}
		}
	}
}

// stopChildren stops the children, kills those still running after killAfter, and waits for all.
func stopChildren(children []*child) {
	for _, c := range children {
		_ = c.life.Close()
	}
	patience := time.NewTimer(killAfter)
	defer patience.Stop()
	for _, c := range children {
		select {
		case <-c.ended:
			continue
		case <-patience.C:
		}
		for _, c := range children {
			_ = c.cmd.Process.Kill() // fails if it has exited
		}
		break
	}
	for _, c := range children {
		<-c.ended
	}
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
