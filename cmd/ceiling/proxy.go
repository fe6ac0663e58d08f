package main

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

	"github.com/spf13/cobra"

	"ceiling/proxy"
	"ceiling/proxy/apps"
	"ceiling/proxy/config"
	"ceiling/proxy/publish"
	"ceiling/proxy/secure"
)

// proxyFlags stand above the file.
type proxyFlags struct {
	listen  []string
	admin   string
	workers int
	engine  string
	log     string
	prefork bool
}

func newProxy(sh *shell) *cobra.Command {
	var f proxyFlags
	c := &cobra.Command{
		Use:   "proxy FILE",
		Short: "Run the reverse proxy and site host",
		Long: `Serves what a TOML file says: regions of locations with their destinations,
as RoadSign has them; docs/proxy-config.md lists every key. Instead of a file a
URI is enough, which then takes every request.

SIGHUP reads the file again, and goes on with it if nothing is wrong with it.
SIGUSR1 reopens the access log, for log rotation.
SIGTERM stops accepting, and ends when what was begun is answered.`,
		Example: `  ceiling proxy site.toml
  ceiling proxy --listen :8080 http://127.0.0.1:3000
  ceiling proxy --listen :8080 'files://public?fallback=index.html'
  ceiling proxy check site.toml`,
		Args: exactly(1, "one FILE or URI"),
		RunE: func(c *cobra.Command, args []string) error { return runProxy(c, sh, &f, args[0]) },
	}
	c.Flags().StringSliceVar(&f.listen, "listen", nil, "addresses, instead of the file's; port 0 chooses one")
	c.Flags().StringVar(&f.admin, "admin", "", "address of /metrics, /status and /reload, instead of the file's")
	c.Flags().IntVar(&f.workers, "workers", 0, "loops, instead of the file's number; 0: one per CPU")
	c.Flags().StringVar(&f.engine, "engine", "auto", "auto, uring or epoll")
	c.Flags().StringVar(&f.log, "access-log", "", `file, "-" or "off", instead of the file's`)
	c.Flags().BoolVar(&f.prefork, "prefork", false, "one process for each loop")
	c.AddCommand(newProxyCheck(sh))
	return c
}

func newProxyCheck(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say what is wrong with a proxy's file, by line",
		Long: `Reads the file and what it includes, and looks at what a start would need:
certificates with their keys, directories, the place of the log. Nothing is changed,
no address is taken and no name looked up.`,
		Args: exactly(1, "one FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := config.Check(args[0])
			if err != nil {
				return proxyErrors(sh, err)
			}
			locations, destinations := 0, 0
			for _, r := range c.Regions {
				locations += len(r.Locations)
				for _, l := range r.Locations {
					destinations += len(l.Destinations)
				}
			}
			fmt.Fprintf(sh.stdout, "%s is in order: %d regions, %d locations, %d destinations\n", args[0], len(c.Regions), locations, destinations)
			return nil
		},
	}
}

// proxyErrors prints all but the last of a file's errors; the last is the
// command's.
func proxyErrors(sh *shell, err error) error {
	var list config.Errors
	if !errors.As(err, &list) || len(list) == 0 {
		return usage(err)
	}
	for _, one := range list[:len(list)-1] {
		fmt.Fprintln(sh.stderr, "ceiling: "+one.Error())
	}
	return usage(list[len(list)-1])
}

// load reads the file, or makes a configuration of a URI, and puts the flags above
// it.
func (f *proxyFlags) load(name string) (c *config.Config, err error) {
	if _, uriErr := config.ParseURI(name); uriErr == nil && (strings.Contains(name, "://") || strings.HasPrefix(name, "unix:")) {
		c, err = config.Parse("command line", fmt.Appendf(nil, "[[locations]]\n[[locations.destinations]]\nuri = %q\n", name))
	} else {
		c, err = config.Read(name)
	}
	if err != nil {
		return nil, err
	}
	if len(f.listen) > 0 {
		c.Listen = f.listen
	}
	for _, a := range append(c.Listen[:len(c.Listen):len(c.Listen)], orNothing(f.admin)...) {
		if err := config.CheckAddress(a); err != nil {
			return nil, err
		}
	}
	if f.admin != "" {
		c.Admin = f.admin
		if err := c.CheckAdmin(); err != nil {
			return nil, err
		}
	}
	if f.workers > 0 {
		c.Workers = f.workers
	}
	if f.log != "" {
		c.Log.Access = f.log
	}
	return c, nil
}

func orNothing(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

func runProxy(c *cobra.Command, sh *shell, f *proxyFlags, name string) error {
	switch {
	case f.workers < 0:
		return usage(fmt.Errorf("--workers %d; 0 is one per CPU", f.workers))
	case f.engine != "auto" && f.engine != "uring" && f.engine != "epoll":
		return usage(fmt.Errorf("--engine %s; auto, uring and epoll are known", f.engine))
	}
	cfg, err := f.load(name)
	if err != nil {
		return proxyErrors(sh, err)
	}
	report := func(line string) { fmt.Fprintln(sh.stderr, "ceiling: "+line) }
	o := proxy.Options{Engine: f.engine, Report: report}
	load := func() (*config.Config, error) { return f.load(name) }
	if !proxy.IsPreforkChild() { // its parent has said so
		for _, one := range cfg.Unserved {
			report(one.Error())
		}
	}
	switch {
	case proxy.IsPreforkChild():
		return proxy.RunChild(c.Context(), load, func(cfg *config.Config, inherited []net.Listener) (proxy.Beside, error) {
			return secure.New(cfg, report, inherited...)
		}, o)
	case f.prefork || cfg.Performance.Prefork:
		return runPrefork(c.Context(), sh, cfg, load, report)
	}
	return runWorkers(c.Context(), sh, cfg, load, o)
}

// runPrefork serves with a process for each loop.
func runPrefork(ctx context.Context, sh *shell, cfg *config.Config, load func() (*config.Config, error), report func(string)) error {
	parent, err := proxy.NewPrefork(cfg, report)
	if err != nil {
		return err
	}
	keeper, err := secure.NewKeeper(cfg, report)
	if err != nil {
		return err
	}
	parent.Environment = keeper.Environment()
	reload := func() (*config.Config, error) {
		cfg, err := load()
		if err != nil { // said once, not by every child
			return nil, err
		}
		if err := parent.Reload(); err != nil {
			return nil, err
		}
		keeper.Reload(cfg)
		return cfg, nil
	}
	return operate(ctx, sh, cfg, parent, reload, func(ctx context.Context) error {
		inner, cancel := context.WithCancel(context.WithoutCancel(ctx)) // challenges are answered as long as somebody serves
		kept := make(chan error, 1)
		go func() { kept <- keeper.Run(inner) }()
		err := parent.Run(ctx, func() { announce(sh, parent.Addresses, parent.Secure) })
		cancel()
		return errors.Join(err, <-kept)
	})
}

// runWorkers serves with all loops in this process, and TLS beside them.
func runWorkers(ctx context.Context, sh *shell, cfg *config.Config, load func() (*config.Config, error), o proxy.Options) error {
	var secured []string
	if len(cfg.TLS.Listen) > 0 {
		s, err := secure.New(cfg, o.Report)
		if err != nil {
			return err
		}
		s.Prepare(cfg)
		o.Beside, secured = s, s.Addresses()
	}
	p, err := proxy.New(cfg, o)
	if err != nil {
		return err
	}
	reload := func() (*config.Config, error) {
		cfg, err := load()
		if err != nil {
			return nil, err
		}
		return cfg, p.ReloadAll(cfg)
	}
	var addresses []string
	for _, a := range p.Addresses() {
		addresses = append(addresses, a.String())
	}
	return operate(ctx, sh, cfg, p, reload, func(ctx context.Context) error {
		announce(sh, addresses, secured)
		return p.RunAll(ctx)
	})
}

func announce(sh *shell, addresses, secured []string) {
	for _, a := range addresses {
		fmt.Fprintf(sh.stdout, "proxy serves on %s\n", a)
	}
	for _, a := range secured {
		fmt.Fprintf(sh.stdout, "proxy serves TLS on %s\n", a)
	}
}

// observed is what serves: the proxy of this process, or the parent of several.
type observed interface {
	Snapshot() (*proxy.Snapshot, error)
	Traces() ([]proxy.Trace, error)
	ReopenLog() error
}

// operate runs serve with what there is once, however many processes serve: the
// applications, the admin address, and what SIGHUP and SIGUSR1 ask for.
func operate(ctx context.Context, sh *shell, cfg *config.Config, serving observed, read func() (*config.Config, error), serve func(context.Context) error) error {
	report := func(line string) { fmt.Fprintln(sh.stderr, "ceiling: "+line) }
	var current atomic.Pointer[config.Config]
	current.Store(cfg)
	supervisor := apps.New(report, sh.stderr)
	defer supervisor.Close() // when the requests for them are answered
	var one sync.Mutex
	reload := func() error {
		one.Lock()
		defer one.Unlock()
		next, err := read()
		if err != nil {
			return err
		}
		current.Store(next)
		supervisor.Replace(next)
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer on(ctx, syscall.SIGHUP, reload, report, "reloaded", "the old configuration stays")()
	defer on(ctx, syscall.SIGUSR1, serving.ReopenLog, report, "log reopened", "the old log file stays")()
	if cfg.Admin == "" {
		supervisor.Replace(cfg)
		return serve(ctx)
	}
	ln, err := net.Listen("tcp", cfg.Admin)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	report("admin address " + ln.Addr().String())
	operator := proxy.Operator{
		Snapshot: serving.Snapshot, Traces: serving.Traces, Reload: reload, Beyond: cfg.AdminBeyond(),
		Credential: func() string { return current.Load().Security.Credential },
	}
	publisher := publish.Publisher{Config: current.Load, Reload: reload}
	server := operator.Server(func(mux *http.ServeMux) {
		supervisor.Handle(mux, operator.Guard)
		publisher.Handle(mux, operator.Guard)
	})
	supervisor.Replace(cfg)
	go func() { _ = server.Serve(ln) }() // it ends with Close
	return errors.Join(serve(ctx), server.Close())
}

// on does something at each signal, and reports what has become of it, until ctx
// ends or stop is called.
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
				report(failed + ": " + oneLine(err))
				continue
			}
			report(done)
		}
	}()
	return func() { signal.Stop(signals) }
}
