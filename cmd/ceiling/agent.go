package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ceiling/internal/unit"
	"ceiling/measure/fleet"
	"ceiling/measure/fleet/bus"
	"ceiling/record"
)

// tokenEnv has the token where neither flag does: unlike an argument, nobody
// else sees it in the list of processes.
const tokenEnv = "CEILING_TOKEN"

// tokenMost bounds a file of a token, which has some 200 characters.
const tokenMost = 4 << 10

// agentFlags are those of the verb agent, as typed.
type agentFlags struct {
	join, token, tokenFile, name      string
	allow                             []string
	maxRate, maxTime, maxConns, grace string
	loadOnly, observeOnly             bool
	own                               ownFlags
}

func newAgent(sh *shell) *cobra.Command {
	var f agentFlags
	c := &cobra.Command{
		Use:   "agent",
		Short: "Offer this machine to a controller, to load and to observe",
		Long: `Joins a controller, whose line has the address and the token, and then does
what the holder of that controller asks: it loads the targets of its allow-list,
and no others, within its caps, and watches this machine. It executes no command,
does one run at a time, and ends a run by itself when the one who asked for it
is gone. The token may come from a file or from the variable ` + tokenEnv + ` as well.`,
		Example: `  ceiling agent --join nats://10.0.0.1:7422 --token-file token --allow 10.0.0.7:8080
  ceiling agent --join nats://10.0.0.1:7422 --token-file token --observe-only --name web1`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := f.options()
			if err != nil {
				return usage(err)
			}
			return sh.serveAgent(c.Context(), &f, o)
		},
	}
	p := c.Flags()
	p.SortFlags = false
	p.StringVar(&f.join, "join", "", "address of the controller, nats://host:port")
	p.StringVar(&f.token, "token", "", "what the controller printed; others on this machine see it here")
	p.StringVar(&f.tokenFile, "token-file", "", "file that has the token")
	p.StringVar(&f.name, "name", "", "in the fleet (this host's)")
	p.StringArrayVar(&f.allow, "allow", nil, "what it may load: 10.0.0.0/8, web:8080, unix:/run/x.sock; again (loopback)")
	p.StringVar(&f.maxRate, "max-rate", "", "requests/s that it sends at most (no cap)")
	p.StringVar(&f.maxTime, "max-time", "1h", "longest run")
	p.StringVar(&f.maxConns, "max-connections", "", "connections that it opens at most (no cap)")
	p.BoolVar(&f.loadOnly, "load-only", false, "do not observe this machine for others' load")
	p.BoolVar(&f.observeOnly, "observe-only", false, "load nothing")
	p.StringVar(&f.grace, "grace", "10s", "how long it goes on without a word of the driver")
	f.own.bind(p)
	return c
}

// options are the checked options of the flags.
func (f *agentFlags) options() (fleet.AgentOptions, error) {
	o := fleet.AgentOptions{Version: version(), Loads: !f.observeOnly, Observes: !f.loadOnly, Allow: fleet.Loopback()}
	switch {
	case f.observeOnly && f.loadOnly:
		return o, errors.New("--observe-only and --load-only leave nothing to do")
	case f.join == "" && f.own.URL == "":
		return o, errors.New("--join: where is the controller? It prints the whole line when it starts")
	case f.join != "" && f.own.URL != "":
		return o, errors.New("--join and --nats are two ways; give one")
	}
	err := errors.Join(f.own.check(), span(&o.Caps.MaxTime, "--max-time", f.maxTime), span(&o.Grace, "--grace", f.grace))
	if err == nil && (o.Caps.MaxTime <= 0 || o.Grace < time.Second) {
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
		o.Caps.MaxRate = float64(n)
	}
	if err == nil && f.maxConns != "" {
		err = count(&o.Caps.MaxConnections, "--max-connections", f.maxConns)
	}
	return o, err
}

// readToken takes the token from where it was given.
func (f *agentFlags) readToken() (string, error) {
	switch {
	case f.token != "" && f.tokenFile != "":
		return "", errors.New("--token and --token-file are two ways; give one")
	case f.tokenFile != "":
		info, err := os.Stat(f.tokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		if !info.Mode().IsRegular() || info.Size() > tokenMost {
			return "", fmt.Errorf("--token-file: %s is no file of a token", f.tokenFile)
		}
		b, err := os.ReadFile(f.tokenFile)
		return strings.TrimSpace(string(b)), err
	case f.token != "":
		return f.token, nil
	case os.Getenv(tokenEnv) != "":
		return strings.TrimSpace(os.Getenv(tokenEnv)), nil
	}
	return "", errors.New("no token: give --token-file FILE, or set " + tokenEnv + "; ceiling controller prints it")
}

// joinWithin is how long a first connection is waited for.
const joinWithin = 30 * time.Second

// serveAgent joins, and serves until it is told to end.
func (sh *shell) serveAgent(ctx context.Context, f *agentFlags, o fleet.AgentOptions) error {
	token, err := f.readToken()
	if err != nil {
		return usage(err)
	}
	env := record.ReadEnvironment(version())
	name := f.name
	if name == "" {
		name = fleet.NameOf(env.Host)
	}
	if err := bus.CheckName(name); err != nil {
		return usage(fmt.Errorf("--name: %w", err))
	}
	var mu sync.Mutex
	o.Log = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(sh.stderr, "agent %s: %s\n", name, line)
	}
	conn, address, err := f.connect(ctx, token, name, bus.Watch{
		Gone:    func(why error) { o.Log("the controller is gone: " + oneLine(why)) },
		Back:    func() { o.Log("the controller is back") },
		Trouble: func(err error) { o.Log(oneLine(err)) },
	})
	if ctx.Err() != nil {
		return nil // told to end before it had joined
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	o.NIC, o.NICBitsPerSecond = fleet.WayTo(address)
	if o.CapacityPerS, err = fleet.Capacity(os.Getenv, &env); err != nil {
		o.CapacityPerS = 0 // said where it matters: the table, and the run's headroom
	}
	o.Log(fmt.Sprintf("joined test bed %s at %s; may load %s", conn.Bed(), address, o.Allow))
	return fleet.Serve(ctx, conn, o)
}

func (f *agentFlags) connect(ctx context.Context, token, name string, w bus.Watch) (*bus.Conn, string, error) {
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	if f.own.URL != "" {
		c, err := bus.JoinOwn(ctx, f.own.Own, token, name, w)
		return c, f.own.URL, err
	}
	c, err := bus.Join(ctx, f.join, token, name, w)
	return c, f.join, err
}
