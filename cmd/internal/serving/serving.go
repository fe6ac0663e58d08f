// Package serving is the verb that runs one of the servers to measure.
package serving

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ceiling/cmd/internal/command"
	"ceiling/internal/authority"
	"ceiling/server"
)

// Behind is what a program can put behind a server; the zero value is nothing.
type Behind struct {
	// About are lines of the help text; Flags registers the flags.
	About string
	Flags func(f *pflag.FlagSet)
	// Complete checks what the flags say, and puts it behind the server.
	Complete func(f *pflag.FlagSet, cfg *server.Config, kind server.Kind) error
}

// New returns the verb.
func New(sh *command.Shell, behind Behind) *cobra.Command {
	cfg := server.Config{Addr: "127.0.0.1:8080"}
	var secure serveTLS
	var names []string
	for _, k := range server.Catalogue() {
		names = append(names, k.Name)
	}
	c := &cobra.Command{
		Use:       "serve KIND",
		Short:     "Run one of the servers to measure: " + strings.Join(names, ", "),
		Long:      serveLong(&behind),
		Example:   "  ceiling serve fiber --prefork --workers 4 --addr 127.0.0.1:8080",
		Args:      command.Exactly(1, "one KIND ("+strings.Join(names, ", ")+")"),
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			kind, err := server.Lookup(args[0])
			if err != nil {
				return command.Usage(err)
			}
			if err := serveAlone(c, &secure); err != nil {
				return command.Usage(err)
			}
			if err := secure.goesWith(&cfg, kind); err != nil {
				return command.Usage(err)
			}
			if behind.Complete != nil {
				if err := behind.Complete(c.Flags(), &cfg, kind); err != nil {
					return command.Usage(err)
				}
			}
			cfg.Announce = func(about string) { fmt.Fprintln(sh.Stdout, about) }
			cfg.Ready = func(addr string) {
				fmt.Fprintf(sh.Stdout, "%s serves on %s\n", kind.Name, addr)
			}
			if secure.on && !server.IsPreforkChild() {
				remove, err := secure.prepare(sh, kind, &cfg)
				if err != nil {
					return err
				}
				defer remove()
			}
			cfg.PprofReady = func(addr string) {
				fmt.Fprintf(sh.Stdout, "profiles at http://%s/debug/pprof/\n", addr)
			}
			return server.Serve(c.Context(), kind.Name, cfg)
		},
	}
	if behind.Flags != nil {
		behind.Flags(c.Flags())
	}
	c.Flags().IntVar(&cfg.ListKB, "list-kb", 0, "mean size of a /list response, e.g. 48 or 350 (default 111)")
	c.Flags().StringVar(&cfg.Addr, "addr", cfg.Addr, "address; port 0 = any, unix:/path a socket")
	c.Flags().StringVar(&cfg.Pprof, "pprof", "", "serve pprof profiles of all processes at host:port")
	c.Flags().BoolVar(&cfg.Prefork, "prefork", false, "one process per core (ceiling's prefork, alike for all kinds)")
	c.Flags().BoolVar(&secure.on, "tls", false, "serve https, with a certificate of a temporary CA")
	c.Flags().StringVar(&secure.ca, "ca", "", "write the CA certificate here, for --cacert (default: a temporary file)")
	c.Flags().IntVar(&cfg.Workers, "workers", 0, "prefork children, or GOMAXPROCS (0 = one per CPU)")
	return c
}

// serveAlone refuses flags of what is not served.
func serveAlone(c *cobra.Command, secure *serveTLS) error {
	if c.Flags().Changed("ca") && !secure.on {
		return errors.New("--ca: it is the authority of --tls; give that as well, or remove it")
	}
	return nil
}

// serveTLS is the TLS flags of serve.
type serveTLS struct {
	on bool
	ca string
}

// goesWith rejects what a kind of server does not support, and incompatible flags.
func (t *serveTLS) goesWith(cfg *server.Config, kind server.Kind) error {
	switch kb := cfg.ListKB; {
	case cfg.Prefork && !kind.Prefork:
		return fmt.Errorf("%s has no prefork mode; remove --prefork", kind.Name)
	case kb != 0 && (kb < server.MinListKB || kb > server.MaxListKB):
		return fmt.Errorf("--list-kb %d: give %d to %d; without it, lists have 111 KB", kb, server.MinListKB, server.MaxListKB)
	case cfg.Pprof != "" && kind.Forks:
		return fmt.Errorf("--pprof: %s has no profiles; take fiber --prefork, or remove --pprof", kind.Name)
	case t.on && kind.Plain:
		return fmt.Errorf("--tls: %s has none; remove --tls, or take nethttp, fasthttp or fiber", kind.Name)
	}
	return nil
}

// prepare creates a certificate authority and a certificate that live as long as the server, and
// makes the server print the path of the authority's certificate. The returned function removes
// that file unless the user chose its name.
func (t *serveTLS) prepare(sh *command.Shell, kind server.Kind, cfg *server.Config) (remove func(), err error) {
	ca, pair, err := authority.Site("ceiling serve, thrown away when it ends", authority.Leaf{Names: ownNames(cfg.Addr)})
	if err != nil {
		return nil, err
	}
	path, remove := t.ca, func() {}
	if path == "" {
		f, err := os.CreateTemp("", "ceiling-ca-*.pem")
		if err == nil {
			path, err = f.Name(), f.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("the authority's certificate: %w", err)
		}
		remove = func() { _ = os.Remove(path) } // a temporary file
	}
	if err := os.WriteFile(path, ca.PEM(), 0o644); err != nil {
		remove()
		return nil, fmt.Errorf("the authority's certificate: %w", err)
	}
	protocols := []string{"http/1.1"}
	if kind.HTTP2 {
		protocols = []string{"h2", "http/1.1"}
	}
	cfg.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: protocols}
	cfg.Ready = func(addr string) {
		fmt.Fprintf(sh.Stdout, "%s serves on https://%s\n", kind.Name, addr)
		fmt.Fprintf(sh.Stdout, "trust it with --cacert %s\n", path)
	}
	return remove, nil
}

// ownNames returns the names of a server on this host.
func ownNames(addr string) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	if host, _, err := net.SplitHostPort(addr); err == nil && host != "" && !slices.Contains(names, host) {
		names = append(names, host)
	}
	return names
}

func serveLong(behind *Behind) string {
	var b strings.Builder
	b.WriteString("Serves the same routes with the same bytes, whatever the kind.\n\nKinds:\n")
	for _, k := range server.Catalogue() {
		fmt.Fprintf(&b, "  %-14s %s\n", k.Name, k.About)
	}
	b.WriteString("\nRoutes of all kinds:\n")
	for _, r := range server.Routes() {
		fmt.Fprintf(&b, "  %-10s %s\n", r.Path, r.About)
	}
	b.WriteString("nethttp, fasthttp and fiber answer each message of a WebSocket with itself at /ws.\n")
	b.WriteString(behind.About)
	return strings.TrimRight(b.String(), "\n")
}
