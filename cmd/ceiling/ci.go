package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/experiment/plan"
	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/unit"
	"ceiling/measure/checkout"
	"ceiling/measure/run"
	"ceiling/record"
)

// ciFlags are those of the verb ci.
type ciFlags struct {
	base   string
	dryRun bool
	output outputFlags
}

func newCI(sh *shell) *cobra.Command {
	var f ciFlags
	c := &cobra.Command{
		Use:   "ci [FILE]",
		Short: "Measure a change against its base, for a pipeline",
		Long: `Reads .ceiling.yaml (how to build and start the service, loads, SLOs, what
fails), checks out the base, measures base and change interleaved on this
machine, and exits 0 if the change holds, 3 if it fails, 4 if this machine
cannot tell. The answer is Markdown. GitHub Actions and GitLab name the base
(docs/ci.md).`,
		Example: `  ceiling ci
  ceiling ci --base origin/main | tee summary.md
  ceiling ci --base ../checkout-of-the-base`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			j, err := f.job(args)
			return sh.perform(c.Context(), j, err)
		},
	}
	p := c.Flags()
	p.SortFlags = false
	p.StringVar(&f.base, "base", "", "what to compare with: a revision or a directory (default: from the pipeline, or the parent)")
	p.BoolVar(&f.dryRun, "dry-run", false, "print what would be built, started and measured, then exit")
	p.StringVarP(&f.output.out, "out", "o", "", "directory for the records (default: your store)")
	p.BoolVar(&f.output.quiet, "quiet", false, "no progress output")
	return c
}

// ciJob is a pipeline's job.
type ciJob struct {
	ciFlags
	file   string
	dir    string // of the file
	wanted spec.CI
}

func (f *ciFlags) job(args []string) (*ciJob, error) {
	j := &ciJob{ciFlags: *f, file: spec.CIFile}
	if len(args) > 0 {
		j.file = args[0]
	}
	if info, err := os.Stat(f.output.out); f.output.out != "" && (err != nil || !info.IsDir()) {
		return j, fmt.Errorf("-o: %s is not a directory, and every load has its own record; make it first", f.output.out)
	}
	if _, err := os.Stat(j.file); errors.Is(err, os.ErrNotExist) && len(args) == 0 {
		return j, fmt.Errorf("no %s here; write one with serve: and loads: (docs/ci.md has an example), or name the file", spec.CIFile)
	}
	var err error
	if j.wanted, err = spec.ReadCI(j.file); err != nil {
		return j, err
	}
	for i := range j.wanted.Loads {
		e := j.wanted.Compared(i, j.wanted.Server("base", ""), j.wanted.Server("change", ""))
		if err := plan.CheckGate(&e); err != nil {
			return j, fmt.Errorf("%s: loads %d: fail_on: %w", j.file, i+1, err)
		}
	}
	j.dir, err = filepath.Abs(filepath.Dir(j.file))
	return j, err
}

// sides are the two trees, built, and why there is no base; "" if there is one.
type sides struct {
	base, change checkout.Tree
	noBase       string
}

// do checks the change.
func (j *ciJob) do(ctx context.Context, sh *shell) (err error) {
	s := sides{change: checkout.Of(ctx, j.dir)}
	if s.base, err = checkout.Base(ctx, j.dir, j.base, os.Getenv); err != nil {
		return command.Usage(err)
	}
	defer func() { err = errors.Join(err, s.base.Remove()) }()
	if checkout.Same(&s.base, &s.change) {
		return command.Usage(fmt.Errorf("base and change are the same commit, %s; name another with --base", s.change.Commit))
	}
	a := &ciAnswer{base: describe(&s.base), change: describe(&s.change), machine: machine()}
	if j.dryRun {
		return j.preview(sh.Stdout, a)
	}
	a.loads, err = j.check(ctx, sh, &s)
	if errors.Is(err, context.Canceled) {
		sh.Note("interrupted: no result is reported")
		sh.Exit = exit.Interrupted
		return nil
	}
	if err != nil {
		return err
	}
	sh.Exit = plan.ExitOf(a.result())
	return a.write(sh.Stdout)
}

// check builds both sides, and measures every load.
func (j *ciJob) check(ctx context.Context, sh *shell, s *sides) ([]plan.Checked, error) {
	for _, side := range []struct {
		name string
		tree *checkout.Tree
	}{{"change", &s.change}, {"base", &s.base}} {
		j.note(sh, "build and start %s in %s", side.name, side.tree.Dir)
		condition, err := j.raise(ctx, side.name, side.tree)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && side.name == "change":
			return j.unchecked(condition, command.OneLine(err)), nil
		case err != nil:
			s.noBase = "the base does not " + strings.TrimSuffix(condition, "s") + ": " + command.OneLine(err)
		}
	}
	var list []plan.Checked
	for i := range j.wanted.Loads {
		c, err := j.load(ctx, sh, s, i)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return list, err
		}
		list = append(list, c)
	}
	return list, nil
}

// raise builds one side and starts it once, so that a failure is known by its cause before anything is
// measured. condition is what has failed.
func (j *ciJob) raise(ctx context.Context, name string, t *checkout.Tree) (condition string, err error) {
	if j.wanted.Build != "" {
		if err := t.Build(ctx, j.wanted.Build); err != nil {
			return "builds", fmt.Errorf("%s: %w", j.wanted.Build, err)
		}
	}
	addr, err := run.FreeAddress()
	if err != nil {
		return "starts", err
	}
	server := j.wanted.Server(name, t.Dir)
	child, _, err := run.StartServerAt(ctx, &server, addr)
	if err != nil {
		return "starts", err
	}
	child.Stop()
	return "", nil
}

func (j *ciJob) unchecked(condition, why string) (list []plan.Checked) {
	for i := range j.wanted.Loads {
		list = append(list, plan.Unchecked(j.wanted.Loads[i].Label(), condition, why))
	}
	return list
}

// load measures one load.
func (j *ciJob) load(ctx context.Context, sh *shell, s *sides, i int) (plan.Checked, error) {
	change := j.wanted.Server("change", s.change.Dir)
	e := j.wanted.Compared(i, j.wanted.Server("base", s.base.Dir), change)
	if s.noBase != "" {
		e = j.wanted.Alone(i, change)
	}
	e.Complete(rand.Uint64() >> 11)
	if err := e.Check(); err != nil {
		return plan.Checked{}, fmt.Errorf("%s: %w", j.file, err)
	}
	label := j.wanted.Loads[i].Label()
	j.note(sh, "%s: %s", label, takes(&e))
	v, err := sh.openView(&j.output)
	if err != nil {
		return plan.Checked{}, err
	}
	options := run.Options{Out: j.output.out, Command: sh.Args, Version: command.Version()}
	v.listenPlan(&options, &e)
	p, file, err := run.Explore(ctx, e, options, sh.told(&e, &j.output, v))
	v.planEnded(p, file)
	v.leave(ctx)
	if err != nil {
		return plan.Checked{}, err
	}
	if !j.output.quiet {
		sh.saved(file, p.ID)
	}
	return plan.CheckLoad(label, p, change.Name, s.noBase), nil
}

func (j *ciJob) note(sh *shell, format string, args ...any) {
	if !j.output.quiet {
		sh.Note(format, args...)
	}
}

// preview prints what would be done.
func (j *ciJob) preview(w io.Writer, a *ciAnswer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "base      %s\nchange    %s\n", a.base, a.change)
	if j.wanted.Build != "" {
		fmt.Fprintf(&b, "build     %s\n", j.wanted.Build)
	}
	fmt.Fprintf(&b, "serve     %s\n", j.wanted.Serve)
	for i := range j.wanted.Loads {
		e := j.wanted.Compared(i, j.wanted.Server("base", ""), j.wanted.Server("change", ""))
		e.Complete(1)
		holds := e.Compare.FailOn
		if len(e.SLO) > 0 {
			holds = fmt.Sprintf("%s, SLO %s", holds, e.SLO)
		}
		fmt.Fprintf(&b, "load      %s: %s; %s\n", j.wanted.Loads[i].Label(), takes(&e), holds)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// takes is how many runs an experiment has, and how long they take.
func takes(e *spec.Experiment) string {
	n := len(plan.Enumerate(e))
	return fmt.Sprintf("%s of %s, about %s", unit.Plural(n, "run", "runs"), unit.FormatDuration(time.Duration(e.Load.Duration)),
		unit.FormatDuration(run.Takes(e, n).Round(time.Second)))
}

// describe names a tree.
func describe(t *checkout.Tree) string {
	if t.Commit == "" {
		return t.Why
	}
	return t.Commit + " (" + t.Why + ")"
}

// machine is this one in a few words.
func machine() string {
	e := record.ReadEnvironment(command.Version())
	return fmt.Sprintf("%s of %s, Linux %s", unit.Plural(e.CoresAllowed, "CPU", "CPUs"), e.CPUModel, e.Kernel)
}
