package race

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"ceiling/internal/sys"
)

// crashPath is a page on which the backend closes the connection without an answer.
const crashPath = "/crash"

// mortal is a backend at an address of its own that can end and come back.
type mortal struct {
	addr    string
	handler http.HandlerFunc
	release func() // the port
	server  *http.Server
	conns   sync.Map // of the server: net.Conn
	wait    sync.WaitGroup
}

func newMortal(handler http.HandlerFunc) (*mortal, error) {
	at, release, err := sys.HoldPort(netip.MustParseAddr("127.0.0.1"), true)
	if err != nil {
		return nil, err
	}
	m := &mortal{addr: at.String(), handler: handler, release: release}
	if _, err = m.start(); err != nil {
		release()
	}
	return m, err
}

// start begins to accept, and returns from when on.
func (m *mortal) start() (time.Time, error) {
	ln, err := net.Listen("tcp", m.addr)
	if err != nil {
		return time.Time{}, err
	}
	from := time.Now()
	server := &http.Server{Handler: m.handler, ConnState: func(c net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			m.conns.Store(c, nil)
		case http.StateClosed:
			m.conns.Delete(c)
		}
	}}
	m.server = server
	m.wait.Go(func() { _ = server.Serve(ln) }) // until its end
	return from, nil
}

func answer(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path == crashPath {
		panic(http.ErrAbortHandler) // which closes the connection
	}
	time.Sleep(time.Millisecond) // so that some are in progress whenever it ends
	_, _ = w.Write([]byte("ok")) // who is gone needs none
}

// kill resets every connection, as the end of a process by SIGKILL does where something is unread.
func (m *mortal) kill() error {
	m.conns.Range(func(c, _ any) bool {
		reset(c.(net.Conn))
		return true
	})
	err := m.server.Close()
	m.wait.Wait()
	return err
}

// reset ends a connection without an orderly close, which would keep its port for a minute.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // then close waits for nothing
	}
	_ = c.Close() // nothing more is expected of it
}

// orderly is how long an end in order may take; what is left then is a connection without a request.
const orderly = 100 * time.Millisecond

// end closes the connections that wait, and lets the others finish.
func (m *mortal) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), orderly)
	defer cancel()
	_ = m.server.Shutdown(ctx) // what it has not ended is killed
	return m.kill()
}

// close ends it for good; it may be away.
func (m *mortal) close() error {
	defer m.release()
	return m.kill()
}
