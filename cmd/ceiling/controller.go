package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/measure/fleet/bus"
	"ceiling/record"
)

// Files in a controller's directory for an external NATS: the sealing key for commands, and the
// connection settings.
const (
	ownKey = "own.key"
	ownWay = "own.json"
)

// ownSamples limits the stream of samples in an external NATS.
const ownSamples = 1 << 30

// ownFlags say how to reach an external NATS.
type ownFlags struct{ bus.Own }

func (o *ownFlags) bind(f flagSet) {
	f.StringVar(&o.URL, "nats", "", "your own NATS server, instead of ceiling fleet controller")
	f.StringVar(&o.Creds, "creds", "", "its credentials file")
	f.StringVar(&o.CA, "ca", "", "CA of its certificates, PEM (default: the system's)")
}

func (o *ownFlags) check() error {
	if o.URL == "" && (o.Creds != "" || o.CA != "") {
		return errors.New("--creds and --ca are for your own NATS; give --nats URL as well")
	}
	return nil
}

// controllerDir is the directory of a controller's state: next to the runs.
func controllerDir(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	store, err := record.DefaultStore(os.Getenv)
	if err != nil {
		return "", fmt.Errorf("%w: --controller DIR", err)
	}
	return filepath.Join(filepath.Dir(store.Dir), "controller"), nil
}

func newController(sh *shell) *cobra.Command {
	var o bus.ServerOptions
	var own ownFlags
	var showToken bool
	c := &cobra.Command{
		Use:   "controller",
		Short: "Coordinate several machines: agents join it, runs use it",
		Long: `Serves NATS, over TLS with its own CA, for the agents of one test bed. Prints the
command to start them with, and the path of the token file they need. Its state
is stored with the runs, so a restart changes nothing. With --nats it prepares
your own NATS server, prints the command, and exits.`,
		Example: `  ceiling fleet controller                           every address, a free port
  ceiling fleet controller --listen 10.0.0.1:7422    one address
  ceiling fleet tokens                         tokens that agents may join with`,
		Args: command.Exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := own.check(); err != nil {
				return command.Usage(err)
			}
			var err error
			if o.State, err = controllerDir(o.State); err != nil {
				return command.Usage(err)
			}
			if own.URL != "" {
				return prepareOwn(sh, c.Context(), own.Own, o.State, o.Bed, showToken)
			}
			return sh.control(c.Context(), o, showToken)
		},
	}
	p := c.Flags()
	p.SortFlags = false
	p.StringVar(&o.Listen, "listen", "", "address; without a port, one is chosen once and reused")
	p.StringVar(&o.Advertise, "advertise", "", "host, or host:port, that agents connect to")
	p.StringVar(&o.Bed, "bed", "", "name of the test bed (lab)")
	p.StringVar(&o.State, "state", "", "controller state directory (default: with the runs)")
	p.BoolVar(&showToken, "show-token", false, "also print the token, before the command, as "+tokenEnv)
	own.bind(p)
	return c
}

// control serves until it is stopped.
func (sh *shell) control(ctx context.Context, o bus.ServerOptions, showToken bool) error {
	o.Log = sh.Stderr
	s, err := bus.Serve(o)
	if err != nil {
		return err
	}
	pass := s.Pass()
	fmt.Fprintf(sh.Stderr, "test bed %s at %s; token %s is valid until %s, in %s\n", s.Bed(), s.URL(), pass.ID(), localTime(pass.Expires),
		filepath.Join(o.State, bus.TokenFile))
	joinLine(sh, s.JoinLine(), s.Token(), showToken)
	<-ctx.Done()
	return s.Close()
}

// joinLine prints the command for other machines. The token is not among its arguments, where
// every user of a machine could read it.
func joinLine(sh *shell, line string, t bus.Token, showToken bool) {
	if showToken {
		fmt.Fprintln(sh.Stderr, "on every other machine:")
		fmt.Fprintf(sh.Stdout, "%s=%s %s\n", tokenEnv, t, strings.TrimSuffix(line, " --token-file "+bus.TokenFile))
		return
	}
	fmt.Fprintln(sh.Stderr, "copy that file to every other machine, and start there:")
	fmt.Fprintln(sh.Stdout, line)
}

// localTime formats a local time to the minute.
func localTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// prepareOwn creates what a test bed needs in an external NATS.
func prepareOwn(sh *shell, ctx context.Context, own bus.Own, dir, bed string, showToken bool) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(dir, ownKey)
	k, err := bus.LoadKey(file)
	if errors.Is(err, os.ErrNotExist) {
		k, err = bus.MakeKey(file, cmp.Or(bed, "lab"))
	}
	if err != nil {
		return err
	}
	if bed != "" && bed != k.Bed {
		return command.Usage(fmt.Errorf("--bed %s: %s is of test bed %s; give that, or another --state", bed, file, k.Bed))
	}
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	conn, err := bus.DriveOwn(ctx, own, k, bus.Watch{})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Furnish(ctx, ownSamples, bus.LeaseTTL); err != nil {
		return err
	}
	if err := keepOwn(dir, own); err != nil {
		return err
	}
	token := filepath.Join(dir, bus.TokenFile)
	if err := os.WriteFile(token, []byte(k.Token().String()+"\n"), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(sh.Stderr, "test bed %s is prepared; agents need credentials of your NATS, and the token in %s\n", k.Bed, token)
	joinLine(sh, "ceiling fleet agent --nats "+bus.WithoutLogin(own.URL)+" --creds FILE --token-file "+bus.TokenFile, k.Token(), showToken)
	return nil
}

// keepOwn saves the connection settings of an external NATS, for the verbs that use it.
func keepOwn(dir string, own bus.Own) error {
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
	return os.WriteFile(filepath.Join(dir, ownWay), append(b, '\n'), 0o600)
}

// drive connects to the controller of a directory, or to the external NATS prepared there.
func drive(ctx context.Context, dir string, w bus.Watch) (*bus.Conn, error) {
	b, err := os.ReadFile(filepath.Join(dir, ownWay))
	if errors.Is(err, os.ErrNotExist) {
		return bus.Drive(ctx, dir, w)
	}
	var own bus.Own
	if err == nil {
		err = json.Unmarshal(b, &own)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ownWay), err)
	}
	k, err := bus.LoadKey(filepath.Join(dir, ownKey))
	if err != nil {
		return nil, err
	}
	return bus.DriveOwn(ctx, own, k, w)
}
