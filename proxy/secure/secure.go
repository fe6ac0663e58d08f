// Package secure gives a proxy's clients certificates. The loops make the handshakes and
// serve who has TLS 1.3; the others, with TLS 1.2 or names of ACME, come here, and go
// through Go's own stacks: what was decrypted is handed to the loops as connections that
// speak plain HTTP/1.1, so that routing, limits, logs and counters are the same for all.
//
// A client of HTTP/1.1 gets a connection to the proxy of its own, and bytes are
// copied; so a WebSocket is a tunnel here too. A client of HTTP/2 gets one for each
// stream that is open at a time.
package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"

	"ceiling/internal/sys"
	"ceiling/internal/tlsconn"
	"ceiling/proxy"
	"ceiling/proxy/config"
)

// Server is beside the loops of one proxy.
type Server struct {
	report    func(string)
	connect   func(proxy.Origin) (net.Conn, error)
	asked     []string // the addresses as the configuration has them
	current   atomic.Pointer[settings]
	authority *authority // nil without ACME
	tls       *tls.Config
	room      chan struct{} // a place for each connection
	h2        *http.Server
	h2Conns   *handed
	counts    *counts
	buffers   buffers

	tasks sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]func() // what to do at its end
	ended bool

	transports map[net.Conn]*http.Transport // of each connection of HTTP/2
	raws       map[net.Conn]net.Conn        // below it
	relays     map[net.Conn]chan struct{}   // closed when what the proxy has answered is with the client
	idlers     map[net.Conn]*idler          // of each connection whose handshake is made
	longest    []waiting                    // idle when last looked for, the longest last
	reported   time.Time                    // when the report last said that clients are closed
}

// settings are what a reload may change.
type settings struct {
	certificates *certificates
	handshake    time.Duration
	idle         time.Duration
}

// descriptorsEach is what a client takes: its socket, and both ends of the
// connection to a loop.
const descriptorsEach = 3

// New reads the certificates of a configuration. Nothing is answered before Run.
func New(c *config.Config, report func(string)) (s *Server, err error) {
	s = &Server{
		report: report, asked: c.TLS.Listen, conns: map[net.Conn]func(){}, counts: newCounts(),
		transports: map[net.Conn]*http.Transport{}, raws: map[net.Conn]net.Conn{}, relays: map[net.Conn]chan struct{}{},
		idlers: map[net.Conn]*idler{},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	first, err := settle(c, report)
	if err != nil {
		return s, err
	}
	s.current.Store(first)
	_, hard, err := sys.RaiseOpenFiles(1 << 20)
	if err != nil {
		return s, err
	}
	most := c.Limits.Connections
	if most == 0 {
		most = int(min(hard, 1<<20)) / 2 / descriptorsEach
	}
	s.room = make(chan struct{}, max(most, 1))
	s.tls = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: s.certificate,
		CipherSuites: suites(),
	}
	if c.TLS.ACME != nil {
		if s.authority, err = newAuthority(c.TLS.ACME, report); err != nil {
			return s, err
		}
		s.tls.NextProtos = append(s.tls.NextProtos, acme.ALPNProto)
	}
	tlsconn.Share(s.tls)
	s.serveH2(c)
	return s, nil
}

// suites of TLS 1.2 that are offered: forward secrecy and authenticated encryption
// alone (RFC 9325, section 4.2). Those of TLS 1.3 all are so.
func suites() (ids []uint16) {
	for _, s := range tls.CipherSuites() {
		switch s.ID {
		case tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256:
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func settle(c *config.Config, report func(string)) (*settings, error) {
	list, err := newCertificates(c.TLS.Certificates, report)
	if err != nil {
		return nil, err
	}
	return &settings{certificates: list, handshake: c.Timeouts.Header.Or(10 * time.Second), idle: c.Timeouts.Idle.Or(time.Minute)}, nil
}

// Prepare adds to a configuration what the proxy needs for the certificates' sake:
// the location that answers an authority. It is called before proxy.New and before
// each Reload.
func (s *Server) Prepare(c *config.Config) {
	if s.authority != nil {
		c.Regions = append(c.Regions, s.authority.region())
	}
}

// Ready checks another configuration, and returns what goes on with it, from the
// next connection on.
func (s *Server) Ready(c *config.Config) (install func(), err error) {
	if fmt.Sprint(c.TLS.Listen) != fmt.Sprint(s.asked) {
		return nil, fmt.Errorf("reload: tls.listen changes from %v to %v, which needs a new start", s.asked, c.TLS.Listen)
	}
	if err := s.authority.mayBecome(c.TLS.ACME); err != nil {
		return nil, err
	}
	next, err := settle(c, s.report)
	if err != nil {
		return nil, fmt.Errorf("reload: %w", err)
	}
	return func() {
		s.authority.become(c.TLS.ACME)
		s.current.Store(next)
	}, nil
}

// Close frees a server that will not run.
func (s *Server) Close() error { return s.authority.close() }

// goAway is how long clients of HTTP/2 are given to hear that the server ends
// before the loops take nothing new: Go's server announces it twice, a second apart.
const goAway = 2 * time.Second

// Run serves until ctx ends, with serve, the proxy's Run, inside: the loops go on
// until the clients of HTTP/2 know that no new request is taken.
func (s *Server) Run(ctx context.Context, connect func(proxy.Origin) (net.Conn, error), serve func(context.Context) error) error {
	s.connect = connect
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s.tasks.Go(func() { _ = s.h2.Serve(s.h2Conns) }) // it ends with Shutdown or Close
	s.authority.run(inner, &s.tasks)
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		err := s.authority.close()
		soon, done := context.WithTimeout(context.WithoutCancel(ctx), goAway)
		defer done()
		_ = s.h2.Shutdown(soon) // what is not done by then has until the loops have drained
		cancel()
		drained <- err
	})
	err := serve(inner)
	cancel()
	if stop() { // serve has ended by itself
		err = errors.Join(err, s.authority.close())
	} else {
		err = errors.Join(err, <-drained)
	}
	soon, done := context.WithTimeout(context.WithoutCancel(ctx), goAway)
	defer done()
	if e := s.h2.Shutdown(soon); e != nil {
		err = errors.Join(err, s.h2.Close())
	}
	s.awaitRelays(soon)
	s.endAll()
	s.tasks.Wait()
	return err
}

// TLS implements proxy.Beside, as what follows does.
func (s *Server) TLS() *tls.Config { return s.tls }

// ForLoop tells by a ClientHello whether the loop that has it serves the client. Names of
// the authority are not for a loop, where nobody waits for a certificate or a disk.
func (s *Server) ForLoop(hello *tls.ClientHelloInfo) bool {
	return !slices.Contains(hello.SupportedProtos, acme.ALPNProto) && !s.authority.has(hello.ServerName)
}

// Take serves a client that is not for a loop. Beyond the room there is, it waits for the
// place of an idle client.
func (s *Server) Take(fd int, from proxy.Origin, begun []byte, taken func()) {
	s.tasks.Go(func() {
		taken = sync.OnceFunc(taken)
		defer taken()
		file := os.NewFile(uintptr(fd), "client")
		conn, err := net.FileConn(file) // duplicates
		if err := errors.Join(err, file.Close()); err != nil {
			s.report("tls: " + err.Error()) // out of descriptors: others must end first
			return
		}
		raw := &begunConn{conn.(*net.TCPConn), begun}
		if !s.makeRoom() {
			raw.Close()
			return
		}
		taken()
		if !s.enter(raw, func() { <-s.room }) {
			raw.Close()
			<-s.room
			return
		}
		s.greet(raw, from)
	})
}

// begunConn is a connection of which some bytes have been read.
type begunConn struct {
	*net.TCPConn
	begun []byte
}

func (b *begunConn) Read(p []byte) (int, error) {
	if len(b.begun) > 0 {
		n := copy(p, b.begun)
		b.begun = b.begun[n:]
		return n, nil
	}
	return b.TCPConn.Read(p)
}

// enter notes a connection; false when the server has ended. A later note about the
// same connection stands in place of the former.
func (s *Server) enter(conn net.Conn, atEnd func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.conns[conn] = atEnd
	return true
}

// enterAgain notes what else is to be done at a connection's end. One that has ended
// has it done at once.
func (s *Server) enterAgain(conn net.Conn, also func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	atEnd := s.conns[conn]
	if atEnd == nil {
		also()
		return
	}
	s.conns[conn] = func() { atEnd(); also() }
}

// leave closes a connection, once.
func (s *Server) leave(conn net.Conn) {
	s.mu.Lock()
	atEnd := s.conns[conn]
	delete(s.conns, conn)
	delete(s.idlers, conn)
	s.mu.Unlock()
	if atEnd != nil {
		conn.Close()
		atEnd()
	}
}

func (s *Server) endAll() {
	s.mu.Lock()
	s.ended = true
	var list []net.Conn
	for c := range s.conns {
		list = append(list, c)
	}
	s.mu.Unlock()
	for _, c := range list {
		s.leave(c)
	}
}

// greet makes the handshake, and gives the connection to who speaks its protocol.
func (s *Server) greet(raw net.Conn, origin proxy.Origin) {
	now := s.current.Load()
	conn := tls.Server(raw, s.tls)
	ctx := context.Background()
	if now.handshake > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, now.handshake)
		defer cancel()
	}
	if err := errors.Join(conn.HandshakeContext(ctx), raw.SetDeadline(time.Time{})); err != nil { // the client's fault, or its end
		s.counts.failed(err)
		s.leave(raw)
		return
	}
	state := conn.ConnectionState()
	s.counts.made(state.Version, state.DidResume)
	s.counts.clients.Add(1)
	s.enterAgain(raw, func() { s.counts.clients.Add(-1) })
	switch state.NegotiatedProtocol {
	case "h2":
		s.handOver(raw, conn, origin)
	case acme.ALPNProto: // the handshake was all
		s.leave(raw)
	default:
		s.relay(raw, conn, origin, now.idle)
	}
}
