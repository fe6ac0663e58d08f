package planted

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"ceiling/internal/process"
)

// A prefork server creates one listener per process on a shared port and restarts the program,
// with the same command line, for each of them. Descriptor 3 of a child is its listener.
const (
	preforkEnv = "CEILING_PLANTED_CHILD"

	listenerFD  = 3
	childServes = "child serves" // it prints

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
	children, err := startPrefork(ctx, files)
	defer children.stop()
	if err != nil {
		return err
	}
	ready(addr)
	return children.watch(ctx)
}

func servePreforkChild(ctx context.Context, p *Params) error {
	runtime.GOMAXPROCS(1)
	file := os.NewFile(listenerFD, "listener")
	ln, err := net.FileListener(file) // duplicates
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	told := func() { fmt.Fprintln(os.Stdout, childServes) }
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
type preforked []*process.Process

// startPrefork starts a child per listener and waits until all serve. It closes the parent's
// descriptors of the listeners.
func startPrefork(ctx context.Context, listeners []*os.File) (children preforked, err error) {
	program, err := os.Executable()
	for _, ln := range listeners {
		c := process.Command{Name: program, Args: os.Args[1:], Env: []string{preforkEnv + "=1"}, Files: []*os.File{ln},
			Ready: func(line string) (string, bool) { return "", line == childServes }}
		var p *process.Process
		if err == nil {
			p, err = c.Start()
		}
		if err == nil {
			children = append(children, p)
		}
	}
	if err := errors.Join(err, closeAll(listeners)); err != nil {
		return children, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, childStart, errors.New("it did not come to serve"))
	defer cancel()
	for _, p := range children {
		if _, err := p.Await(ctx, nil); err != nil {
			return children, fmt.Errorf("a prefork child: %w", err)
		}
	}
	return children, nil
}

// watch returns when ctx ends, or with an error when a child exits.
func (c preforked) watch(ctx context.Context) error {
	ended := make(chan error, len(c))
	for _, p := range c {
		go func() {
			_ = p.Wait(ctx) // Died has it
			ended <- p.Died()
		}()
	}
	err := <-ended
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("a prefork child: %w", err)
}

func (c preforked) stop() {
	for _, p := range c {
		p.Stop()
	}
}
