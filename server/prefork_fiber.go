//go:build linux

package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v3"

	"ceiling/server/prefork"
)

// This is fiber with its own prefork, which differs from ours (prefork.go) in what a benchmark of it
// sees: as many children as GOMAXPROCS of the parent, which a container may set to 1; listeners that
// the kernel gives a connection only when its first bytes are there (TCP_DEFER_ACCEPT); children that
// are killed when the first has ended. It tells nobody when they serve, takes no port 0, and its
// children outlive a killed parent where orphans go to a subreaper. So the parent reserves a port for
// them, each dials the parent when it listens, and stops when that connection ends.
const (
	fiberAddrEnv  = "CEILING_FIBER_ADDR"  // the address reserved for the children
	fiberReadyEnv = "CEILING_FIBER_READY" // the parent's socket, which a child dials
)

// serveFiberPrefork is Serve in the parent and in the children.
func serveFiberPrefork(ctx context.Context, _ framework, cfg Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if fiber.IsChild() {
		return serveFiberChild(ctx, cancel, &cfg)
	}
	if cfg.Workers > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cfg.Workers))
	}
	if strings.HasPrefix(cfg.Addr, "unix:") {
		return fmt.Errorf("prefork on %s: only ports can be shared among processes", cfg.Addr)
	}
	if err := prefork.MustBeFree(ctx, cfg.Addr); err != nil {
		return err
	}
	addr, release, err := reserve(cfg.Addr)
	if err != nil {
		return err
	}
	defer release()
	ready, err := (&net.ListenConfig{}).Listen(ctx, "unix", "") // in the abstract namespace, named by the kernel
	if err != nil {
		return err
	}
	defer ready.Close()
	for name, value := range map[string]string{fiberAddrEnv: addr, fiberReadyEnv: ready.Addr().String()} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
		defer os.Unsetenv(name)
	}
	return superviseFiber(ctx, cancel, addr, ready, func() { cfg.ready(nil, nil, addr) })
}

// superviseFiber starts the children and waits for ctx, which cancel ends, or for the end of the
// first. It calls serving when all serve.
func superviseFiber(ctx context.Context, cancel func(), addr string, ready net.Listener, serving func()) error {
	app := fiber.New()
	forked, ended := make(chan []int, 1), make(chan error, 1)
	app.Hooks().OnListen(func(d fiber.ListenData) error {
		forked <- d.ChildPIDs
		return nil
	})
	go func() { ended <- app.Listen(addr, fiberListen(addr)) }()
	var children []int
	select {
	case children = <-forked:
	case err := <-ended:
		return err
	}
	defer func() {
		cancel()
		awaitEnd(children)
	}()
	dialled := make(chan error, len(children))
	for range children {
		go func() {
			conn, err := ready.Accept()
			dialled <- err
			if err == nil {
				<-ctx.Done()
				_ = conn.Close() // it stops
			}
		}()
	}
	for n := 0; ; {
		select {
		case err := <-dialled:
			if err != nil {
				return err
			}
			if n++; n == len(children) {
				serving()
			}
		case <-ctx.Done():
			select {
			case <-ended: // when the first child has; fiber then kills the others
			case <-time.After(killAfter):
				for _, pid := range children {
					_ = syscall.Kill(pid, syscall.SIGKILL) // fails if it has exited
				}
				<-ended
			}
			return nil
		case err := <-ended:
			return fmt.Errorf("a prefork child ended, when %d of %d served: %v", n, len(children), err)
		}
	}
}

func fiberListen(addr string) fiber.ListenConfig {
	c := fiber.ListenConfig{EnablePrefork: true, DisableStartupMessage: true, ListenerNetwork: fiber.NetworkTCP4}
	if host, _, err := net.SplitHostPort(addr); err == nil && strings.Contains(host, ":") {
		c.ListenerNetwork = fiber.NetworkTCP6
	}
	return c
}

// serveFiberChild serves in a child until ctx or the parent ends; cancel ends ctx.
func serveFiberChild(ctx context.Context, cancel func(), cfg *Config) error {
	s, err := newSite(cfg.ListKB)
	if err != nil {
		return err
	}
	e := mountFiber(s).(*fiberApp)
	addr := os.Getenv(fiberAddrEnv)
	listen := fiberListen(addr)
	listen.ListenerAddrFunc = func(net.Addr) {
		parent, err := net.Dial("unix", os.Getenv(fiberReadyEnv))
		if err != nil { // it has ended
			cancel()
			return
		}
		go func() {
			_, _ = parent.Read(make([]byte, 1)) // its end means stop
			cancel()
		}()
	}
	stopped, ended := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		for again := true; again; { // before the framework has its listener, stopping it does nothing
			force, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceful)
			e.stop(force)
			cancel()
			select {
			case <-ended:
				again = false
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	err = e.app.Listen(addr, listen)
	close(ended)
	if !stop() {
		<-stopped
	}
	return err
}

// reserve binds addr without listening, so that nobody else can take its port; listeners of the same
// user may join it (SO_REUSEPORT, socket(7)). It returns the address with the port.
func reserve(addr string) (reserved string, release func(), err error) {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return "", nil, err
	}
	family, to := syscall.AF_INET, syscall.Sockaddr(nil)
	if v4 := at.IP.To4(); v4 != nil || at.IP == nil {
		in := &syscall.SockaddrInet4{Port: at.Port}
		copy(in.Addr[:], v4)
		to = in
	} else {
		in := &syscall.SockaddrInet6{Port: at.Port}
		copy(in.Addr[:], at.IP.To16())
		family, to = syscall.AF_INET6, in
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, os.NewSyscallError("socket", err)
	}
	release = func() { _ = syscall.Close(fd) }
	if err = prefork.ReusePort(fd); err == nil {
		err = os.NewSyscallError("bind", syscall.Bind(fd, to))
	}
	var got syscall.Sockaddr
	if err == nil {
		got, err = syscall.Getsockname(fd)
	}
	if err != nil {
		release()
		return "", nil, err
	}
	switch s := got.(type) {
	case *syscall.SockaddrInet4:
		at.Port = s.Port
	case *syscall.SockaddrInet6:
		at.Port = s.Port
	}
	return at.String(), release, nil
}

// awaitEnd waits until the killed children are gone, which takes them a moment.
func awaitEnd(children []int) {
	for deadline := time.Now().Add(killAfter); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		left := false
		for _, pid := range children {
			left = left || syscall.Kill(pid, 0) == nil
		}
		if !left {
			return
		}
	}
}
