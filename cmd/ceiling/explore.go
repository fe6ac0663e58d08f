package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/experiment/spec"
	"ceiling/internal/sys"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/report"
)

// planFlags are the flags of an experiment with more than one run.
type planFlags struct {
	repeats int
	pause   string
	dryRun  bool
	resume  bool // an interrupted plan
}

// isList reports whether the flags have a list of loads.
func (f *runFlags) isList() bool {
	return strings.Contains(f.load.connections+f.load.pipelining+f.load.rate+f.load.threads, ",")
}

// isPlan reports whether the flags ask for more than one run.
func (f *runFlags) isPlan() bool { return f.isList() || f.plan.repeats > 1 }

// experiment builds the Experiment of the flags, without servers if the URL names none.
func (f *runFlags) experiment(ctx context.Context, kind string, args []string, sh *shell) (spec.Experiment, error) {
	if kind == spec.KindCompare && f.load.follow {
		return spec.Experiment{}, errors.New("--location: two servers are compared at one path; give the URLs that redirects lead to")
	}
	f.settings.SourceIPs = list(f.load.sourceIPs)
	list, err := f.targetList(ctx, args, sh) // first: a curl command line has flags too
	if err != nil {
		return spec.Experiment{}, err
	}
	e := spec.Experiment{Kind: kind, Repeats: f.plan.repeats, Load: f.settings}
	if f.changed("separate-cpus") {
		e.Load.Apart = &f.server.separate
	}
	err = errors.Join(f.goTogether(&e),
		counts(&e.Load.Connections, "-c", f.load.connections), counts(&e.Load.Pipelining, "-p", f.load.pipelining),
		threads(&e.Load.Threads, f.load.threads),
		moment(&e.Load.Duration, "-d", f.load.duration), moment(&e.Load.Timeout, "--timeout", f.load.timeout),
		moment(&e.Load.ConnectRamp, "--connect-ramp", f.load.ramp), moment(&e.Rest, "--pause", f.plan.pause),
		rates(&e.Load.Rate, f.load.rate),
	)
	if err != nil {
		return e, err
	}
	if f.load.from.lua == "" && f.fleet.agents == 0 {
		capThreads(&e.Load, sh)
	}
	if f.load.warmup != "" {
		e.Load.Warmup = new(spec.Time)
		if err := moment(e.Load.Warmup, "--warmup", f.load.warmup); err != nil {
			return e, err
		}
	}
	if e.SLO, err = spec.ParseSLO(f.slo); err != nil {
		return e, fmt.Errorf("--slo: %w", err)
	}
	if e.Expect, err = spec.ParseExpect(f.expect...); err != nil {
		return e, fmt.Errorf("--expect: %w", err)
	}
	if e.Load.NewConnections, err = spec.ParsePerConnection(f.load.newConnections); err != nil {
		return e, fmt.Errorf("--new-connections: %w", err)
	}
	if e.Load.TLS, err = f.load.secure(); err != nil {
		return e, err
	}
	if e.Load.Kind, err = f.kind(list); err != nil {
		return e, err
	}
	server, mix, err := mixOf(list)
	e.Servers, e.Requests = []spec.Server{server}, []spec.Mix{mix}
	return e, err
}

// goTogether refuses flags that exclude each other, or that the runs asked for have no use for.
func (f *runFlags) goTogether(e *spec.Experiment) error {
	single := e.Kind == spec.KindSweep && !f.isPlan()
	for _, zero := range []struct{ flag, text, example string }{{"-d", f.load.duration, "-d 10s"}, {"--timeout", f.load.timeout, "--timeout 10s"}} {
		if d, err := unit.ParseDuration(zero.text); err == nil && d == 0 {
			return fmt.Errorf("%s: %s is not above 0; give %s", zero.flag, zero.text, zero.example)
		}
	}
	switch {
	case f.load.requests != "" && !single:
		return errors.New("-n: the runs of a plan (a list in -c, -p, -R or -t, or --repeats) end by time; remove -n and give -d")
	case single && f.changed("pause"):
		return errors.New("--pause: one run has no pause between runs; give --repeats 3 or a list in -c, -p, -R or -t as well, or remove it")
	case f.changed("repeats") && e.InBlocks():
		return fmt.Errorf("--repeats: %s repeats in blocks; give --blocks", e.Kind)
	}
	return nil
}

// mixOf splits a list of targets into the server and the requests to it.
func mixOf(list []spec.Target) (spec.Server, spec.Mix, error) {
	var server spec.Server
	var all []spec.MixRequest
	if err := spec.OneAddress(list); err != nil {
		return server, spec.Mix{}, err
	}
	for _, t := range list {
		base, path, err := spec.SplitURL(t.URL)
		if err != nil {
			return server, spec.Mix{}, err
		}
		if server.URL == "" {
			server.URL = base
		}
		r := spec.MixRequest{Path: path, Method: t.Method, Content: t.Body, Weight: t.Weight, From: t.From}
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

func counts(into *spec.List[spec.Count], flag, text string) error {
	for part := range strings.SplitSeq(text, ",") {
		if part == "" && text != "" {
			return fmt.Errorf("%s: %q has a comma without a number next to it; give one number, or a list such as 1,8,64", flag, text)
		}
		if part == "" {
			continue
		}
		n, err := unit.ParseCount(strings.TrimSpace(part))
		if err != nil {
			if flag == "-p" && strings.ContainsAny(part, "./@") {
				err = fmt.Errorf("%w; a body from a file, ab's -p, is -b @FILE", err)
			}
			return fmt.Errorf("%s: %w", flag, err)
		}
		*into = append(*into, spec.Count(n))
	}
	return nil
}

// threads parses the numbers of threads; 0 alone leaves the choice to the engine.
func threads(into *spec.List[spec.Count], text string) error {
	var list spec.List[spec.Count]
	if err := counts(&list, "-t", text); err != nil {
		if _, isTime := unit.ParseDuration(text); isTime == nil {
			err = fmt.Errorf("%w; -t is the number of threads, the time is -d %s", err, text)
		}
		return err
	}
	if len(list) > 1 && slices.Contains(list, 0) {
		return errors.New("-t: a list of 0 and others (0 leaves the number to ceiling); give numbers from 1, as in -t 1,2,4")
	}
	if len(list) > 1 || len(list) == 1 && list[0] != 0 {
		*into = list
	}
	return nil
}

// capThreads lowers -t to the CPUs that this process may use: a thread more adds context switches
// and no request (-t 4 on two CPUs cost a tenth of the rate). A list is a question about threads;
// a script counts its own, and agents have other CPUs.
func capThreads(l *spec.Load, sh *shell) {
	if len(l.Threads) != 1 {
		return
	}
	cpus, err := spec.ParseCPUList(l.PinGenerator)
	if l.PinGenerator == "" {
		cpus, err = sys.AllowedCPUs(0)
	}
	if asked := int(l.Threads[0]); err == nil && asked > len(cpus) {
		l.Threads[0] = spec.Count(len(cpus))
		sh.Note("-t %d: the generator may use %s here, so it takes as many threads", asked, unit.Plural(len(cpus), "CPU", "CPUs"))
	}
}

// rates parses the rates of open loops.
func rates(into *spec.List[unit.Rate], text string) error {
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		r, err := unit.ParseRate(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("-R: %w", err)
		}
		*into = append(*into, r)
	}
	return nil
}

func moment(into *spec.Time, flag, text string) error {
	var d time.Duration
	err := span(&d, flag, text)
	if err != nil && flag == "-d" && strings.ContainsAny(text, "{[@=&") {
		err = fmt.Errorf("%w; a body, curl's -d, is -b", err)
	}
	*into = spec.Time(d)
	return err
}

// fromFile measures the experiment of a file.
func (sh *shell) fromFile(c *cobra.Command, path string, f *runFlags) error {
	e, err := f.readExperiment(c, path)
	if err != nil {
		return command.Usage(err)
	}
	o, err := f.complete(e)
	return sh.perform(c.Context(), o, err)
}

// readExperiment reads an experiment file, with the flags that take precedence over it.
func (f *runFlags) readExperiment(c *cobra.Command, path string) (spec.Experiment, error) {
	e, err := spec.ReadExperiment(path)
	if err != nil {
		return e, err
	}
	err = only(c, besideFile(), func(name string) string {
		if key := inFile(name); key != "" {
			return fmt.Sprintf("%s defines the experiment; set %s there", path, key)
		}
		return fmt.Sprintf("%s defines the experiment, and has no such key; remove it", path)
	})
	if err == nil && f.changed("duration") {
		err = moment(&e.Load.Duration, "-d", f.load.duration)
	}
	if err == nil && f.changed("pause") {
		err = moment(&e.Rest, "--pause", f.plan.pause)
	}
	if f.changed("separate-cpus") {
		e.Load.Apart = &f.server.separate
	}
	if f.changed("repeats") {
		e.Repeats = f.plan.repeats
	}
	return e, err
}

// answer prints a plan's result.
func (sh *shell) answer(p *record.Plan, file record.File, err error, f *outputFlags) error {
	if p == nil {
		return err
	}
	sh.Exit = p.Exit
	if f.json {
		return errors.Join(err, report.PlanJSON(sh.Stdout, p))
	}
	if !f.quiet && len(p.Runs) > 0 {
		sh.saved(file, p.ID)
	}
	if printed := report.Plan(sh.Stdout, p, records.Layout(sh.Stdout, f.verbose)); printed != nil {
		return errors.Join(err, printed)
	}
	return err
}
