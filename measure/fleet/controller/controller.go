// Package controller is the NATS server of a test bed: who may join it, with which tokens and rights.
package controller

import (
	"cmp"
	"context"
	"crypto/tls"
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

	"ceiling/internal/sys"
	"ceiling/measure/fleet/bus"
)

// Bounds, so that neither what an agent sends nor a silent one makes anything grow: of a message and of
// what a client does not read, in bytes.
const maxConnections, maxPayload, maxPending = 4096, 8 << 20, 32 << 20

// Options configure a controller's addresses and storage.
type Options struct {
	// State is a directory, created if absent. A controller restarted on it is the same one: same
	// certificate, token and port.
	State string
	// Listen is host:port; empty: every address. Port 0 or none: a free one at the first start,
	// kept from then on.
	Listen string
	// Advertise is the host, or host:port, that agents are told to join; empty: this host's
	// outbound address.
	Advertise string
	// Bed is the test bed's name; empty: the state's, or "lab".
	Bed string
	// LeaseTTL is how long after its death a driver loses the test bed; 0: bus.LeaseTTL.
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
	token bus.Token // the one it hands out

	revoked map[string]int64 // by user; of start, then of sweep
	end     context.CancelFunc
	sweeps  sync.WaitGroup

	nats *server.Server
}

// Serve starts the server and returns when agents can join. Its errors are one line and say what to
// do: the port is in use, the directory is not writable, it has a state of another version or
// another controller, or the disk is full.
func Serve(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	st, lock, err := bus.OpenState(o.State, o.Bed)
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	s := &Server{state: st, dir: o.State, lock: lock, log: newLogger(o.Log)}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	if err := s.start(o); err != nil {
		s.Close()
		return nil, fmt.Errorf("controller: %w", err)
	}
	s.sweeps.Go(func() { s.sweep(ctx) })
	return s, nil
}

func (s *Server) start(o Options) error {
	host, port, err := s.listenOn(o.Listen)
	if err != nil {
		return err
	}
	advertise, err := advertised(o.Advertise, host, port)
	if err != nil {
		return err
	}
	s.url = "nats://" + advertise
	want, err := s.options(host, port)
	if err != nil {
		return err
	}
	if s.token, err = bus.OwnToken(o.State, s.state); err != nil {
		return err
	}
	if err := s.run(want); err != nil {
		return err
	}
	s.state.Port, s.state.Address = port, net.JoinHostPort(reachable(host), strconv.Itoa(port))
	if err := s.state.Write(o.State); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := bus.Drive(ctx, bus.Access{State: o.State}, bus.Watch{})
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Furnish(ctx, cmp.Or(o.LeaseTTL, bus.LeaseTTL))
}

// listenOn binds once to check that the port is free, since the server would only log it, and to
// pick a port if none is given.
func (s *Server) listenOn(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		host, text = listen, ""
	}
	n, err := strconv.ParseUint(cmp.Or(text, "0"), 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("cannot listen on %q: want host:port", listen)
	}
	if port = int(n); port == 0 {
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
	h, p, err := net.SplitHostPort(asked)
	if err != nil {
		h, p = asked, strconv.Itoa(port)
	}
	if asked == "" {
		if h = reachable(host); h != host {
			if from, err := sys.SourceTo("192.0.2.1:9"); err == nil { // TEST-NET-1 (RFC 5737)
				h = from.String()
			}
		}
	}
	if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 || reachable(h) != h {
		return "", fmt.Errorf("cannot advertise %q: want a name or address that agents reach, and a port if theirs is another", asked)
	}
	return net.JoinHostPort(h, p), nil
}

func (s *Server) options(host string, port int) (*server.Options, error) {
	store := filepath.Join(s.dir, "store")
	if err := os.MkdirAll(store, 0o700); err != nil {
		return nil, err
	}
	tls, err := s.state.ServerTLS()
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "::" // dual stack; the server reads "" as 0.0.0.0
		if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
			host = "0.0.0.0"
		}
	}
	tls.GetConfigForClient = (&loginLimiter{}).check
	return &server.Options{
		ServerName: "ceiling-" + s.state.Bed,
		Host:       host, Port: port,
		NoSigs: true, NoSystemAccount: false,
		MaxConn: maxConnections, MaxClosedClients: 1000, MaxSubs: 256, MaxPayload: maxPayload, MaxPending: maxPending,
		WriteDeadline: 5 * time.Second, AuthTimeout: 5, PingInterval: 5 * time.Second, MaxPingsOut: 2,
		TLSConfig: tls, TLSHandshakeFirst: true, TLSTimeout: 5,
		JetStream: true, StoreDir: store, DisableJetStreamBanner: true,
		JetStreamMaxMemory: 128 << 20,
	}, nil
}

// run starts a server and waits until it accepts connections.
func (s *Server) run(o *server.Options) (err error) {
	if err := s.trust(o); err != nil {
		return err
	}
	if s.nats, err = server.NewServer(o); err != nil {
		return err
	}
	s.nats.SetLoggerV2(s.log, true, false, false)
	s.nats.Start()
	if s.nats.ReadyForConnections(20 * time.Second) {
		return nil
	}
	select {
	case why := <-s.log.fatal:
		return errors.New(why)
	default:
		return errors.New("NATS did not get ready within 20 s")
	}
}

// URL returns the URL that agents join, nats://host:port.
func (s *Server) URL() string { return s.url }

// Bed returns the test bed's name.
func (s *Server) Bed() string { return s.state.Bed }

// Token returns the token that agents join with. It is the same after a restart unless it has
// expired or was revoked.
func (s *Server) Token() bus.Token { return s.token }

// Close ends all connections, flushes to disk and releases the state for another controller.
func (s *Server) Close() error {
	s.end()
	s.sweeps.Wait()
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	}
	return s.lock.Close()
}

// loginLimiter limits the handshakes per second of one address, so that a flood of logins takes
// neither the controller's CPU nor other clients' turns. Refused clients retry later, as agents do.
type loginLimiter struct{ seen counter }

// handshakesPerSecond of one address. A handshake takes 0.3 ms of CPU.
const handshakesPerSecond = 100

// check is a tls.Config's GetConfigForClient: nil, nil continues.
func (t *loginLimiter) check(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	from := hello.Conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	if t.seen.next(from) > handshakesPerSecond {
		return nil, fmt.Errorf("more than %d logins a second from %s", handshakesPerSecond, from)
	}
	return nil, nil
}

// counter counts what happens in the current second, by key.
type counter struct {
	mu     sync.Mutex
	second int64
	by     map[string]int
}

func (c *counter) next(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now().Unix(); now != c.second {
		c.second, c.by = now, map[string]int{}
	}
	c.by[key]++
	return c.by[key]
}
