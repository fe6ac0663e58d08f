package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/experiment/spec"
	"ceiling/internal/secret"
	"ceiling/measure/run"
	"ceiling/record"
)

func newResume(sh *shell) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "resume ID",
		Short: "Resume an interrupted sweep, search, proof or comparison",
		Long: `Reads the finished runs of a plan and makes the missing ones. Servers that ceiling
started are restarted; others must already be running.`,
		Example:           "  ceiling resume x7f2",
		Args:              command.Exactly(1, "one ID or file"),
		ValidArgsFunction: completeRuns,
		RunE: func(c *cobra.Command, args []string) error {
			file, err := sh.findRecord(args[0])
			if err != nil {
				return err
			}
			if !file.IsPlan() {
				return command.Usage(fmt.Errorf("%s is a single run; make it again with the command that ceiling show prints", args[0]))
			}
			p, err := record.OpenPlan(file)
			if err != nil {
				return err
			}
			byAgents := func(arg string) bool { return arg == "--agents" || strings.HasPrefix(arg, "--agents=") }
			if f.fleet.agents == 0 && slices.ContainsFunc(p.Command, byAgents) {
				return command.Usage(fmt.Errorf("%s was run by agents (%s); give its --agents and --observe again, so that its runs are alike", p.ID,
					strings.Join(p.Command, " ")))
			}
			return sh.perform(c.Context(), &resumption{file, p.Experiment, f.outputFlags, f.fleet}, f.fleet.check())
		},
	}
	c.Flags().BoolVar(&f.json, "json", false, "print the JSON document")
	c.Flags().StringVar(&f.live, "live", "", "serve a live dashboard (--live=ADDR to choose the address)")
	c.Flags().Lookup("live").NoOptDefVal = liveAddress
	f.fleet.bind(c.Flags())
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "print all of the text")
	c.Flags().BoolVar(&f.quiet, "quiet", false, "no progress output")
	return c
}

// resumption is the job that makes the missing runs of a plan.
type resumption struct {
	file record.File
	plan spec.Experiment
	outputFlags
	fleet fleetFlags
}

func (o *resumption) do(ctx context.Context, sh *shell) error {
	v, err := sh.openView(&o.outputFlags)
	if err != nil {
		return err
	}
	defer v.leave(ctx)
	work, leave, err := o.fleet.open(ctx, o.say(sh, v))
	if err != nil {
		v.planEnded(nil, record.File{})
		return err
	}
	options := run.Options{Command: sh.Args, Version: command.Version(), Work: work}
	v.listenPlan(&options, o.plan.Kind)
	shown, _ := o.plan.Concealed(secret.Plain())
	p, file, err := run.Resume(ctx, o.file, options, sh.told(&shown, &o.outputFlags, v))
	leave()
	v.planEnded(p, file)
	return sh.answer(p, file, err, &o.outputFlags)
}

// findRecord returns the run or plan that the user named: "-" is a record on standard input.
func (sh *shell) findRecord(name string) (record.File, error) {
	if name == "-" {
		f, err := record.ReadFile(sh.Stdin)
		return f, command.Usage(err)
	}
	return findRecord(name)
}

// findRecord returns a record by name.
func findRecord(name string) (record.File, error) {
	store, err := record.DefaultStore(os.Getenv)
	if err != nil {
		return record.File{}, err
	}
	f, err := store.Find(name)
	return f, command.Usage(err)
}
