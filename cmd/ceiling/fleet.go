package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/testbed"
	"ceiling/measure/fleet"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/run"
)

// controllerOf connects to the controller of a directory; "" is the default one.
func controllerOf(ctx context.Context, dir string, w bus.Watch) (*bus.Conn, error) {
	dir, err := testbed.Dir(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, driveWithin)
	defer cancel()
	return testbed.Drive(ctx, dir, w)
}

// controllerSetting is the directory's.
func controllerSetting(dir *string) setting {
	return setting{name: "controller", into: dir, key: beside, help: "controller state directory (default: with the runs)"}
}

// driveWithin is the timeout of connecting to a controller.
const driveWithin = 5 * time.Second

func newFleet(sh *shell) *cobra.Command {
	var dir string
	var asJSON bool
	c := &cobra.Command{
		Use:   "fleet",
		Short: "Load from several machines: list connected agents and their capacity",
		Example: `  ceiling fleet
  ceiling fleet --json`,
		Args: command.Exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			conn, err := controllerOf(c.Context(), dir, bus.Watch{})
			if err != nil {
				return err
			}
			defer conn.Close()
			w := fleet.NewWork(conn, fleet.WorkOptions{Version: command.Version(), Log: func(line string) { fmt.Fprintln(sh.Stderr, "ceiling: "+line) }})
			here, err := w.Look(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(sh.Stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(here)
			}
			return here.Text(sh.Stdout)
		},
	}
	c.Flags().SortFlags = false
	controllerSetting(&dir).bind(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.AddCommand(sh.HandAll(controllerProgram, "controller", "Coordinate several machines: agents join it, runs use it"), newAgent(sh), newTokens(sh))
	return c
}

// fleetFlags are the flags of a run on several machines.
type fleetFlags struct {
	agents    int
	observe   []string
	allowLoss bool
	dir       string // the controller's
}

func (f *fleetFlags) settings() []setting {
	return []setting{
		{name: "agents", value: "0", into: &f.agents, key: beside, help: "generate the load with N agents of a ceiling fleet controller"},
		{name: "observe", into: &f.observe, key: beside, help: "agent on the server's machine, to observe it (repeatable)"},
		{name: "allow-loss", into: &f.allowLoss, key: beside, help: "continue without a lost agent, and report the loss"},
		controllerSetting(&f.dir),
	}
}

// check refuses the flags of several machines for this one alone.
func (f *fleetFlags) check() error {
	switch {
	case f.agents < 0:
		return errors.New("--agents: give a number of agents, 1 or more")
	case f.agents == 0 && (len(f.observe) > 0 || f.allowLoss || f.dir != ""):
		return errors.New("--observe, --allow-loss and --controller are for a run of several machines; give --agents N as well")
	}
	return nil
}

// open returns the workers of the runs, of flags that were checked: nil is this machine. The caller must call done.
func (f *fleetFlags) open(ctx context.Context, say func(string)) (work run.Work, done func(), err error) {
	if f.agents == 0 {
		return nil, func() {}, nil
	}
	conn, err := controllerOf(ctx, f.dir, bus.Watch{Say: func(line string) { say("ceiling: " + line) }})
	if err != nil {
		return nil, nil, err
	}
	w := fleet.NewWork(conn, fleet.WorkOptions{Agents: f.agents, Observe: f.observe, AllowLoss: f.allowLoss, Version: command.Version(),
		Log: say})
	return w, func() {
		if err := w.Close(); err != nil {
			say("ceiling: " + command.OneLine(err))
		}
		conn.Close()
	}, nil
}

// say returns a function that prints what the machines of a run do, above the view if there is
// one.
func (f *outputFlags) say(sh *shell, v *view) func(string) {
	return func(text string) {
		if !f.quiet || strings.HasPrefix(text, "ceiling: ") {
			v.line(sh, text)
		}
	}
}
