package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ceiling/experiment/plan"
	"ceiling/experiment/spec"
	"ceiling/internal/secret"
	"ceiling/internal/unit"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/show/report"
)

// planFlags are the flags of an experiment with more than one run.
type planFlags struct {
	repeats int
	rest    string
	dryRun  bool
	quiet   bool
}

func (p *planFlags) bind(f flagSet) {
	f.IntVar(&p.repeats, "repeats", 0, "runs per condition (0 = auto)")
	f.StringVar(&p.rest, "rest", "500ms", "pause before each of several runs")
	f.BoolVar(&p.dryRun, "dry-run", false, "print the plan and its duration, then exit")
	f.BoolVar(&p.quiet, "quiet", false, "no progress output")
}

// flagSet is the interface that flags are bound to; pflag has none of its own.
type flagSet interface {
	IntVar(p *int, name string, value int, usage string)
	StringVar(p *string, name, value, usage string)
	BoolVar(p *bool, name string, value bool, usage string)
}

// isSweep reports whether the flags request more than one run.
func (f *runFlags) isSweep() bool {
	return strings.Contains(f.connections+f.pipelining+f.rate, ",")
}

// experiment builds the Experiment of the flags, without servers if the URL names none.
func (f *runFlags) experiment(ctx context.Context, kind string, args []string, sh *shell) (spec.Experiment, error) {
	e := spec.Experiment{Kind: kind, Seed: f.seed, Repeats: f.plan.repeats, Load: spec.Load{
		Threads: f.threads, Arrivals: f.arrivals, NewConnections: f.newConnections, NoLone: f.noLone, Engine: f.engine,
		Dial: f.dial(), PinGenerator: f.pinGenerator, PinServer: f.pinServer, Link: f.link, Pprof: f.pprof,
		Profile: f.profile,
	}}
	if f.profile && f.fleet.agents != 0 {
		return e, errors.New("--profile: profiles are taken on the machine that loads, of a server there; leave --agents out")
	}
	if f.changed("apart") {
		e.Load.Apart = &f.apart
	}
	if f.requests != "" {
		return e, errors.New("-n: the runs of a plan end by time; leave -n out and give -d")
	}
	err := errors.Join(
		counts(&e.Load.Connections, "-c", f.connections), counts(&e.Load.Pipelining, "-p", f.pipelining),
		moment(&e.Load.Duration, "-d", f.duration), moment(&e.Load.Timeout, "--timeout", f.timeout),
		moment(&e.Load.Warmup, "--warmup", f.warmup), moment(&e.Load.ConnectRamp, "--connect-ramp", f.ramp),
		moment(&e.Rest, "--rest", f.plan.rest),
	)
	if err != nil {
		return e, err
	}
	for text := range strings.SplitSeq(f.rate, ",") {
		if text == "" {
			continue
		}
		r, err := unit.ParseRate(strings.TrimSpace(text))
		if err != nil {
			return e, fmt.Errorf("-R: %w", err)
		}
		e.Load.Rate = append(e.Load.Rate, r)
	}
	if f.slo != "" {
		if e.SLO, err = spec.ParseSLO(f.slo); err != nil {
			return e, fmt.Errorf("--slo: %w", err)
		}
	}
	if e.Expect, err = spec.ParseExpect(f.expect); err != nil {
		return e, fmt.Errorf("--expect: %w", err)
	}
	if e.Load.TLS, err = f.secure(); err != nil {
		return e, err
	}
	list, err := f.targetList(args, sh)
	if err != nil {
		return e, err
	}
	e.Load.Kind, e.Load.Fragment = f.kind(list), f.fragment
	if e.Load.GRPC, err = f.protocol.calls(ctx, list); err != nil {
		return e, err
	}
	server, mix, err := mixOf(list)
	e.Servers, e.Requests = []spec.Server{server}, []spec.Mix{mix}
	return e, err
}

// mixOf splits a list of targets into the server and the requests to it.
func mixOf(list []spec.Target) (spec.Server, spec.Mix, error) {
	var server spec.Server
	var all []spec.MixRequest
	for _, t := range list {
		base, path, err := spec.SplitURL(t.URL)
		if err != nil {
			return server, spec.Mix{}, err
		}
		if server.URL == "" {
			server.URL = base
		}
		if base != server.URL {
			return server, spec.Mix{}, fmt.Errorf("%s and %s are two servers; a plan sends a mix to one of them at a time", server.URL, base)
		}
		r := spec.MixRequest{Path: path, Method: t.Method, Content: t.Body, Weight: t.Weight}
		for _, h := range t.Header {
			r.Header = append(r.Header, h.Name+": "+h.Value)
		}
		all = append(all, r)
	}
	if len(all) == 1 {
		return server, spec.Mix{MixRequest: all[0]}, nil
	}
	return server, spec.Mix{Mix: all}, nil
}

func counts(into *[]spec.Count, flag, text string) error {
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		n, err := unit.ParseCount(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
		*into = append(*into, spec.Count(n))
	}
	return nil
}

func moment(into *spec.Time, flag, text string) error {
	var d time.Duration
	err := span(&d, flag, text)
	*into = spec.Time(d)
	return err
}

// exploreFile runs the experiment of a file.
func exploreFile(sh *shell, c *cobra.Command, path string, f *runFlags) error {
	e, err := spec.ReadExperiment(path)
	if err != nil {
		return usage(err)
	}
	if err := compiled(c.Context(), e.Load.GRPC, filepath.Dir(path)); err != nil {
		return usage(fmt.Errorf("%s: %w", path, err))
	}
	for _, name := range []string{"connections", "pipelining", "rate", "method", "header", "body", "slo", "targets", "requests", "grpc", "proto"} {
		if c.Flags().Changed(name) {
			return usage(fmt.Errorf("--%s: %s says what is measured; change it there", name, path))
		}
	}
	if c.Flags().Changed("duration") {
		if err := moment(&e.Load.Duration, "-d", f.duration); err != nil {
			return usage(err)
		}
	}
	if f.changed("apart") {
		e.Load.Apart = &f.apart
	}
	if c.Flags().Changed("repeats") {
		e.Repeats = f.plan.repeats
	}
	if c.Flags().Changed("rest") {
		if err := moment(&e.Rest, "--rest", f.plan.rest); err != nil {
			return usage(err)
		}
	}
	return sh.explore(c.Context(), e, f)
}

// searchRuns is about the minimum for a search, which cannot list its runs: up to the rate that
// fails, down again, and its answer repeated.
const searchRuns = 5

// explore completes and validates an experiment, announces its cost, runs it and prints the
// answer.
func (sh *shell) explore(ctx context.Context, e spec.Experiment, f *runFlags) error {
	e.Complete(cmp.Or(f.seed, rand.Uint64()>>11)) // 53 bits survive any JSON reader
	if err := e.Check(); err != nil {
		return usage(err)
	}
	if err := plan.CheckGate(&e); err != nil {
		return usage(err)
	}
	steps := plan.Spell(&e)
	if len(steps) > spec.RunsMax {
		return usage(fmt.Errorf("the lists make %d runs, %s in all; at most %d are done: shorten the lists or the repeats",
			len(steps), unit.FormatDuration(run.Takes(&e, len(steps)).Round(time.Minute)), spec.RunsMax))
	}
	if f.plan.dryRun {
		e, _ := e.Concealed(secret.Plain())
		return report.Steps(sh.stdout, &e, steps, run.Takes(&e, len(steps)), layout(sh.stdout, f.verbose))
	}
	if !f.plan.quiet {
		sh.announce(&e, len(steps))
	}
	if url := e.Servers[0].URL; f.fleet.agents == 0 && e.Load.Kind == spec.Requests && (url == "" || listens(&e.Load.Dial, url)) {
		sh.knowHeadroom(ctx, e.Load.Engine, time.Duration(cmp.Or(len(steps), searchRuns))*time.Duration(e.Load.Duration))
	}
	told, err := f.telemetry.start(sh)
	if err != nil {
		return err
	}
	v, err := sh.openView(f)
	if err != nil {
		told.close(sh)
		return err
	}
	defer v.leave(ctx)
	o := run.Options{Out: f.out, Command: sh.args, Version: version(), Database: f.database, KeepSecrets: f.keepSecrets}
	told.listen(&o)
	v.listenPlan(&o, e.Kind)
	work, leave, err := f.fleet.open(ctx, f.say(sh, v))
	if err != nil {
		told.close(sh)
		v.planEnded(nil, record.File{})
		return err
	}
	o.Work = work
	shown, _ := e.Concealed(secret.Plain())
	p, file, err := run.Explore(ctx, e, o, sh.told(&shown, f, v))
	leave()
	told.close(sh)
	v.planEnded(p, file)
	return sh.answer(p, file, err, f)
}

// announce prints what a plan will take before it starts.
func (sh *shell) announce(e *spec.Experiment, runs int) {
	if runs == 0 { // a search picks its runs one by one
		sh.note("%s: runs of %s each, until the answer is known", e.Kind, unit.FormatDuration(time.Duration(e.Load.Duration)))
		return
	}
	sh.note("%s: %d runs of %s, about %s", e.Kind, runs,
		unit.FormatDuration(time.Duration(e.Load.Duration)), unit.FormatDuration(run.Takes(e, runs).Round(time.Second)))
}

// answer prints a plan's result.
func (sh *shell) answer(p *record.Plan, file record.File, err error, f *runFlags) error {
	if p == nil {
		return err
	}
	sh.exit = p.Exit
	if f.json {
		return errors.Join(err, report.PlanJSON(sh.stdout, p))
	}
	if !f.plan.quiet && len(p.Runs) > 0 {
		sh.saved(file, p.ID)
	}
	if printed := report.Plan(sh.stdout, p, layout(sh.stdout, f.verbose)); printed != nil {
		return errors.Join(err, printed)
	}
	return err
}
