package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ceiling/proxy"
	"ceiling/proxy/apps"
	"ceiling/proxy/config"
	"ceiling/proxy/prefork"
	"ceiling/proxy/publish"
	"ceiling/proxy/roadsign"
)

// serving answers requests: this process's proxy, or the parent of several.
type serving interface {
	Snapshot() (*proxy.Snapshot, error)
	Traces() ([]proxy.Trace, error)
	ReopenLog() error
	SetApplications(proxy.Applications)
}

// operate runs serve with what exists once, however many processes serve: the applications, the
// admin address, and the handlers of SIGHUP and SIGUSR1.
func (s *Service) operate(ctx context.Context, now <-chan struct{}, serving serving, read func() (*config.Config, error),
	serve func(context.Context) error) error {
	var current atomic.Pointer[config.Config]
	current.Store(s.config)
	supervisor := apps.New(now, s.Report, s.Output)
	supervisor.Changed = func(starting map[string]bool) { serving.SetApplications(starting) }
	defer supervisor.Close() // after their requests are answered
	var one sync.Mutex
	reload := func() error {
		one.Lock()
		defer one.Unlock()
		next, err := read()
		if err != nil {
			return err
		}
		s.warn(next)
		if s.certs != nil {
			s.certs.Become(next.TLS.ACME.Hosts)
		}
		current.Store(next)
		supervisor.Replace(next)
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer on(ctx, syscall.SIGHUP, reload, s.Report, "reloaded", "the old configuration stays")()
	defer on(ctx, syscall.SIGUSR1, serving.ReopenLog, s.Report, "log reopened", "the old log file stays")()
	if s.config.Admin == "" {
		supervisor.Replace(s.config)
		return s.keep(ctx, serve)
	}
	ln, err := net.Listen("tcp", s.config.Admin)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	s.Report("admin address " + ln.Addr().String())
	operator := proxy.Operator{
		Snapshot: serving.Snapshot, Traces: serving.Traces, Reload: reload, Beyond: s.config.AdminBeyond(),
		Credential: func() string { return current.Load().Security.Credential },
	}
	publisher := publish.Publisher{Config: current.Load, Reload: reload}
	sideload := roadsign.API{Operator: &operator, Config: current.Load, Supervisor: supervisor, Publisher: &publisher, Began: time.Now()}
	server := operator.Server(func(mux *http.ServeMux) {
		supervisor.Handle(mux, operator.Guard)
		publisher.Handle(mux, operator.Guard)
		sideload.Handle(mux)
	})
	supervisor.Replace(s.config)
	go func() { _ = server.Serve(ln) }() // it ends with Close
	return errors.Join(s.keep(ctx, serve), server.Close())
}

// again returns what another signal to end closes while the proxy is ending: who sends it does not want to
// wait. A prefork child, to which its parent may pass the first one on too, waits for an interrupt.
func again(ctx context.Context) (now <-chan struct{}, stop func()) {
	if prefork.IsChild() {
		told, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		return told.Done(), stop
	}
	over, end := context.WithCancel(context.Background())
	context.AfterFunc(ctx, func() {
		second, stop := signal.NotifyContext(over, os.Interrupt, syscall.SIGTERM)
		defer stop()
		<-second.Done()
		end()
	})
	return over.Done(), end
}

// keep runs serve, and the Keeper as long as anything serves.
func (s *Service) keep(ctx context.Context, serve func(context.Context) error) error {
	if s.certs == nil {
		return serve(ctx)
	}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan error, 1)
	go func() { kept <- s.certs.Run(inner) }()
	err := serve(ctx)
	cancel()
	return errors.Join(err, <-kept)
}

// on calls do at each signal and reports the result, until ctx ends or stop is called.
func on(ctx context.Context, sig os.Signal, do func() error, report func(string), done, failed string) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, sig)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			if err := do(); err != nil {
				report(failed + ": " + strings.ReplaceAll(err.Error(), "\n", "; "))
				continue
			}
			report(done)
		}
	}()
	return func() { signal.Stop(signals) }
}
