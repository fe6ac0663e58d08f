package race

import (
	"bufio"
	"context"
	"errors"
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
	release func() // the port

	ln    net.Listener
	conns map[net.Conn]bool // value: it waits for a request
	mu    sync.Mutex
	wait  sync.WaitGroup
	going bool
}

func newMortal() (*mortal, error) {
	at, release, err := sys.HoldPort(netip.MustParseAddr("127.0.0.1"), true)
	if err != nil {
		return nil, err
	}
	m := &mortal{addr: at.String(), release: release, conns: map[net.Conn]bool{}}
	if _, err := m.start(); err != nil {
		release()
		return nil, err
	}
	return m, nil
}

// start begins to accept, and returns from when on.
func (m *mortal) start() (time.Time, error) {
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", m.addr)
	if err != nil {
		return time.Time{}, err
	}
	from := time.Now()
	m.mu.Lock()
	m.ln, m.going = ln, true
	m.mu.Unlock()
	m.wait.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return // closed
			}
			if m.enter(c) {
				m.wait.Go(func() { m.serve(c) })
			}
		}
	})
	return from, nil
}

func (m *mortal) enter(c net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.going {
		_ = c.Close() // accepted as it ended
		return false
	}
	m.conns[c] = true
	return true
}

// idles notes whether a connection waits for a request; false: the backend ends.
func (m *mortal) idles(c net.Conn, waits bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns[c] = waits
	return m.going
}

func (m *mortal) serve(c net.Conn) {
	defer func() {
		m.mu.Lock()
		delete(m.conns, c)
		m.mu.Unlock()
		_ = c.Close() // the other end may be gone already
	}()
	in := bufio.NewReader(c)
	for {
		q, err := http.ReadRequest(in)
		if err != nil || q.URL.Path == crashPath {
			return
		}
		m.idles(c, false)
		time.Sleep(time.Millisecond) // so that some are in progress whenever it ends
		if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")); err != nil || !m.idles(c, true) {
			return
		}
	}
}

// stop ends accepting, and what is chosen of the connections.
func (m *mortal) stop(end func(c net.Conn, waits bool)) error {
	m.mu.Lock()
	m.going = false
	err := m.ln.Close()
	for c, waits := range m.conns {
		end(c, waits)
	}
	m.mu.Unlock()
	m.wait.Wait()
	return err
}

// kill resets every connection, as the end of a process by SIGKILL does where something is unread.
func (m *mortal) kill() error {
	return m.stop(func(c net.Conn, _ bool) {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // then close resets
		}
		_ = c.Close() // serve ends with it
	})
}

// end closes the connections that wait, and lets the others finish.
func (m *mortal) end() error {
	return m.stop(func(c net.Conn, waits bool) {
		if waits {
			_ = c.Close() // serve ends with it
		}
	})
}

func (m *mortal) close() error {
	err := m.kill()
	m.release()
	if errors.Is(err, net.ErrClosed) {
		return nil // it was away
	}
	return err
}
