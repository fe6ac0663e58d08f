// Package secure adds TLS to a proxy. The loops make the handshakes and serve clients with TLS
// 1.3; the others, with TLS 1.2 or ACME names, come here and use Go's own stacks: what was
// decrypted goes to the loops as connections that speak plain HTTP/1.1, so that routing, limits,
// logs and counters are the same for all.
//
// Each HTTP/1.1 client gets its own connection to the proxy, and bytes are copied, so a WebSocket
// is a tunnel here too. An HTTP/2 client gets one per concurrently open stream.
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

// Server serves clients next to the loops of one proxy.
type Server struct {
	report    func(string)
	connect   func(proxy.Origin) (net.Conn, error)
	asked     []string // the addresses as configured
	current   atomic.Pointer[settings]
	authority *authority // nil without ACME
	tls       *tls.Config
	room      chan struct{} // one place per connection
	h2        *http.Server
	h2Conns   *handed
	counts    *counts
	buffers   buffers

	tasks sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]func() // what to do at its end
	ended bool

	transports map[net.Conn]*http.Transport // per HTTP/2 connection
	raws       map[net.Conn]net.Conn        // the socket below it
	relays     map[net.Conn]chan struct{}   // closed when the client has the proxy's responses
	idlers     map[net.Conn]*idler          // per connection with a completed handshake
	longest    []waiting                    // idle in the last search, the longest last
	reported   time.Time                    // when the report last mentioned closed clients
}

// settings are what a reload may change.
type settings struct {
	certificates *certificates
	handshake    time.Duration
	idle         time.Duration
}

// descriptorsEach is how many descriptors a client uses: its socket, and both ends of the
// connection to a loop.
const descriptorsEach = 3

// New reads the certificates of a configuration. It serves nothing before Run.
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

// suites returns the offered TLS 1.2 suites: only forward secrecy and authenticated encryption
// (RFC 9325, section 4.2). All those of TLS 1.3 qualify.
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

// Prepare adds what the certificates need to a configuration: the location that answers an
// authority. Call it before proxy.New and before each Reload.
func (s *Server) Prepare(c *config.Config) {
	if s.authority != nil {
		c.Regions = append(c.Regions, s.authority.region())
	}
}

// Ready checks another configuration, and returns what activates it for new connections.
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

// goAway is how long HTTP/2 clients get to learn that the server is ending before the loops
// refuse new requests: Go's server announces it twice, a second apart.
const goAway = 2 * time.Second

// Run serves until ctx ends, with serve, the proxy's Run, nested inside: the loops keep running
// until the HTTP/2 clients know that no new request is accepted.
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
	if stop() { // serve ended by itself
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

// TLS implements proxy.Beside, as do the following methods.
func (s *Server) TLS() *tls.Config { return s.tls }

// ForLoop decides by a ClientHello whether its loop serves the client. The authority's names are
// not for a loop, which must not wait for a certificate or a disk.
func (s *Server) ForLoop(hello *tls.ClientHelloInfo) bool {
	return !slices.Contains(hello.SupportedProtos, acme.ALPNProto) && !s.authority.has(hello.ServerName)
}

// Take serves a client that is not for a loop. If there is no room, it waits for an idle client's
// place.
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

// begunConn is a connection of which some bytes were already read.
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

// enter registers a connection; false if the server has ended. A later registration of the same
// connection replaces the earlier one.
func (s *Server) enter(conn net.Conn, atEnd func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.conns[conn] = atEnd
	return true
}

// enterAgain registers another action for a connection's end. If it has already ended, it runs
// the action at once.
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

// greet makes the handshake, and passes the connection to the handler of its protocol.
func (s *Server) greet(raw net.Conn, origin proxy.Origin) {
	now := s.current.Load()
	conn := tls.Server(raw, s.tls)
	ctx := context.Background()
	if now.handshake > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, now.handshake)
		defer cancel()
	}
	if err := errors.Join(conn.HandshakeContext(ctx), raw.SetDeadline(time.Time{})); err != nil { // the client's fault, or it left
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
	case acme.ALPNProto: // the handshake was the challenge
		s.leave(raw)
	default:
		s.relay(raw, conn, origin, now.idle)
	}
}
