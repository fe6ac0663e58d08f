package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/testbed"
	"ceiling/internal/unit"
	"ceiling/measure/fleet"
	"ceiling/measure/fleet/bus"
	"ceiling/record"
)

// tokenMost limits a token file; a token has about 200 characters.
const tokenMost = 4 << 10

// agentFlags are the flags of the verb agent, as typed.
type agentFlags struct {
	join, tokenFile, name             string
	allow                             []string
	maxRate, maxTime, maxConns, grace string
	loadOnly, observeOnly, serve      bool
	own                               testbed.OwnFlags
}

func newAgent(sh *shell) *cobra.Command {
	var f agentFlags
	c := &cobra.Command{
		Use:   "agent",
		Short: "Join a controller, to generate load and observe its host",
		Long: `Joins a controller, which prints the command to start the agent with, and then
serves its users: it loads only targets on its allow-list, within its limits,
and observes this machine. It executes no commands, does one run at a time, and
ends a run if the user who started it is gone. With --serve it starts
ceiling's own servers, as experiments ask for them, on the address from which it
reaches the controller, and ends them when their user is done or gone. The token
comes from a file, standard input or ` + testbed.TokenEnv + `. An agent with a wrong,
expired or revoked token ends with exit code 2.`,
		Example: `  ceiling fleet agent --join nats://10.0.0.1:7422 --token-file token --allow 10.0.0.7:8080
  ceiling fleet agent --join nats://10.0.0.1:7422 --token-file token --observe-only --serve --name web1`,
		Args: command.Exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := f.options()
			if err != nil {
				return command.Usage(err)
			}
			err = sh.serveAgent(c.Context(), &f, o)
			if errors.Is(err, bus.ErrTokenOver) {
				return command.Usage(err)
			}
			return err
		},
	}
	p := c.Flags()
	p.SortFlags = false
	p.StringVar(&f.join, "join", "", "address of the controller, nats://host:port")
	p.StringVar(&f.tokenFile, "token-file", "", "file with the controller's token; - is standard input")
	p.Var(tokenArgument{}, "token", "")
	p.Lookup("token").Hidden = true
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if errors.Is(err, errTokenArgument) { // without wrapping: the context contains the token
			return command.Usage(errTokenArgument)
		}
		return c.Root().FlagErrorFunc()(c, err)
	})
	p.StringVar(&f.name, "name", "", "name in the fleet (default: host name)")
	p.StringArrayVar(&f.allow, "allow", nil, "allowed target: 10.0.0.0/8, web:8080, unix:/run/x.sock; repeatable (loopback)")
	p.StringVar(&f.maxRate, "max-rate", "", "maximum requests/s (default: no limit)")
	p.StringVar(&f.maxTime, "max-time", "1h", "maximum duration of a run")
	p.StringVar(&f.maxConns, "max-connections", "", "maximum connections (default: no limit)")
	p.BoolVar(&f.loadOnly, "load-only", false, "generate load only, do not observe this host")
	p.BoolVar(&f.observeOnly, "observe-only", false, "observe only, generate no load")
	p.BoolVar(&f.serve, "serve", false, "start ceiling's own servers for experiments")
	p.StringVar(&f.grace, "grace", "10s", "time to continue without contact to the driver")
	f.own.Bind(p)
	p.StringVar(&f.own.Bed, "bed", bus.DefaultBed, "test bed on your NATS server")
	return c
}

// options validates the flags and returns the agent's options.
func (f *agentFlags) options() (fleet.AgentOptions, error) {
	o := fleet.AgentOptions{Allow: fleet.Loopback(),
		About: fleet.About{Version: command.Version(), Loads: !f.observeOnly, Observes: !f.loadOnly}}
	switch {
	case f.observeOnly && f.loadOnly:
		return o, errors.New("--observe-only and --load-only leave nothing to do")
	case f.serve && f.loadOnly:
		return o, errors.New("--serve: the agent on a server's machine observes it; remove --load-only")
	case f.join == "" && f.own.URL == "":
		return o, errors.New("--join: where is the controller? It prints the whole line when it starts")
	case f.join != "" && f.own.URL != "":
		return o, errors.New("--join and --nats are two ways; give one")
	case f.own.URL == "" && f.own.Bed != bus.DefaultBed:
		return o, errors.New("--bed is for your own NATS; with --join the token names the test bed")
	}
	err := errors.Join(f.own.Check(), bus.CheckBed(f.own.Bed), span(&o.About.MaxTime, "--max-time", f.maxTime), span(&o.Grace, "--grace", f.grace))
	if err == nil && (o.About.MaxTime <= 0 || o.Grace < time.Second) {
		err = errors.New("--max-time has to be more than 0, --grace at least 1s")
	}
	if err == nil && len(f.allow) > 0 {
		if o.Allow, err = fleet.ParseAllow(f.allow); err != nil {
			err = fmt.Errorf("--allow %w", err)
		}
	}
	if err == nil && f.maxRate != "" {
		var n int64
		if n, err = unit.ParseCount(f.maxRate); err != nil {
			err = fmt.Errorf("--max-rate: %w", err)
		}
		o.About.MaxRate = float64(n)
	}
	if err == nil && f.maxConns != "" {
		err = count(&o.About.MaxConnections, "--max-connections", f.maxConns)
	}
	return o, err
}

// access is the way into the test bed: with the token, or into the user's own NATS.
func (f *agentFlags) access(stdin io.Reader) (bus.Access, error) {
	if f.own.URL != "" {
		return f.own.Access, nil
	}
	text, err := f.readToken(stdin)
	if err != nil {
		return bus.Access{}, err
	}
	token, err := bus.ParseToken(text)
	return bus.Access{URL: f.join, Token: &token}, err
}

// readToken reads the token from its source.
func (f *agentFlags) readToken(stdin io.Reader) (string, error) {
	switch {
	case f.tokenFile == "-":
		b, err := io.ReadAll(io.LimitReader(stdin, tokenMost+1))
		if err == nil && len(b) > tokenMost {
			err = fmt.Errorf("more than %d bytes", tokenMost)
		}
		if err != nil {
			return "", fmt.Errorf("--token-file: standard input: %w", err)
		}
		return string(b), nil
	case f.tokenFile != "":
		info, err := os.Stat(f.tokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		if !info.Mode().IsRegular() || info.Size() > tokenMost {
			return "", fmt.Errorf("--token-file %s: not a token file", f.tokenFile)
		}
		b, err := os.ReadFile(f.tokenFile)
		return string(b), err
	case os.Getenv(testbed.TokenEnv) != "":
		return os.Getenv(testbed.TokenEnv), nil
	}
	return "", errors.New("no token: give --token-file FILE (- is standard input), or set " + testbed.TokenEnv +
		"; ceiling fleet controller says where it is")
}

// tokenArgument is the value of a flag that rejects a token as an argument, without repeating it.
type tokenArgument struct{}

func (tokenArgument) String() string   { return "" }
func (tokenArgument) Type() string     { return "string" }
func (tokenArgument) Set(string) error { return errTokenArgument }

var errTokenArgument = errors.New("--token would show the token to every user of this machine (ps); give --token-file FILE (- is standard input), or set " + testbed.TokenEnv)

// serveAgent joins, and serves until it is stopped.
func (sh *shell) serveAgent(ctx context.Context, f *agentFlags, o fleet.AgentOptions) error {
	env := record.ReadEnvironment(command.Version())
	name := f.name
	if name == "" {
		name = fleet.NameOf(env.Host)
	}
	if err := bus.CheckName("agent", name); err != nil {
		return command.Usage(fmt.Errorf("--name: %w", err))
	}
	access, err := f.access(sh.Stdin)
	if err != nil {
		return command.Usage(err)
	}
	var mu sync.Mutex
	o.Log = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(sh.Stderr, "agent %s: %s\n", name, line)
	}
	joining, cancel := context.WithTimeout(ctx, testbed.JoinWithin)
	defer cancel()
	conn, err := bus.Join(joining, access, name, bus.Watch{Say: o.Log, LostAfter: 3 * o.Grace})
	if ctx.Err() != nil {
		return nil // stopped before it had joined
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	if t := access.Token; t != nil {
		o.Log(fmt.Sprintf("token %s is valid until %s", t.ID(), testbed.LocalTime(t.Expires)))
	}
	var from netip.Addr
	from, o.About.NIC, o.About.NICBitsPerSecond = fleet.WayTo(access.URL)
	if f.serve {
		if o.Serves = from; !from.IsValid() {
			return fmt.Errorf("--serve: this host's address towards %s is unknown", access.URL)
		}
	}
	o.About.CapacityPerS, _ = fleet.Capacity(os.Getenv, &env) // why there is none is said by the run's headroom
	o.Log(fmt.Sprintf("joined test bed %s at %s; may load %s", conn.Bed(), access.URL, o.Allow))
	return fleet.Serve(ctx, conn, o)
}

func count(into *int, flag, text string) error {
	n, err := unit.ParseCount(text)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	*into = int(n)
	return nil
}
