package planted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// A prefork server creates one listener per process on a shared port and restarts the program,
// with the same command line, for each of them. Descriptor 3 of a child is its listener; it
// writes one byte to 4 when it serves; 5 reaches its end when the parent exits, even if killed.
const (
	preforkEnv = "CEILING_PLANTED_CHILD"

	listenerFD = 3
	readyFD    = 4
	lifeFD     = 5

	childStart = 20 * time.Second // it takes 0.1 s of CPU on a busy machine

	// From include/uapi/asm-generic/socket.h; package syscall lacks them.
	soReusePort           = 15
	soAttachReusePortCBPF = 51
)

// IsChild reports whether this process is part of a prefork server, started with its parent's
// command line: it must reach the same call of Serve.
func IsChild() bool { return os.Getenv(preforkEnv) != "" }

func servePrefork(ctx context.Context, p *Params, ready func(string)) error {
	if IsChild() {
		return servePreforkChild(ctx, p)
	}
	files, addr, err := shareOne(ctx, p)
	if err != nil {
		return err
	}
	children, err := startPrefork(files)
	if err == nil {
		ready(addr)
		err = children.watch(ctx)
	}
	children.stop()
	return err
}

func servePreforkChild(ctx context.Context, p *Params) error {
	runtime.GOMAXPROCS(1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	life := os.NewFile(lifeFD, "life")
	go func() {
		_, _ = life.Read(make([]byte, 1)) // its end means stop
		cancel()
	}()
	file := os.NewFile(listenerFD, "listener")
	ln, err := net.FileListener(file) // duplicates
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	told := func() {
		f := os.NewFile(readyFD, "ready")
		// If the write fails, the parent has exited, which life reports as well.
		_, _ = f.Write([]byte{1})
		_ = f.Close()
	}
	return serveOn(ctx, ln, told, func(w http.ResponseWriter, _ *http.Request) {
		burn(p.CPU)
		ok(w)
	})
}

// shareOne creates the listeners, and a rule that assigns every connection to the first.
func shareOne(ctx context.Context, p *Params) (files []*os.File, addr string, err error) {
	addr = p.Addr
	share := func(fd int) error { return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soReusePort, 1) }
	for range p.N {
		ln, err := listen(ctx, addr, share)
		if err != nil {
			return files, "", errors.Join(err, closeAll(files))
		}
		addr = ln.Addr().String()
		file, err := ln.(*net.TCPListener).File() // duplicates
		if err := errors.Join(err, ln.Close()); err != nil {
			return files, "", errors.Join(err, closeAll(files))
		}
		files = append(files, file)
	}
	conn, err := files[0].SyscallConn()
	if err == nil {
		err = onSocket(conn, steerToFirst)
	}
	if err != nil {
		return files, "", errors.Join(err, closeAll(files))
	}
	return files, addr, nil
}

// steerToFirst attaches a one-instruction program, "return 0", which the kernel runs to choose
// among the port's listeners (socket(7), SO_ATTACH_REUSEPORT_CBPF).
func steerToFirst(fd int) error {
	program := []syscall.SockFilter{{Code: syscall.BPF_RET | syscall.BPF_K}}
	arg := syscall.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := syscall.Syscall6(syscall.SYS_SETSOCKOPT, uintptr(fd), syscall.SOL_SOCKET, soAttachReusePortCBPF,
		uintptr(unsafe.Pointer(&arg)), unsafe.Sizeof(arg), 0)
	runtime.KeepAlive(program)
	if errno != 0 {
		return os.NewSyscallError("setsockopt SO_ATTACH_REUSEPORT_CBPF", errno)
	}
	return nil
}

func closeAll(files []*os.File) error {
	var err error
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// preforked are the children.
type preforked struct {
	commands []*exec.Cmd
	life     *os.File   // closing it stops all of them
	ended    chan error // one result per child
}

// startPrefork starts a child per listener and waits until all serve. It closes the parent's
// listeners.
func startPrefork(listeners []*os.File) (*preforked, error) {
	c := &preforked{ended: make(chan error, len(listeners))}
	lifeEnd, life, err := os.Pipe()
	if err != nil {
		return c, errors.Join(err, closeAll(listeners))
	}
	c.life = life
	ready, tell, err := os.Pipe()
	if err != nil {
		return c, errors.Join(err, closeAll(listeners), lifeEnd.Close())
	}
	defer ready.Close()
	for _, ln := range listeners {
		if err = c.start(ln, tell, lifeEnd); err != nil {
			break
		}
	}
	err = errors.Join(err, closeAll(listeners), tell.Close(), lifeEnd.Close())
	if err != nil {
		return c, err
	}
	if err := ready.SetReadDeadline(time.Now().Add(childStart)); err != nil {
		return c, err
	}
	if _, err := io.ReadFull(ready, make([]byte, len(listeners))); err != nil {
		return c, fmt.Errorf("a prefork child did not come to serve: %w", err)
	}
	return c, nil
}

func (c *preforked) start(ln, ready, life *os.File) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{
		Path: program, Args: os.Args, Env: append(os.Environ(), preforkEnv+"=1"),
		Stderr: os.Stderr, ExtraFiles: []*os.File{ln, ready, life},
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.commands = append(c.commands, cmd)
	go func() { c.ended <- cmd.Wait() }()
	return nil
}

// watch returns when ctx ends, or with an error when a child exits.
func (c *preforked) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.ended:
		c.ended <- err
		return fmt.Errorf("a prefork child ended: %w", errors.Join(err, errors.New("which it should not")))
	}
}

// stop stops the children: they exit when life closes, or are killed.
func (c *preforked) stop() {
	if c.life != nil {
		_ = c.life.Close()
	}
	patience := time.AfterFunc(time.Second, func() {
		for _, cmd := range c.commands {
			_ = cmd.Process.Kill() // fails if it has exited already
		}
	})
	defer patience.Stop()
	for range c.commands {
		<-c.ended
	}
}
