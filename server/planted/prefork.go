package planted

import (
	"context"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"ceiling/server/prefork"
)

const (
	// soAttachReusePortCBPF is of include/uapi/asm-generic/socket.h; package syscall lacks it.
	soAttachReusePortCBPF = 51
	// preforkKind is that of the children.
	preforkKind = "planted"
	// killAfter is how long a child may take to end.
	killAfter = 3 * time.Second
)

// IsChild reports whether this process is part of a prefork server, started with its parent's
// command line: it must reach the same call of Serve.
func IsChild() bool { return prefork.Kind() == preforkKind }

// servePrefork serves from p.N processes. A rule assigns every connection to the first.
func servePrefork(ctx context.Context, p *Params, ready func(string)) error {
	return preforked(ctx, p, ready, steerToFirst, func(w http.ResponseWriter, _ *http.Request) {
		burn(p.CPU)
		ok(w)
	})
}

// preforked serves from one process per listener of a shared port, which steer may arrange.
func preforked(ctx context.Context, p *Params, ready func(string), steer func(fd int) error, h http.HandlerFunc) error {
	if IsChild() {
		return servePreforkChild(ctx, h)
	}
	files, addr, err := prefork.Share(ctx, p.Addr, p.N)
	if err != nil {
		return err
	}
	defer func() { prefork.Close(files) }() // nil once the children have them
	conn, err := files[0].SyscallConn()
	if err == nil && steer != nil {
		err = onSocket(conn, steer)
	}
	if err != nil {
		return err
	}
	parent := prefork.New(preforkKind, p.N)
	defer parent.Stop(killAfter)
	for _, ln := range files {
		if _, err := parent.Start(ln, nil); err != nil {
			return err
		}
	}
	prefork.Close(files)
	files = nil
	return parent.Supervise(ctx, func() { ready(addr) })
}

func servePreforkChild(ctx context.Context, h http.HandlerFunc) error {
	c, err := prefork.Join(preforkKind)
	if err != nil {
		return err
	}
	ctx, cancel := c.Until(ctx)
	defer cancel()
	told := func() { _ = c.Ready() } // it fails if the parent has ended, which ends ctx
	return serveOn(ctx, c.Listener, told, h)
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
