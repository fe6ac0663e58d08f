// Package service runs the proxy as a complete program: its configuration with overriding
// settings, one process or several, TLS, applications, releases, the admin address, and signal
// handling.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"ceiling/proxy"
	"ceiling/proxy/config"
	"ceiling/proxy/prefork"
	"ceiling/proxy/secure"
)

// Settings override those of the file; empty or 0 keeps the file's.
type Settings struct {
	Listen  []string // addresses; port 0 chooses one
	Admin   string   // address of /metrics, /status and /reload
	Workers int      // loops
	Engine  string   // auto, uring or epoll; not in the file
	Log     string   // access log: a file, "-" or "off"
	Prefork bool     // one process per loop
}

// Check rejects settings that no file could fix.
func (s *Settings) Check() error {
	switch {
	case s.Workers < 0:
		return fmt.Errorf("invalid --workers %d (0 = one per CPU)", s.Workers)
	case !slices.Contains([]string{"auto", "uring", "epoll"}, s.Engine):
		return fmt.Errorf("invalid --engine %s (use auto, uring or epoll)", s.Engine)
	}
	return nil
}

// Read reads a file, or builds a configuration from a URI, and applies the settings. Its error
// may be config.Errors, with one entry per mistake.
func (s *Settings) Read(name string) (c *config.Config, err error) {
	if _, uriErr := config.ParseURI(name); uriErr == nil && (strings.Contains(name, "://") || strings.HasPrefix(name, "unix:")) {
		c, err = config.Parse("command line", fmt.Appendf(nil, "[[locations]]\n[[locations.destinations]]\nuri = %q\n", name))
	} else {
		c, err = config.Read(name)
	}
	if err != nil {
		return nil, err
	}
	if len(s.Listen) > 0 {
		c.Listen = s.Listen
	}
	for _, a := range c.Listen {
		if err := config.CheckListener(a); err != nil {
			return nil, err
		}
	}
	if s.Admin != "" {
		if err := config.CheckAddress(s.Admin); err != nil {
			return nil, err
		}
		c.Admin = s.Admin
		if err := c.CheckAdmin(); err != nil {
			return nil, err
		}
	}
	if s.Workers > 0 {
		c.Workers = s.Workers
	}
	if s.Log != "" {
		c.Log.Access = s.Log
	}
	return c, nil
}

// Service is a proxy ready to run.
type Service struct {
	settings Settings
	name     string
	config   *config.Config
	certs    *secure.CertManager // nil without ACME
	// Announce receives one line per address once it is served.
	Announce func(line string)
	// Report receives what an operator should know.
	Report func(line string)
	// Output receives what applications print.
	Output io.Writer
}

// Open reads the configuration that name refers to.
func Open(s Settings, name string) (*Service, error) {
	c, err := s.Read(name)
	if err != nil {
		return nil, err
	}
	return &Service{settings: s, name: name, config: c}, nil
}

// read rereads the configuration.
func (s *Service) read() (*config.Config, error) { return s.settings.Read(s.name) }

// Run serves until ctx ends and the requests in progress are answered, or another signal to end comes.
func (s *Service) Run(ctx context.Context) (err error) {
	o := proxy.Options{Engine: s.settings.Engine, Report: s.Report}
	now, stop := again(ctx)
	defer stop()
	if prefork.IsChild() {
		return prefork.Run(ctx, now, s.read, o)
	}
	s.warn(s.config) // for its children, too
	if a := s.config.TLS.ACME; a != nil {
		if s.certs, err = secure.NewKeeper(a, s.Report); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.certs.Close()) }()
		o.Challenges = s.certs.Socket()
	}
	if s.settings.Prefork || s.config.Performance.Prefork {
		return s.prefork(ctx, now, o.Challenges)
	}
	return s.workers(ctx, now, o)
}

// Warnings are what is no mistake, but probably not meant, by line.
func Warnings(c *config.Config) (list []string) {
	for _, one := range slices.Concat(c.Notes.Unserved, c.Notes.Warnings) {
		list = append(list, one.Error())
	}
	return append(list, proxy.Hidden(c)...)
}

func (s *Service) warn(c *config.Config) {
	for _, line := range Warnings(c) {
		s.Report(line)
	}
}

// prefork serves with one process per loop.
func (s *Service) prefork(ctx context.Context, now <-chan struct{}, challenges string) error {
	parent, err := prefork.New(s.config, s.Report)
	if err != nil {
		return err
	}
	parent.Challenges = challenges
	reload := func() (*config.Config, error) {
		c, err := s.read()
		if err != nil { // reported once, not by every child
			return nil, err
		}
		return c, parent.Reload()
	}
	return s.operate(ctx, now, parent, reload, func(ctx context.Context) error {
		return parent.Run(ctx, now, func() { s.announce(parent.Addresses, parent.Secure) })
	})
}

// workers serves with all loops in this process.
func (s *Service) workers(ctx context.Context, now <-chan struct{}, o proxy.Options) error {
	p, err := proxy.New(s.config, o)
	if err != nil {
		return err
	}
	reload := func() (*config.Config, error) {
		c, err := s.read()
		if err != nil {
			return nil, err
		}
		return c, p.Reload(c)
	}
	var addresses, secured []string
	for _, a := range p.Addresses() {
		addresses = append(addresses, a.String())
	}
	for _, a := range p.SecureAddresses() {
		secured = append(secured, a.String())
	}
	return s.operate(ctx, now, p, reload, func(ctx context.Context) error {
		s.announce(addresses, secured)
		return p.Run(ctx, now)
	})
}

func (s *Service) announce(addresses, secured []string) {
	for _, a := range addresses {
		s.Announce("proxy serves on " + a)
	}
	for _, a := range secured {
		s.Announce("proxy serves TLS on " + a)
	}
}
