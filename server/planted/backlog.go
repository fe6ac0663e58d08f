package planted

import (
	"context"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"ceiling/internal/sys"
)

// serveBacklog accepts slowly from a short queue. It answers accepted connections at once.
func serveBacklog(ctx context.Context, p *Params, ready func(string)) error {
	ln, err := listen(ctx, p.Addr, nil)
	if err != nil {
		return err
	}
	if err := shorten(ln, p.N); err != nil {
		_ = ln.Close()
		return err
	}
	a, err := sys.NewAlarm()
	if err != nil {
		_ = ln.Close()
		return err
	}
	defer a.Close()
	return serveOn(ctx, &slowListener{ln, a, p.Sleep}, func() { ready(ln.Addr().String()) },
		func(w http.ResponseWriter, _ *http.Request) { ok(w) })
}

// shorten changes the queue's length: listen(2) on a listening socket does nothing else
// (net/ipv4/af_inet.c, inet_listen). The kernel queues one connection more than n.
func shorten(ln net.Listener, n int) error {
	conn, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		return err
	}
	return onSocket(conn, func(fd int) error { return os.NewSyscallError("listen", syscall.Listen(fd, n)) })
}

// slowListener pauses after each connection.
type slowListener struct {
	net.Listener
	alarm sys.Alarm
	gap   time.Duration
}

func (l *slowListener) Accept() (net.Conn, error) {
	if err := l.alarm.Wait(l.gap); err != nil {
		return nil, err
	}
	return l.Listener.Accept()
}
