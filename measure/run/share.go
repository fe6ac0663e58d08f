package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/profiles"
	"ceiling/measure/load"
	"ceiling/measure/profile/stacks"
	"ceiling/record"
)

// DoShare does this host's share of a run. Refusals come before Ready is called and wrap
// exit.ErrRefused. If the context ends, it returns what was measured until then. It returns once all its
// work has ended.
func DoShare(ctx context.Context, s *spec.Spec, o ShareOptions, sink Sink) (*ShareResult, error) {
	if err := checkSystem(s); err != nil {
		return nil, err
	}
	p, err := prepare(ctx, s, o)
	if err != nil {
		return nil, err
	}
	done, err := p.do(ctx, sink)
	left := p.restore()
	if err != nil {
		return nil, errors.Join(err, left)
	}
	if left != nil {
		done.RestoreErr = left.Error()
	}
	return done, nil
}

// part is this host's part in a run: it connects the load engine to the sink, and observes during
// the run.
type part struct {
	ShareOptions
	spec   *spec.Spec
	config *load.Config // nil if it only observes
	target target
	env    record.Environment
	pins   pinned

	sink     Sink
	watch    *watch
	profiler *profiler
	stacks   stacker
	rotation *rotation // nil: no profiles were requested
	subject  sightings
	short    shortages
}

// pinned is what a part has moved to other CPUs, and what could not be moved back before.
type pinned struct {
	server   *pinning
	leftOver error
}

// prepare checks that this host can do the share, and moves the server to the requested CPUs.
func prepare(ctx context.Context, s *spec.Spec, o ShareOptions) (*part, error) {
	if !o.Load && !o.Observe {
		return nil, errors.New("run: a share needs something to do")
	}
	p := &part{ShareOptions: o, spec: s}
	var err error
	if p.config, p.target, err = configure(ctx, s, &o); err != nil {
		return nil, err
	}
	p.pins.leftOver = RestorePins()
	if o.Observe && s.PinServer != "" {
		if p.pins.server, err = pinServer(s.PinServer, p.target); err != nil {
			return nil, err
		}
	}
	p.env = record.ReadEnvironment(o.Version)
	p.Host = cmp.Or(o.Host, p.env.Host)
	p.short = shortages{to: p.target, host: o.Host}
	if p.config != nil {
		p.short.sources = p.config.SourceIPs
	}
	return p, nil
}

// restore undoes the changes to the host, once; its error is what could not be undone, now or from
// an earlier killed run.
func (p *part) restore() error {
	err := errors.Join(p.pins.leftOver, p.pins.server.restore())
	p.pins = pinned{}
	return err
}

// do does the share.
func (p *part) do(ctx context.Context, sink Sink) (*ShareResult, error) {
	if p.tables == nil {
		p.tables = stacks.NewTables()
		defer p.tables.Close()
	}
	p.sink, p.watch = sink, p.newWatch()
	p.profiler = &profiler{}
	if p.Observe {
		p.profiler = newProfiler(ctx, p.spec, p.target, p.watch.subject(), p.Permit)
		p.stacks.effort = p.watch.cost.Effort()
		p.stacks.prepare(p.tables, p.target)
		if p.spec.Profile {
			p.rotation = &rotation{group: p.profiler.group, stacks: &p.stacks, parts: map[string][]profiles.Part{}}
		}
	}
	done := &ShareResult{Target: p.target.String(), Environment: p.env}
	var err error
	if p.Load {
		if done.Result, err = load.Run(ctx, *p.config, p); err != nil {
			err = local(err)
		}
	} else {
		p.onlyObserve(ctx)
	}
	p.watch.close()
	p.pins = pinned{leftOver: errors.Join(p.pins.leftOver, p.pins.server.restore())}
	p.profiler.end()
	p.stacks.end(p.tables, p.Host)
	if err != nil {
		return nil, err
	}
	if p.Load {
		p.strange(ctx, done.Result)
		p.short.again = time.Time{} // with every connection closed
		p.short.look(done.Result.Setup)
		p.short.look(done.Result.Total.Faults)
		done.Shortages = p.short.list
		done.Threads, done.Connections = p.config.Threads, int(p.Share.Part(uint64(p.spec.Connections)))
		p.reserve(done)
	}
	if p.Load {
		p.tell(p.elsewhere())
	}
	p.tell(p.watch.missing)
	done.Profiles, done.CPUProfile = p.profiler.list, p.profiler.raw
	p.tell(p.profiler.missing)
	done.Stacks, done.Folded, done.FoldedOff = p.stacks.found.Stacks, p.stacks.found.CPU, p.stacks.found.OffCPU
	p.tell(p.stacks.missing)
	done.Profiling, done.ProfileFiles = p.rotation.result(p.stacks.found.OnProfile, p.stacks.found.OffProfile, done.Stacks != nil)
	done.Profiles = append(p.rotation.cpuProfile(), done.Profiles...)
	p.tell(p.rotation.notMeasured())
	if p.Observe {
		done.Observing = p.watch.cost
		var missing []record.NotMeasured
		done.Identities, missing = p.subject.identify(p.Host)
		p.tell(missing)
	}
	return done, nil
}

// elsewhere says which servers behind the target were not loaded, or not observed.
func (p *part) elsewhere() (list []record.NotMeasured) {
	if p.target.chosen != "" {
		what := record.OtherAddresses
		if p.spec.AllAddresses {
			what = record.OtherServers
		}
		list = append(list, record.NotMeasured{What: what, Why: p.target.chosen, Part: true})
	}
	if p.target.refused != "" {
		list = append(list, record.NotMeasured{What: record.OtherAddresses, Why: p.target.refused, Part: true})
	}
	if p.spec.Proxy != "" {
		list = append(list, record.NotMeasured{What: record.BehindProxy, Part: true, Why: fmt.Sprintf(
			"the load went through the proxy %s: the server's figures describe the proxy, and what is behind it was not observed",
			p.target)})
	}
	return list
}

// tell reports to the sink what was not measured.
func (p *part) tell(missing []record.NotMeasured) {
	for _, n := range missing {
		n.Host = cmp.Or(n.Host, p.Host)
		p.sink.NotMeasured(n)
	}
}

// reserve finds how far the generator was from its own limit, or says why that is unknown.
func (p *part) reserve(done *ShareResult) {
	r := figures(p.spec, done.Result, done.Connections, done.Threads)
	r.Environment = p.env
	times, by, why := calibrated(&r)
	done.Headroom, done.HeadroomBy = times, by
	if why != "" {
		p.tell([]record.NotMeasured{{What: record.GeneratorHeadroom, Why: why}})
	}
}

// Connected implements load.Observer.
func (p *part) Connected(established, asked int, window time.Time) {
	if !window.IsZero() {
		p.watch.start(window)
	}
	p.sink.Connected(established, asked, window)
}

// Window implements load.Observer.
func (p *part) Window(open bool, at time.Time) {
	if open {
		p.profiler.open(p.spec.Duration)
		if p.Observe {
			p.stacks.open()
			p.rotation.open(at, p.spec.Duration)
		}
	} else {
		p.rotation.close()
		p.watch.stop()
		p.stacks.close()
		p.profiler.close()
	}
	p.sink.Window(open, at)
}

// Interval implements load.Observer.
func (p *part) Interval(t *load.Tally, late bool) {
	p.short.look(t.Faults)
	p.sink.Interval(t, late)
	if p.Observing != nil && !t.Warmup {
		p.observe(p.Observing(t))
	}
}

// observe pauses the observers, or lets them go on.
func (p *part) observe(on bool) {
	switch running := p.watch.cancel != nil; {
	case on && !running:
		p.watch.start(p.watch.window)
		p.stacks.mark(0)
	case !on && running:
		p.stacks.pause()
		p.watch.stop()
	}
}

// observed takes a row from the observer.
func (p *part) observed(row record.ObservedRow) {
	p.subject.see(row)
	p.stacks.see(row)
	p.sink.Observed(row)
}

// overdue is how long an observer waits for the end of the load after its latest possible time.
const overdue = 5 * time.Second

// onlyObserve observes while others generate the load.
func (p *part) onlyObserve(ctx context.Context) {
	if p.Ready != nil {
		p.Ready(0, 0)
	}
	at := time.Now()
	if p.Start != nil {
		var given bool
		select {
		case at, given = <-p.Start:
		case <-ctx.Done():
		case <-p.Over:
		}
		if !given {
			return
		}
	}
	window := at.Add(p.spec.Warmup)
	p.Connected(0, 0, window)
	if !p.wait(ctx, time.Until(window)) {
		p.watch.stop()
		return
	}
	p.Window(true, window)
	if p.spec.Duration > 0 { // a number of requests has no fixed end
		p.wait(ctx, time.Until(window.Add(p.spec.Duration+p.spec.Timeout+overdue)))
	} else {
		p.wait(ctx, spec.DurationMax)
	}
	p.Window(false, time.Now())
}

// wait reports whether the time passed before the end of the run.
func (p *part) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-p.Over:
	}
	return false
}

// AgentOf returns one agent's entry for the record, of its share and its results, without its name,
// roles, clock and fate. rows are its own.
func AgentOf(s *spec.Spec, share load.Share, d *ShareResult, rows []record.LoadRow) record.Agent {
	a := record.Agent{Environment: d.Environment, Share: record.AgentShare(share)}
	if d.Result == nil {
		return a
	}
	r := figures(s, d.Result, d.Connections, d.Threads)
	a.Load, a.ElapsedS, a.Requests, a.Rate, a.Bytes = r.Load, r.ElapsedS, r.Requests, r.Rate, r.Bytes
	a.Load.TargetPerS *= share.Fraction()
	a.Rate.Spread = record.SpreadOf(rows)
	a.Statuses, a.Errors, a.Latency, a.Generator = r.Statuses, r.Errors, r.Latency, r.Generator
	a.Generator.PID, a.Generator.Headroom, a.Generator.HeadroomBy = 0, d.Headroom, d.HeadroomBy
	a.Generator.Shortages = d.Shortages
	record.Blame(a.Errors, s.OverUnix(), d.Shortages)
	a.StartSkewNs = d.Result.StartLateNs
	return a
}

// checkShare rejects a share of the run that has no work.
func checkShare(s *spec.Spec, o *ShareOptions) (connections int, err error) {
	if err := o.Share.Check(); err != nil {
		return 0, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	if connections = int(o.Share.Part(uint64(s.Connections))); connections == 0 {
		return 0, fmt.Errorf("%w: %d connections are too few for so many agents: one has none; give at least -c %d", exit.ErrRefused, s.Connections,
			o.Share.Of)
	}
	return connections, nil
}
