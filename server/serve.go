package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"ceiling/server/quorum"
	"ceiling/server/store"
)

// When a server is told to stop, requests that are being answered have graceful to finish, and then their connections
// are closed. The children of a prefork server which are still there after killAfter are killed. Together they keep
// the promise of Serve: it returns within a second.
const (
	graceful  = 500 * time.Millisecond
	killAfter = 800 * time.Millisecond
)

// Config says how to run a server. Its zero value serves a free port of the loopback with one process on all CPUs.
type Config struct {
	// Addr is "host:port", where port 0 is a free one, or "unix:/path". "" is "127.0.0.1:0".
	// A prefork server cannot have a unix socket, since only ports can be shared among listeners.
	Addr string

	// Prefork runs several processes, each with one CPU and its own listener on the shared port.
	Prefork bool

	// Workers is the number of processes with Prefork, else of threads that run Go code (GOMAXPROCS, which is set for
	// the whole process until Serve returns). 0 is the number of CPUs that this process may use.
	Workers int

	// TLS to speak; nil is none. Not of a framework that is without; the processes of
	// a prefork server have it from their parent, and leave it out.
	TLS *tls.Config
	// HTTP3 serves that as well, on the UDP port of the same number. With TLS and net/http alone.
	HTTP3 bool

	// Ready, if not nil, is called once with the real address, in the form of Addr, when all connections to it will be
	// answered. A prefork child does not call it: its parent does.
	Ready func(addr string)

	// Pprof is where profiles are answered ("host:port", 0 is a free one), those of all processes behind one address:
	// http://Pprof/debug/pprof/. The runtime then records waits for locks and elsewhere. "" is nowhere.
	Pprof string

	// ListKB is about how many thousand bytes an answer of /list has, from MinListKB to MaxListKB; 0 is 111.
	ListKB int

	// Database is what the routes of DatabaseRoutes answer from; with an empty source there are none.
	Database Database

	// Downstream has a service on the loopback that the routes of DownstreamRoutes call, with these faults (see
	// downstream.Parse); "" is none.
	Downstream string

	// KeyValue has a bucket in replicas of its own that the routes of KeyValueRoutes answer from, as quorum.Parse has it; "" is
	// none. Database.Ready gets its line too. The program is started again for each replica, with the
	// variable quorum.ReplicaEnv in its environment, and then has to call quorum.Serve.
	KeyValue string

	// Push has events published on /events, and messages answered on /ws, with these options (see publish.Parse).
	// "" is neither.
	Push string

	// PprofReady, if not nil, is called before Ready with the real address of that.
	PprofReady func(addr string)
}

// MinListKB and MaxListKB bound Config.ListKB: two products at least, and the pool's 500 are enough for the longest list.
const (
	MinListKB = 10
	MaxListKB = 1500
)

// Serve runs a server of the named kind until ctx ends, then returns nil within a second and leaves nothing behind.
// It returns an error when the server cannot be started, or ends by itself.
//
// A prefork server starts the program again, with the same command line, for each of its processes. The program must
// come to the same call of Serve, which then behaves as a child (see IsPreforkChild).
func Serve(ctx context.Context, kind string, cfg Config) error {
	f, err := lookup(kind)
	if err != nil {
		return err
	}
	switch {
	case cfg.Workers < 0:
		return fmt.Errorf("serve %s: %d workers", kind, cfg.Workers)
	case cfg.ListKB != 0 && (cfg.ListKB < MinListKB || cfg.ListKB > MaxListKB):
		return fmt.Errorf("serve %s: lists of %d KB; %d to %d can be made", kind, cfg.ListKB, MinListKB, MaxListKB)
	case cfg.Prefork && !f.Prefork:
		return fmt.Errorf("serve %s: the framework has no prefork", kind)
	case cfg.Database.Source != "" && f.Memory:
		return fmt.Errorf("serve %s: it answers from memory alone, without a database", kind)
	case cfg.Downstream != "" && (f.Memory || cfg.Prefork):
		return fmt.Errorf("serve %s: a downstream service goes with one process of another framework", kind)
	case cfg.KeyValue != "" && (f.Memory || cfg.Prefork):
		return fmt.Errorf("serve %s: a key-value bucket goes with one process of another framework", kind)
	case cfg.Push != "" && (f.Memory || cfg.Prefork):
		return fmt.Errorf("serve %s: one process of another framework publishes events", kind)
	case cfg.TLS != nil && f.Plain:
		return fmt.Errorf("serve %s: there is no TLS with it", kind)
	case cfg.HTTP3 && (cfg.TLS == nil || kind != "nethttp"):
		return fmt.Errorf("serve %s: HTTP/3 goes with nethttp and TLS", kind)
	case cfg.Addr == "":
		cfg.Addr = "127.0.0.1:0"
	}
	serve := serveAlone
	switch {
	case IsPreforkChild():
		serve = serveChild
	case cfg.Prefork:
		serve = serveChildren
	}
	// An error of ctx is Listen's, whose look-up of a name was cut short: the caller asked for the end.
	err = serve(ctx, f, cfg)
	switch {
	case err == nil, errors.Is(err, ctx.Err()):
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("serve %s: %w; ss -ltnp shows what listens there, --addr 127.0.0.1:0 takes a free port", kind, err)
	}
	return fmt.Errorf("serve %s: %w", kind, err)
}

// serveAlone runs a server in this process.
func serveAlone(ctx context.Context, f framework, cfg Config) error {
	if cfg.Workers > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cfg.Workers))
	}
	s, err := newSite(cfg.ListKB)
	if err != nil {
		return err
	}
	ln, err := listen(ctx, cfg.Addr)
	if err != nil {
		return err
	}
	if cfg.TLS != nil {
		ln = tls.NewListener(ln, cfg.TLS)
	}
	if err := s.startDownstream(cfg.Downstream); err != nil {
		return errors.Join(err, ln.Close())
	}
	defer s.close()
	if err := s.startPush(cfg.Push); err != nil {
		return errors.Join(err, ln.Close())
	}
	if err := s.startKeyValue(ctx, cfg.KeyValue); err != nil {
		return errors.Join(err, ln.Close())
	}
	err = serveSite(ctx, f, s, ln, &cfg)
	if s.bucket != nil {
		err = errors.Join(err, s.bucket.Close())
	}
	return err
}

// serveSite answers ln from s in this process.
func serveSite(ctx context.Context, f framework, s *site, ln net.Listener, cfg *Config) error {
	stop, err := profilesAlone(ctx, cfg)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer stop()
	err = withDatabase(ctx, &cfg.Database, func(db *store.Database) error {
		if db != nil {
			if err := cfg.Database.open(ctx, s, db); err != nil {
				return err
			}
		}
		e := f.mount(s)
		if cfg.HTTP3 {
			if e, err = overQUIC(e, ln.Addr(), cfg.TLS); err != nil {
				return err
			}
		}
		return run(ctx, e, s, ln, func() error {
			cfg.ready(db, s.bucket, address(ln))
			return nil
		})
	})
	if closed := ln.Close(); closed != nil && !errors.Is(closed, net.ErrClosed) { // open still where the database failed
		err = errors.Join(err, closed)
	}
	return err
}

// ready says that the server serves on addr, and which database and bucket it has, if any.
func (cfg *Config) ready(db *store.Database, bucket *quorum.Bucket, addr string) {
	if bucket != nil && cfg.Database.Ready != nil {
		cfg.Database.Ready(bucket.Line())
	}
	if db != nil && cfg.Database.Ready != nil {
		cfg.Database.Ready(db.Line())
	}
	if cfg.Ready != nil {
		cfg.Ready(addr)
	}
}

// run lets e answer ln from s until ctx ends or ready fails. It calls ready when connections will be answered; the kernel
// has been taking them since ln was made. It closes ln and s.
func run(ctx context.Context, e engine, s *site, ln net.Listener, ready func() error) error {
	served := make(chan error, 1)
	go func() { served <- e.serve(ln) }()
	err := ready()
	ended := false
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-served:
			ended = true
			if err == nil {
				err = errors.New("the framework stopped by itself")
			}
		}
	}
	force, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceful)
	defer cancel()
	defer context.AfterFunc(force, s.abort)() // a framework does not take a request back that waits
	s.endStreams()
	e.stop(force)
	s.close()
	// The engine has closed it, unless stop came before serve. Then this is what ends serve.
	if closeErr := ln.Close(); closeErr != nil && !errors.Is(closeErr, net.ErrClosed) {
		err = errors.Join(err, closeErr)
	}
	if !ended {
		err = errors.Join(err, <-served)
	}
	return err
}

// address returns the address of ln in the form of Config.Addr.
func address(ln net.Listener) string {
	if ln.Addr().Network() == "unix" {
		return "unix:" + ln.Addr().String()
	}
	return ln.Addr().String()
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
		return config.Listen(ctx, "tcp", addr)
	}
	if err := removeDeadSocket(path); err != nil {
		return nil, err
	}
	return config.Listen(ctx, "unix", path)
}

// removeDeadSocket removes the socket that a killed server has left at path, which would keep it from being used
// again. Whatever else is there it leaves alone, for Listen to complain about.
func removeDeadSocket(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return nil
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		return conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return os.Remove(path)
}
