// Package controlling is the program ceiling-controller.
package controlling

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/testbed"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/controller"
)

// Main runs the program and returns its exit code. "ceiling fleet controller" hands over to it.
func Main() int {
	sh := &command.Shell{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	ctx, stop := signal.NotifyContext(context.Background(), command.Signals()...)
	defer stop()
	return sh.Execute(ctx, New(sh), os.Args[1:], nil)
}

// New returns its one verb.
func New(sh *command.Shell) *cobra.Command {
	var o controller.Options
	var own testbed.OwnFlags
	var showToken bool
	c := &cobra.Command{
		Use:   "ceiling-controller",
		Short: "Coordinate several machines: agents join it, runs use it",
		Long: `Serves NATS, over TLS with its own certificate, for the agents of one test bed. Prints the
command to start them with, and the path of the token file they need. Its state
is stored with the runs, so a restart changes nothing. With --nats it prepares
your own NATS server, prints the command, and exits.`,
		Example: `  ceiling fleet controller                           every address, a free port
  ceiling fleet controller --listen 10.0.0.1:7422    one address
  ceiling fleet tokens                               tokens that agents may join with`,
		Args: command.Exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := own.Check(); err != nil {
				return command.Usage(err)
			}
			var err error
			if o.State, err = testbed.Dir(o.State); err != nil {
				return err
			}
			if own.URL != "" {
				own.Bed = cmp.Or(o.Bed, bus.DefaultBed)
				return prepareExternal(sh, c.Context(), own.Access, o.State)
			}
			return control(c.Context(), sh, o, showToken)
		},
	}
	p := c.Flags()
	p.SortFlags = false
	p.StringVar(&o.Listen, "listen", "", "address; without a port, one is chosen once and reused")
	p.StringVar(&o.Advertise, "advertise", "", "host, or host:port, that agents connect to")
	p.StringVar(&o.Bed, "bed", "", "name of the test bed (lab)")
	p.StringVar(&o.State, "state", "", "controller state directory (default: with the runs)")
	p.BoolVar(&showToken, "show-token", false, "also print the token, before the command, as "+testbed.TokenEnv)
	own.Bind(p)
	return c
}

// control serves until it is stopped.
func control(ctx context.Context, sh *command.Shell, o controller.Options, showToken bool) error {
	o.Log = sh.Stderr
	s, err := controller.Serve(o)
	if err != nil {
		return err
	}
	token := s.Token()
	fmt.Fprintf(sh.Stderr, "test bed %s at %s; token %s is valid until %s, in %s\n", s.Bed(), s.URL(), token.ID(), testbed.LocalTime(token.Expires),
		filepath.Join(o.State, bus.TokenFile))
	joinLine(sh, s, showToken)
	<-ctx.Done()
	return s.Close()
}

// joinLine prints the command for other machines. The token is not among its arguments, where
// every user of a machine could read it.
func joinLine(sh *command.Shell, s *controller.Server, showToken bool) {
	line := "ceiling fleet agent --join " + s.URL()
	if showToken {
		fmt.Fprintln(sh.Stderr, "on every other machine:")
		fmt.Fprintf(sh.Stdout, "%s=%s %s\n", testbed.TokenEnv, s.Token(), line)
		return
	}
	fmt.Fprintln(sh.Stderr, "copy that file to every other machine, and start there:")
	fmt.Fprintln(sh.Stdout, line+" --token-file "+bus.TokenFile)
}

// prepareExternal creates what a test bed needs in an external NATS.
func prepareExternal(sh *command.Shell, ctx context.Context, own bus.Access, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, testbed.JoinWithin)
	defer cancel()
	conn, err := bus.Drive(ctx, own, bus.Watch{})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Furnish(ctx, bus.LeaseTTL); err != nil {
		return err
	}
	if err := keepOwn(dir, own); err != nil {
		return err
	}
	fmt.Fprintf(sh.Stderr, "test bed %s is prepared; agents need credentials of your NATS:\n", own.Bed)
	line := "ceiling fleet agent --nats " + bus.WithoutLogin(own.URL) + " --creds FILE"
	if own.Bed != bus.DefaultBed {
		line += " --bed " + own.Bed
	}
	fmt.Fprintln(sh.Stdout, line)
	return nil
}

// keepOwn saves the connection settings of an external NATS, for the verbs that use it.
func keepOwn(dir string, own bus.Access) error {
	for _, file := range []*string{&own.Creds, &own.CA} {
		if *file == "" {
			continue
		}
		var err error
		if *file, err = filepath.Abs(*file); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(own, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, testbed.ExternalConfig), append(b, '\n'), 0o600)
}
