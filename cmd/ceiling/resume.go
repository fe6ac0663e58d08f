package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/experiment/spec"
	"ceiling/internal/secret"
	"ceiling/measure/run"
	"ceiling/record"
)

// newResumption returns the job that makes the missing runs of a plan. Servers that ceiling started
// are restarted; others must already be running.
func newResumption(c *cobra.Command, id string, f *runFlags, sh *shell) (*resumption, error) {
	if strings.Contains(id, "://") {
		return nil, fmt.Errorf("--resume continues an interrupted plan, by its ID; to resume TLS sessions with %s: --tls-resume", id)
	}
	err := only(c, append(outputNames(), "resume", "live", "agents", "observe", "allow-loss", "controller"), func(string) string {
		return "the plan of --resume defines what is measured and where it is saved; remove this"
	})
	if err != nil {
		return nil, err
	}
	file, err := records.Find(&sh.Shell, id)
	if err != nil {
		return nil, fmt.Errorf("--resume: %w", err)
	}
	if !file.IsPlan() {
		return nil, fmt.Errorf("--resume: %s is a single run; make it again with the command that ceiling show prints", id)
	}
	p, err := record.OpenPlan(file)
	if err != nil {
		return nil, err
	}
	byAgents := func(arg string) bool { return arg == "--agents" || strings.HasPrefix(arg, "--agents=") }
	if f.fleet.agents == 0 && slices.ContainsFunc(p.Command, byAgents) {
		return nil, fmt.Errorf("--resume: %s was run by agents (%s); give its --agents and --observe again, so that its runs are alike", p.ID,
			strings.Join(p.Command, " "))
	}
	return &resumption{file, p.Experiment, f.output, f.fleet}, f.fleet.check()
}

// resumption is the job that makes the missing runs of a plan.
type resumption struct {
	file record.File
	plan spec.Experiment
	outputFlags
	fleet fleetFlags
}

func (o *resumption) do(ctx context.Context, sh *shell) error {
	defer relaxGC()()
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
	v.listenPlan(&options, &o.plan)
	shown, _ := o.plan.Concealed(secret.Plain())
	p, file, err := run.Resume(ctx, o.file, options, sh.told(&shown, &o.outputFlags, v))
	leave()
	v.planEnded(p, file)
	return sh.answer(p, file, err, &o.outputFlags)
}
