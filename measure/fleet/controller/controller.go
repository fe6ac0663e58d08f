// Package controller is the NATS server of a test bed: who may join it, with which tokens and rights.
package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ceiling/internal/unit"
	"ceiling/measure/fleet/bus"
)

const (
	maxConnections = 4096
	leastFree      = 64 << 20 // bytes a controller wants to start with
	samplesMost    = 1 << 30
)

// Options configure a controller's addresses and storage.
type Options struct {
	// State is a directory, created if absent. A controller restarted on it is the same one: same
	// CA, token, port and samples.
	State string
	// Listen is host:port; empty: every address. Port 0 or none: a free one at the first start,
	// kept from then on.
	Listen string
	// Advertise is the host, or host:port, that agents are told to join; empty: this host's
	// outbound address.
	Advertise string
	// Bed is the test bed's name; empty: the state's, or "lab".
	Bed string
	// Samples limits the disk space of the samples stream, in bytes; 0: 1 GB, or a quarter of the
	// free space if that is less. It applies when the state is created.
	Samples int64
	// LeaseTTL is how long after its death a driver loses the test bed; 0: bus.LeaseTTL.
	// It applies when the state is created.
	LeaseTTL time.Duration
	// Log receives refused logins and errors, one line each; nil: no log.
	Log io.Writer
}

// Server is a controller's NATS: embedded, TLS only, with JetStream in the state directory.
type Server struct {
	state *bus.State
	dir   string
	lock  *os.File
	log   *logger
	url   string
	want  *server.Options
	book  *passBook
	token bus.Token // the one it hands out
	pass  bus.Pass  // of it

	closed chan struct{}
	healed chan struct{} // closed when heal has ended; nil: never started
	swept  chan struct{} // closed when sweep has ended

	mu   sync.Mutex // guards what follows: Close, heal and sweep
	nats *server.Server
	gate *gate
	over bool
}

// Serve starts the server and returns when agents can join. Its errors are one line and say what to
// do: the port is in use, the directory is not writable, it has a state of another version or
// another controller, or the disk is full.
func Serve(o Options) (*Server, error) {
	if o.Bed != "" {
		if err := bus.CheckBed(o.Bed); err != nil {
			return nil, err
		}
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	st, lock, err := bus.OpenState(o.State, o.Bed)
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	s := &Server{state: st, dir: o.State, lock: lock, log: newLogger(o.Log), closed: make(chan struct{})}
	if err := s.start(o); err != nil {
		s.stop()
		return nil, fmt.Errorf("controller: %w", err)
	}
	s.healed, s.swept = make(chan struct{}), make(chan struct{})
	go s.heal()
	go s.sweep()
	return s, nil
}

func (s *Server) start(o Options) error {
	free, err := freeBytes(o.State)
	if err != nil {
		return err
	}
	if free < leastFree {
		return fmt.Errorf("%s has %s free, a controller wants %s: make room, or take another directory", o.State, unit.FormatBytesIEC(free),
			unit.FormatBytesIEC(leastFree))
	}
	host, port, err := s.listenOn(o.Listen)
	if err != nil {
		return err
	}
	advertise, err := advertised(o.Advertise, host, port)
	if err != nil {
		return err
	}
	s.url = "nats://" + advertise
	if s.want, err = s.options(host, port, advertise); err != nil {
		return err
	}
	if s.token, s.pass, err = bus.OwnToken(o.State, s.state); err != nil {
		return err
	}
	if s.book, err = newPassBook(o.State, s.log.line); err != nil {
		return err
	}
	if s.nats, s.gate, err = s.run(s.want); err != nil {
		return err
	}
	s.state.Port, s.state.Address = port, net.JoinHostPort(reachable(host), strconv.Itoa(port))
	if err := s.state.Write(o.State); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := bus.Drive(ctx, o.State, bus.Watch{})
	if err != nil {
		return err
	}
	defer c.Close()
	samples := o.Samples
	if samples == 0 {
		samples = min(samplesMost, free/4)
	}
	lease := o.LeaseTTL
	if lease == 0 {
		lease = bus.LeaseTTL
	}
	return c.Furnish(ctx, samples, lease)
}

// listenOn binds once to check that the port is free, since the server would only log it, and to
// pick a port if none is given.
func (s *Server) listenOn(listen string) (host string, port int, err error) {
	text := "0"
	if listen != "" {
		if host, text, err = net.SplitHostPort(listen); err != nil {
			host, text, err = listen, "0", nil
		}
	}
	if text == "" {
		text = "0"
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("cannot listen on %q: want host:port", listen)
	}
	if port == 0 {
		port = s.state.Port
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return "", 0, fmt.Errorf("port %d is taken: end what listens there (ss -ltnp), or listen on another", port)
		}
		return "", 0, err
	}
	port = l.Addr().(*net.TCPAddr).Port
	return host, port, l.Close()
}

// reachable returns the address at which this host's own processes reach a listener on host.
func reachable(host string) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return host
}

// advertised returns the host:port for the join line.
func advertised(asked, host string, port int) (string, error) {
	own := strconv.Itoa(port)
	switch {
	case asked == "" && reachable(host) == host:
		return net.JoinHostPort(host, own), nil
	case asked == "":
		return net.JoinHostPort(outboundIP(), own), nil
	}
	h, p, err := net.SplitHostPort(asked)
	if err != nil {
		h, p = asked, own
	}
	if ip := net.ParseIP(h); h == "" || ip != nil && ip.IsUnspecified() {
		return "", fmt.Errorf("cannot advertise %q: want a name or address that agents reach", asked)
	}
	if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("cannot advertise %q: invalid port %s", asked, p)
	}
	return net.JoinHostPort(h, p), nil
}

// outboundIP returns this host's outbound address. It connects a UDP socket to an address of
// TEST-NET-1 (RFC 5737), which only consults the routing table and sends nothing.
func outboundIP() string {
	c, err := net.Dial("udp", "192.0.2.1:9")
	if err != nil {
		return "127.0.0.1"
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).IP.String()
}

func (s *Server) options(host string, port int, advertise string) (*server.Options, error) {
	store := filepath.Join(s.dir, "store")
	if err := os.MkdirAll(store, 0o700); err != nil {
		return nil, err
	}
	name, _, err := net.SplitHostPort(advertise)
	if err != nil {
		return nil, err
	}
	tls, err := s.state.ServerTLS(append(localNames(), name))
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "::" // dual stack; the server reads "" as 0.0.0.0
		if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
			host = "0.0.0.0"
		}
	}
	tls.GetConfigForClient = newLoginLimiter().check
	return &server.Options{
		ServerName: "ceiling-" + s.state.Bed,
		Host:       host, Port: port, ClientAdvertise: advertise,
		NoSigs: true, NoSystemAccount: false,
		MaxConn: maxConnections, MaxSubs: 256, MaxPayload: bus.MaxPayload, MaxPending: bus.MaxPending,
		WriteDeadline: 5 * time.Second, AuthTimeout: 5, PingInterval: 5 * time.Second, MaxPingsOut: 2,
		TLSConfig: tls, TLSHandshakeFirst: true, TLSTimeout: 5,
		JetStream: true, StoreDir: store, DisableJetStreamBanner: true,
		// Acknowledged means on disk. At a message a second per agent this costs a few fsyncs;
		// without it the server syncs every 2 min.
		SyncAlways: true, JetStreamMaxStore: 1 << 50, JetStreamMaxMemory: 16 << 20,
	}, nil
}

// run starts a server and waits until it accepts connections.
func (s *Server) run(want *server.Options) (*server.Server, *gate, error) {
	o := want.Clone()
	gate := newGate(s.state, s.book, s.log.line)
	o.CustomClientAuthentication = gate
	n, err := server.NewServer(o)
	if err != nil {
		return nil, nil, err
	}
	gate.alive = func(client uint64) bool { return n.GetClient(client) != nil }
	gate.kick = func(client uint64) { _ = n.DisconnectClientByID(client) } // an error means that it is gone
	n.SetLoggerV2(s.log, true, false, false)
	n.Start()
	if n.ReadyForConnections(20 * time.Second) {
		return n, gate, nil
	}
	n.Shutdown()
	n.WaitForShutdown()
	select {
	case why := <-s.log.fatal:
		return nil, nil, errors.New(why)
	default:
		return nil, nil, errors.New("NATS did not get ready within 20 s")
	}
}

// heal restarts NATS after a failed write, once there is space again: after one its stream accepts
// nothing more. Until then agents buffer their samples, and commands and pings continue.
func (s *Server) heal() {
	defer close(s.healed)
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, 30*time.Second) {
		select {
		case <-s.closed:
			return
		case <-s.log.broken:
		}
		s.log.line("%s: NATS cannot write there and accepts no samples; agents keep theirs until there is room", s.dir)
		for free := int64(0); free < leastFree/4; {
			select {
			case <-s.closed:
				return
			case <-time.After(wait):
			}
			free, _ = freeBytes(s.dir) // an error counts as no space
		}
		if err := s.again(); err != nil {
			s.log.line("%s: NATS does not start again: %v", s.dir, err)
			s.log.mend()
			s.log.report()
			continue
		}
		s.log.mend()
		s.log.line("%s: there is room again: NATS was restarted and takes samples", s.dir)
	}
}

// again replaces the server with a fresh one on the same port.
func (s *Server) again() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil
	}
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	n, gate, err := s.run(s.want)
	if err == nil {
		s.nats, s.gate = n, gate
	}
	return err
}

// URL returns the URL that agents join, nats://host:port.
func (s *Server) URL() string { return s.url }

// Bed returns the test bed's name.
func (s *Server) Bed() string { return s.state.Bed }

// Token returns the token that agents join with. It is the same after a restart unless it has
// expired or was revoked.
func (s *Server) Token() bus.Token { return s.token }

// Pass returns what the controller stores about Token.
func (s *Server) Pass() bus.Pass { return s.pass }

// JoinLine returns the command for the other machines. It does not contain the token: they need the
// file TokenFile of the state, or another token.
func (s *Server) JoinLine() string {
	return "ceiling fleet agent --join " + s.url + " --token-file " + bus.TokenFile
}

// Close ends all connections, flushes to disk and releases the state for another controller.
func (s *Server) Close() error {
	s.mu.Lock()
	over := s.over
	s.over = true
	s.mu.Unlock()
	if over {
		return nil
	}
	close(s.closed)
	<-s.healed
	<-s.swept
	return s.stop()
}

func (s *Server) stop() error {
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	}
	return s.lock.Close()
}

// freeBytes returns what an unprivileged process may still write below dir.
func freeBytes(dir string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	return int64(fs.Bavail) * fs.Bsize, nil
}

// localNames returns the names and addresses of this host, for the certificate.
func localNames() []string {
	names := []string{"localhost"}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return append(names, "127.0.0.1", "::1")
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok {
			names = append(names, n.IP.String())
		}
	}
	return names
}
