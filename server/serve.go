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

	"ceiling/server/backend"
)

// Serve runs a server of the named kind until ctx ends, then returns nil within a second and
// leaves nothing behind. It returns an error if the server cannot start, or stops by itself.
//
// A prefork server restarts the program, with the same command line, for each of its processes.
// The program must reach the same call of Serve, which then acts as a child (see IsPreforkChild).
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
	case cfg.Pprof != "" && f.Forks:
		return fmt.Errorf("serve %s: its processes serve no profiles; fiber with Prefork does", kind)
	case cfg.Database != nil && f.Memory:
		return fmt.Errorf("serve %s: it answers from memory, without a database", kind)
	case len(cfg.Behind) > 0 && (f.Memory || cfg.Prefork):
		return fmt.Errorf("serve %s: what is behind a server goes with one process of another framework", kind)
	case cfg.TLS != nil && f.Plain:
		return fmt.Errorf("serve %s: TLS is not supported", kind)
	case cfg.Addr == "":
		cfg.Addr = "127.0.0.1:0"
	}
	serve := serveAlone
	switch {
	case f.serve != nil:
		serve = f.serve
	case IsPreforkChild():
		serve = serveChild
	case cfg.Prefork:
		serve = serveChildren
	}
	// An error of ctx comes from Listen's interrupted name lookup: the caller asked to stop.
	err = serve(ctx, f, cfg)
	switch {
	case err == nil, errors.Is(err, ctx.Err()):
		return nil
	case errors.Is(err, syscall.EADDRINUSE) && strings.HasSuffix(cfg.Addr, ":0"):
		return fmt.Errorf("serve %s: %w: no local port is free; widen the range: sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"", kind, err)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("serve %s: %w; ss -ltnp shows what listens there, --addr 127.0.0.1:0 takes a free port", kind, err)
	}
	return fmt.Errorf("serve %s: %w", kind, err)
}

// serveAlone runs a server in this process.
func serveAlone(ctx context.Context, f framework, cfg Config) (err error) {
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
	defer func() { err = errors.Join(err, s.close()) }()
	for _, open := range cfg.Behind {
		b, err := open(ctx)
		if err != nil {
			return errors.Join(err, ln.Close())
		}
		s.add(b)
	}
	return serveSite(ctx, f, s, ln, &cfg)
}

// serveSite serves ln from s in this process.
func serveSite(ctx context.Context, f framework, s *site, ln net.Listener, cfg *Config) error {
	stop, err := profilesAlone(ctx, cfg)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer stop()
	err = withDatabase(ctx, cfg.Database, func(db backend.Prepared) error {
		if db != nil {
			if err := s.open(ctx, db); err != nil {
				return err
			}
		}
		return run(ctx, f.mount(s), s, ln, func() error {
			cfg.ready(db, s.behind, address(ln))
			return nil
		})
	})
	if closed := ln.Close(); closed != nil && !errors.Is(closed, net.ErrClosed) { // still open if the database failed
		err = errors.Join(err, closed)
	}
	return err
}

// run makes e serve ln from s until ctx ends or ready fails. It calls ready when connections will
// be served; the kernel has queued them since ln was created. It closes ln and s.
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
				err = errors.New("the framework stopped without being told to")
			}
		}
	}
	force, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceful)
	defer cancel()
	defer context.AfterFunc(force, s.abort)() // a framework does not cancel a waiting request
	s.endStreams()
	e.stop(force)
	err = errors.Join(err, s.close())
	// The engine has closed it, unless stop came before serve. In that case this makes serve
	// return.
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

// removeDeadSocket removes the socket file that a killed server left at path, which would block
// its reuse. It leaves any other file alone, for Listen to report.
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
