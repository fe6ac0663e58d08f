// Package faultserver is a test server that follows a script on each connection, right or wrong:
// it answers, drips, resets, stalls, closes early. It counts what it received, for comparison
// with a client's accounting.
//
// A script is a list of steps (steps.go); each connection runs one, in its own goroutine. Steps
// wait for bytes, for the peer's close or for the server's end, never for a time. Serving
// allocates nothing per request, so that a client in the same process can count its own
// allocations.
package faultserver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Script is the steps of one connection, in order; then it is closed.
type Script []Step

// Step is one action on a connection. An error ends the script and the connection: errEnd on
// purpose, any other because the peer was gone first.
type Step func(c *Conn) error

// errEnd ends a script on purpose.
var errEnd = errors.New("end of script")

// Server listens, and runs a script on each connection. Its methods are safe
// from any goroutine.
type Server struct {
	network, address string
	script           func(number int) Script

	requests atomic.Uint64 // complete, with bodies
	bytes    atomic.Uint64
	answers  atomic.Uint64
	accepted atomic.Int64
	frozen   atomic.Pointer[chan struct{}] // nil: not frozen

	mu       sync.Mutex
	listener net.Listener          // nil while it refuses
	killed   net.Listener          // connections that it still accepts are reset
	live     map[net.Conn]struct{} // connections with a running script
	closed   bool
	keeper   int           // descriptor that reserves the port, -1: none
	done     chan struct{} // closed by Close
	running  sync.WaitGroup
}

// Listen starts a server on the address ("127.0.0.1:0", or a path for "unix")
// that runs script(k) on the k-th connection, counted from 0.
func Listen(network, address string, script func(number int) Script) (*Server, error) {
	s := &Server{network: network, address: address, script: script, keeper: -1, live: map[net.Conn]struct{}{}, done: make(chan struct{})}
	err := s.keepPort()
	if err == nil {
		err = s.Accept()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Every gives each connection the same script.
func Every(steps ...Step) func(int) Script {
	return func(int) Script { return steps }
}

// InTurn gives connection k script k, and the last one to all that follow.
func InTurn(scripts ...Script) func(int) Script {
	return func(k int) Script { return scripts[min(k, len(scripts)-1)] }
}

// Address returns the server's current or last address; the port stays the same.
func (s *Server) Address() string { return s.address }

// Requests returns the number of complete requests received.
func (s *Server) Requests() uint64 { return s.requests.Load() }

// Answers returns the number of responses written completely by the answering steps.
func (s *Server) Answers() uint64 { return s.answers.Load() }

// Bytes returns the number of bytes received.
func (s *Server) Bytes() uint64 { return s.bytes.Load() }

// Accepted returns the number of connections accepted.
func (s *Server) Accepted() int { return int(s.accepted.Load()) }

// Live returns the number of connections with a running script.
func (s *Server) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// Accept listens, again after Refuse, on the same port.
func (s *Server) Accept() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.listener != nil {
		return nil
	}
	ln, err := net.Listen(s.network, s.address)
	if err != nil {
		return fmt.Errorf("faulty: %w", err)
	}
	s.listener, s.address = ln, ln.Addr().String()
	s.running.Add(1)
	go s.acceptFrom(ln)
	return nil
}

// Refuse closes the listener: new connections are refused, existing ones continue.
func (s *Server) Refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
}

// Kill refuses, and resets every existing connection.
func (s *Server) Kill() {
	s.mu.Lock()
	s.killed = s.listener
	for c := range s.live {
		abort(c)
	}
	s.mu.Unlock()
	s.Refuse()
}

// Freeze stops the answering steps from writing until the returned function is called, which
// returns the duration.
func (s *Server) Freeze() (thaw func() time.Duration) {
	gate := make(chan struct{})
	s.frozen.Store(&gate)
	began := time.Now()
	return func() time.Duration {
		s.frozen.CompareAndSwap(&gate, nil)
		took := time.Since(began)
		close(gate)
		return took
	}
}

// Close ends every script and waits until the server has stopped completely.
func (s *Server) Close() {
	s.Refuse()
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		if s.keeper >= 0 {
			syscall.Close(s.keeper)
		}
		close(s.done)
		for c := range s.live {
			abort(c)
		}
	}
	s.mu.Unlock()
	s.running.Wait()
}

func (s *Server) acceptFrom(ln net.Listener) {
	defer s.running.Done()
	for {
		c, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the connection is gone already, or descriptors are temporarily short
		}
		number := int(s.accepted.Add(1)) - 1
		s.mu.Lock()
		if s.closed || s.killed == ln {
			abort(c)
		}
		s.live[c] = struct{}{}
		s.running.Add(1)
		s.mu.Unlock()
		go s.run(c, number)
	}
}

func (s *Server) run(nc net.Conn, number int) {
	defer s.running.Done()
	c := &Conn{Conn: nc, raw: nc, server: s}
	for _, step := range s.script(number) {
		if step(c) != nil {
			break
		}
	}
	s.mu.Lock()
	delete(s.live, nc)
	s.mu.Unlock()
	nc.Close()
}

// abort closes with a reset: with a linger time of 0, unsent data is dropped.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // fails only on a closed socket
	}
	c.Close()
}

// keepPort binds a socket that never listens to the server's port. It reserves the port while the
// server refuses, so that it can listen again: the port is in the ephemeral range, from which
// every connect on this host takes its own.
func (s *Server) keepPort() error {
	if !strings.HasPrefix(s.network, "tcp") {
		return nil
	}
	at, err := netip.ParseAddrPort(s.address)
	if err != nil {
		return fmt.Errorf("faulty: %w", err)
	}
	family, to := syscall.AF_INET, syscall.Sockaddr(nil)
	if at.Addr().Is4() {
		to = &syscall.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}
	} else {
		family, to = syscall.AF_INET6, &syscall.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())}
	}
	if s.keeper, err = syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("faulty: socket: %w", err)
	}
	if err := syscall.SetsockoptInt(s.keeper, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("faulty: SO_REUSEADDR: %w", err)
	}
	if err := syscall.Bind(s.keeper, to); err != nil {
		return fmt.Errorf("faulty: bind %s: %w", s.address, err)
	}
	name, err := syscall.Getsockname(s.keeper)
	if err != nil {
		return fmt.Errorf("faulty: getsockname: %w", err)
	}
	switch n := name.(type) {
	case *syscall.SockaddrInet4:
		at = netip.AddrPortFrom(at.Addr(), uint16(n.Port))
	case *syscall.SockaddrInet6:
		at = netip.AddrPortFrom(at.Addr(), uint16(n.Port))
	}
	s.address = at.String()
	return nil
}
