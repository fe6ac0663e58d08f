package server

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"runtime"

	"ceiling/server/backend"
	"ceiling/server/prefork"

	"github.com/gofiber/fiber/v3"
)

// Prefork is our own implementation for all kinds that support it, instead of the frameworks'. A
// request sees what the frameworks do on Linux: as many processes as CPUs, each with
// GOMAXPROCS(1) and its own SO_REUSEPORT listener. The rest differs, because neither fiber 3.1 nor
// fasthttp 1.74 can report when the children accept, choose a free port, set the number of
// children, or stop within a known time; and fasthttp restarts a crashed child, which would hide
// the crash.
//
// What a child reads first from its parent is the certificate, with TLS (prefork_tls.go).

// IsPreforkChild reports whether Serve started this process as part of a prefork server. A
// program that does more than call Serve, such as printing or opening files, can then skip it.
func IsPreforkChild() bool { return prefork.Kind() != "" || fiber.IsChild() }

// serveChild is Serve in a child.
func serveChild(ctx context.Context, f framework, cfg Config) error {
	c, err := prefork.Join(f.Name)
	if err != nil {
		return err
	}
	ln := c.Listener
	if os.Getenv(preforkTLSEnv) != "" {
		secure, err := readIdentity(c.Life)
		if err != nil {
			return err
		}
		ln = tls.NewListener(ln, secure)
	}
	ctx, cancel := c.Until(ctx)
	defer cancel()
	s, err := newSite(cfg.ListKB)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	if err := s.openInherited(ctx, cfg.Database); err != nil {
		return errors.Join(err, ln.Close())
	}
	stop, err := profilesOfChild()
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer stop()
	return run(ctx, f.mount(s), s, ln, c.Ready)
}

// serveChildren is Serve in the parent of a prefork server.
func serveChildren(ctx context.Context, f framework, cfg Config) error {
	n := cfg.Workers
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	files, addr, err := prefork.Share(ctx, cfg.Addr, n)
	if err != nil {
		return err
	}
	defer func() { prefork.Close(files) }() // nil once the children have them
	greeting, err := identityOf(cfg.TLS)
	if err != nil {
		return err
	}
	front, err := newPreforkProfiles(ctx, &cfg)
	if err != nil {
		return err
	}
	defer front.stop()
	return withDatabase(ctx, cfg.Database, func(db backend.Prepared) error {
		var env []string
		if db != nil {
			env = append(env, preforkDatabaseEnv+"="+db.String())
		}
		if greeting != nil {
			env = append(env, preforkTLSEnv+"=1")
		}
		p := prefork.New(f.Name, n)
		defer p.Stop(killAfter)
		for i, ln := range files {
			if err := startProfiled(p, ln, env, front, i); err != nil {
				return err
			}
		}
		prefork.Close(files)
		files = nil
		if err := p.Greet(greeting); err != nil {
			return err
		}
		return p.Supervise(ctx, func() {
			if front != nil {
				cfg.pprofReady(front.server.addr)
			}
			cfg.ready(db, nil, addr)
		})
	})
}

// startProfiled starts a child, with a socket for its profiles if they are served.
func startProfiled(p *prefork.Parent, ln *os.File, env []string, front *preforkProfiles, n int) error {
	if front == nil {
		_, err := p.Start(ln, env)
		return err
	}
	file, socket, err := front.socket(n)
	if err != nil {
		return err
	}
	defer file.Close()
	pid, err := p.Start(ln, append(env, preforkPprofEnv+"=1"), file)
	if err == nil {
		front.add(pid, socket)
	}
	return err
}
