package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"time"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/headroom"
	"ceiling/cmd/internal/records"
	"ceiling/experiment/plan"
	"ceiling/experiment/spec"
	"ceiling/internal/secret"
	"ceiling/internal/unit"
	"ceiling/measure/lua"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/show/report"
	"ceiling/verdict/prose"
)

// order is the job of the verbs that load a server. A single run is a plan of one: the flags of
// both are read, checked and carried out in the same places.
type order struct {
	plan  spec.Experiment // complete and checked
	one   *spec.Spec      // the plan's only run, if its record is that of a run; nil for a plan
	steps []record.Step   // of the plan; none for a search
	// script of --lua; nil: none.
	script *lua.Script
	// abort is the share of errors that ends a run; 0: none does.
	abort float64
	// compose makes the requests during the run; nil: they are there.
	compose run.Composer
	outputFlags
	dryRun     bool
	database   string
	prometheus string
	fleet      fleetFlags
}

// explore does an experiment with the other flags, unless building it failed.
func (sh *shell) explore(ctx context.Context, f *runFlags, e spec.Experiment, err error) error {
	if err != nil {
		return command.Usage(err)
	}
	o, err := f.complete(e)
	if err == nil {
		err = o.composed(f)
	}
	return sh.perform(ctx, o, err)
}

// order resolves the flags to a plan.
func (f *runFlags) order(ctx context.Context, kind string, args []string, sh *shell) (*order, error) {
	e, err := f.experiment(ctx, kind, args, sh)
	if err != nil {
		return nil, err
	}
	return f.complete(e)
}

// complete completes and checks an experiment, and adds the flags that are not part of one.
func (f *runFlags) complete(e spec.Experiment) (*order, error) {
	if f.changed("seed") {
		e.Seed = f.load.seed
	}
	e.Complete(rand.Uint64() >> 11) // 53 bits survive any JSON reader
	if err := errors.Join(f.fleet.check(), command.NotFormat("-o", f.output.out)); err != nil {
		return nil, err
	}
	if f.plan.dryRun && f.output.json {
		return nil, errors.New("--json: a dry run has no result to print; remove it, or --dry-run")
	}
	if e.Load.Profile && f.fleet.agents != 0 {
		return nil, errors.New("--profile needs the server on this machine; remove --agents, or run it on the server's machine")
	}
	if err := e.Check(); err != nil {
		return nil, err
	}
	if err := plan.CheckGate(&e); err != nil {
		return nil, err
	}
	steps := plan.Enumerate(&e)
	if len(steps) > spec.RunsMax {
		return nil, fmt.Errorf("the lists make %d runs, %s in all; at most %d are done: shorten the lists or the repeats",
			len(steps), unit.FormatDuration(run.Takes(&e, len(steps)).Round(time.Minute)), spec.RunsMax)
	}
	share, err := abortShare(f.abort)
	if err != nil {
		return nil, err
	}
	return &order{plan: e, steps: steps, abort: share, outputFlags: f.output, dryRun: f.plan.dryRun, database: f.server.database,
		prometheus: f.prometheus, fleet: f.fleet}, nil
}

// single makes the order one run, which a number of requests may end.
func (o *order) single(f *runFlags) error {
	e := &o.plan
	s, err := e.Spec(e.Servers[0].URL, o.steps[0].Mix, &o.steps[0].Condition)
	if err != nil {
		return err
	}
	s.Apart = e.Load.Apart != nil && *e.Load.Apart
	if f.load.requests != "" {
		n, err := unit.ParseCount(f.load.requests)
		if err != nil || n < 1 {
			return fmt.Errorf("-n: %s is not a number of requests; give -n 1000", f.load.requests)
		}
		s.Requests = uint64(n)
		if !f.changed("duration") {
			s.Duration = 0
		}
		if !f.changed("warmup") {
			s.Warmup = 0
		}
	}
	o.one, o.steps = &s, o.steps[:1]
	o.steps[0].Repeat = 0 // there are no others
	e.Repeats, e.Rest = 1, 0
	return s.Check()
}

// gcPercent lets the heap reach 32 MB before the first collection: collecting what the start and the end
// of a run leave behind costs 10 to 20 ms of CPU.
const gcPercent = 800

// relaxGC sets gcPercent unless the environment says otherwise, and returns how to restore it.
func relaxGC() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(gcPercent)
	return func() { debug.SetGCPercent(before) }
}

// do measures, and prints the result.
func (o *order) do(ctx context.Context, sh *shell) error {
	if few := prose.Text(plan.TooFewBlocks(&o.plan)); few != "" && !o.quiet {
		sh.Note("%s", few)
	}
	if o.dryRun {
		if err := run.May(&o.plan, o.fleet.agents > 0); err != nil {
			return err
		}
		return o.preview(sh)
	}
	defer relaxGC()()
	o.announce(sh)
	o.knowHeadroom(ctx, sh)
	scraped, err := serveMetrics(sh, o.prometheus)
	if err != nil {
		return err
	}
	v, err := sh.openView(&o.outputFlags)
	if err != nil {
		scraped.close(sh)
		return err
	}
	defer v.leave(ctx)
	work, leave, err := o.fleet.open(ctx, o.say(sh, v))
	if err != nil {
		scraped.close(sh)
		v.runEnded(nil, record.File{})
		return err
	}
	options := run.Options{Out: o.out, Command: sh.Args, Version: command.Version(), Database: o.database,
		KeepSecrets: o.keepSecrets, Work: work, Compose: o.compose}
	if o.abort > 0 {
		options.StopEarly = (&abort{share: o.abort}).row
	}
	scraped.listen(&options)
	end := func() {
		leave()
		scraped.close(sh)
	}
	if o.one != nil {
		return o.run(ctx, sh, v, options, end)
	}
	return o.explore(ctx, sh, v, options, end)
}

// takes is what a run lasts: a time or a number of requests.
func (o *order) takes() string {
	if o.one != nil && o.one.Requests > 0 {
		text := unit.Plural(int(o.one.Requests), "request", "requests")
		if o.one.Duration > 0 {
			text += ", at most " + unit.FormatDuration(o.one.Duration)
		}
		return text
	}
	return unit.FormatDuration(time.Duration(o.plan.Load.Duration))
}

// searched is what a search lasts, which picks its runs one by one.
func (o *order) searched() string { return "runs of " + o.takes() + " each, until the answer is known" }

// preview prints what would be done, and sends nothing.
func (o *order) preview(sh *shell) error {
	e, _ := o.plan.Concealed(secret.Plain())
	total := fmt.Sprintf("%s of %s", unit.Plural(len(o.steps), "run", "runs"), o.takes())
	switch {
	case len(o.steps) == 0:
		total = o.searched()
	case o.one == nil || o.one.Duration > 0:
		total += fmt.Sprintf(", about %s including warm-ups and pauses", unit.FormatDuration(run.Takes(&e, len(o.steps)).Round(time.Second)))
	}
	return report.Steps(sh.Stdout, &e, o.steps, total, records.Layout(sh.Stdout, o.verbose))
}

// announce prints what is measured and for how long: a plan's cost, and a single run for a user
// who has no live view of it.
func (o *order) announce(sh *shell) {
	e, length := &o.plan, o.takes()
	switch {
	case o.quiet || o.one != nil && command.IsTerminal(sh.Stdout):
	case o.one != nil:
		announceRun(sh, o.one, length)
	case len(o.steps) == 0:
		sh.Note("%s: %s", e.Kind, o.searched())
	default:
		sh.Note("%s: %s of %s, about %s", e.Kind, unit.Plural(len(o.steps), "run", "runs"), length,
			unit.FormatDuration(run.Takes(e, len(o.steps)).Round(time.Second)))
	}
}

func announceRun(sh *shell, s *spec.Spec, takes string) {
	concealed := s.Concealed(secret.Plain())
	if s.Warmup > 0 {
		takes += " after " + unit.FormatDuration(s.Warmup) + " of warm-up"
	}
	more := ""
	if n := len(concealed.Targets); n > 1 {
		more = fmt.Sprintf(" and %d more", n-1)
	}
	sh.Note("run: %s%s, %s, %s", concealed.Targets[0].URL, more, unit.Plural(s.Connections, "connection", "connections"), takes)
}

// searchRuns is about the minimum for a search, which cannot list its runs: up to the rate that
// fails, down again, and its answer repeated.
const searchRuns = 5

// knowHeadroom calibrates this host's generator if it is the one that loads.
func (o *order) knowHeadroom(ctx context.Context, sh *shell) {
	l, url := &o.plan.Load, o.plan.Servers[0].URL
	if o.fleet.agents != 0 || l.Kind != spec.Requests || url != "" && !listens(&l.Dial, url) {
		return
	}
	measures := time.Duration(cmp.Or(len(o.steps), searchRuns)) * time.Duration(l.Duration)
	if o.one != nil {
		measures = o.one.Duration
	}
	headroom.Know(ctx, &sh.Shell, l.Engine, measures)
}

// run does the single run and prints it.
func (o *order) run(ctx context.Context, sh *shell, v *view, options run.Options, end func()) error {
	v.listen(&options)
	done, err := run.Do(ctx, *o.one, options)
	end()
	if err == nil {
		err = o.ended(done)
	}
	if err != nil {
		v.runEnded(nil, record.File{})
		return err
	}
	kept := done.File
	if done.KeepErr != nil {
		kept = record.File{}
	}
	v.runEnded(&done.Run, kept)
	sh.Exit = done.Run.Exit
	if done.KeepErr != nil {
		fmt.Fprintln(sh.Stderr, "ceiling: "+record.Incomplete(done.File.Path, done.KeepErr))
	}
	if done.RestoreErr != nil {
		fmt.Fprintf(sh.Stderr, "ceiling: not restored: %s\n", command.OneLine(done.RestoreErr))
	}
	if o.json {
		return errors.Join(report.JSON(sh.Stdout, &done.Run), o.profiled(sh, done))
	}
	saves, screen := done.KeepErr == nil && done.Run.Load.Established > 0 && !o.quiet, command.IsTerminal(sh.Stdout)
	if saves && screen {
		sh.saved(done.File, done.Run.ID) // before the text: its end matters most
	}
	if err := report.Text(sh.Stdout, &done.Run, records.Layout(sh.Stdout, o.verbose)); err != nil {
		return err
	}
	if saves && !screen {
		sh.saved(done.File, done.Run.ID)
	}
	return o.profiled(sh, done)
}

// explore does the runs of a plan and prints their answer.
func (o *order) explore(ctx context.Context, sh *shell, v *view, options run.Options, end func()) error {
	v.listenPlan(&options, &o.plan)
	shown, _ := o.plan.Concealed(secret.Plain())
	p, file, err := run.Explore(ctx, o.plan, options, sh.told(&shown, &o.outputFlags, v))
	end()
	v.planEnded(p, file)
	return sh.answer(p, file, err, &o.outputFlags)
}
