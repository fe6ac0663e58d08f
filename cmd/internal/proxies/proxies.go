// Package proxies is the program ceiling-proxy: the reverse proxy and the check of its configuration.
package proxies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/internal/unit"
	"ceiling/proxy/config"
	"ceiling/proxy/files"
	"ceiling/proxy/service"
)

// Main runs the program and returns its exit code.
func Main() int {
	// SIGHUP is not among them: the proxy reads its file again.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sh := &command.Shell{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	return sh.Execute(ctx, New(sh), withVerb(os.Args[1:]), nil)
}

// withVerb adds the verb to a command line that begins with a file or a URI.
func withVerb(args []string) []string {
	if len(args) == 0 || !strings.ContainsAny(args[0], "./:") {
		return args
	}
	return append([]string{"proxy"}, args...)
}

// New returns the program's verbs.
func New(sh *command.Shell) *cobra.Command {
	root := &cobra.Command{
		Use:   "ceiling-proxy",
		Short: "A reverse proxy and static file server",
		Long: `The reverse proxy of ceiling. "ceiling proxy" runs it where it is in its
directory; its race against other proxies is a verb of ceiling-lab.
ceiling-proxy FILE is short for ceiling-proxy proxy FILE.`,
		Example: `  ceiling-proxy check site.toml
  ceiling-proxy site.toml
  ceiling-proxy race --only nginx,ceiling`,
	}
	root.AddCommand(newProxy(sh), newProxyCheck(sh), sh.Hand("ceiling-lab", "race", "Race the proxy against nginx and other installed proxies"))
	return root
}

func newProxy(sh *command.Shell) *cobra.Command {
	var s service.Settings
	c := &cobra.Command{
		Use:   "proxy FILE",
		Short: "Run the reverse proxy and static file server",
		Long: `Serves a TOML configuration (RoadSign's format; proxy/CONFIG.md lists every key).
Given a URI instead of a file, forwards every request to it.

SIGHUP reloads the file; an invalid file changes nothing.
SIGUSR1 reopens the access log, for log rotation.
SIGTERM drains: stops accepting, finishes requests in progress, exits. Another one,
or an interrupt, ends at once.`,
		Example: `  ceiling proxy site.toml
  ceiling proxy --listen :8080 http://127.0.0.1:3000
  ceiling proxy --listen :8080 'files://public?fallback=index.html'
  ceiling proxy check site.toml`,
		Args: command.Exactly(1, "one FILE or URI"),
		RunE: func(c *cobra.Command, args []string) error { return runProxy(c, sh, s, args[0]) },
	}
	c.Flags().StringSliceVar(&s.Listen, "listen", nil, "addresses, instead of the file's; port 0 = any")
	c.Flags().StringVar(&s.Admin, "admin", "", "address of /metrics, /status and /reload, instead of the file's")
	c.Flags().IntVar(&s.Workers, "workers", 0, "loops, instead of the file's number; 0: one per CPU")
	c.Flags().StringVar(&s.Engine, "engine", "auto", "auto, uring or epoll")
	c.Flags().StringVar(&s.Log, "access-log", "", `file, "-" or "off", instead of the file's`)
	c.Flags().BoolVar(&s.Prefork, "prefork", false, "one process per worker")
	c.AddCommand(newProxyCheck(sh))
	return c
}

func newProxyCheck(sh *command.Shell) *cobra.Command {
	precompress := false
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file",
		Long: `Checks a configuration file and what it includes, line by line, and also
certificates, keys, directories, names and log paths. Warnings are about what the
proxy starts without, and requests then miss. Changes nothing and binds nothing, but
with --precompress writes the .br, .zst and .gz siblings of the files that are served.`,
		Example: "  ceiling proxy check site.toml",
		Args:    command.Exactly(1, "one FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := config.Check(args[0])
			var warnings []string
			if c != nil {
				warnings = service.Warnings(c)
			}
			for _, line := range warnings {
				fmt.Fprintln(sh.Stderr, "ceiling: "+line+" (warning)")
			}
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
			verdict := "OK"
			if len(warnings) > 0 {
				verdict = "can be served, with warnings"
			}
			fmt.Fprintf(sh.Stdout, "%s: %s (%s, %s, %s)\n", args[0], verdict, unit.Plural(len(c.Regions), "region", "regions"),
				unit.Plural(locations, "location", "locations"), unit.Plural(destinations, "destination", "destinations"))
			if !precompress {
				return nil
			}
			return precompressAll(sh, c)
		},
	}
	c.Flags().BoolVar(&precompress, "precompress", false, "write compressed siblings of served files, as small as possible")
	return c
}

// precompressAll writes the siblings of all served directories.
func precompressAll(sh *command.Shell, c *config.Config) error {
	seen := map[string]bool{}
	for _, r := range c.Regions {
		for _, l := range r.Locations {
			for _, d := range l.Destinations {
				target, err := config.ParseURI(d.URI)
				if err != nil || target.Scheme != config.Files || seen[target.Address] {
					continue
				}
				seen[target.Address] = true
				done, err := files.Precompress(target.Address)
				if err != nil {
					return err
				}
				fmt.Fprintf(sh.Stdout, "%s: %s written, %s for %s\n", target.Address, unit.Plural(done.Files, "file", "files"),
					unit.FormatBytesIEC(done.After), unit.FormatBytesIEC(done.Before))
			}
		}
	}
	if len(seen) == 0 {
		return command.Usage(errors.New("--precompress: the file serves no directory (files://)"))
	}
	return nil
}

// proxyErrors prints all but the last of a file's errors; the last is the
// command's.
func proxyErrors(sh *command.Shell, err error) error {
	var list config.Errors
	if !errors.As(err, &list) || len(list) == 0 {
		return command.Usage(err)
	}
	for _, one := range list[:len(list)-1] {
		fmt.Fprintln(sh.Stderr, "ceiling: "+one.Error())
	}
	return command.Usage(list[len(list)-1])
}

func runProxy(c *cobra.Command, sh *command.Shell, settings service.Settings, name string) error {
	if err := settings.Check(); err != nil {
		return command.Usage(err)
	}
	s, err := service.Open(settings, name)
	if err != nil {
		return proxyErrors(sh, err)
	}
	s.Announce = func(line string) { fmt.Fprintln(sh.Stdout, line) }
	s.Report = func(line string) { fmt.Fprintln(sh.Stderr, "ceiling: "+line) }
	s.Output = sh.Stderr
	return s.Run(c.Context())
}
