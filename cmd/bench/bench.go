package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"ceiling/check/race"
	"ceiling/internal/pause"
	"ceiling/internal/sys"
	"ceiling/measure/cores"
	"ceiling/measure/run"
)

// bench is one run of this command.
type bench struct {
	options
	tools []tool
	host  Host
	log   io.Writer
	// failures and caveats are texts for the entry, in order of occurrence.
	failures, caveats []string
	servers           map[transport]*served
	split             cores.Split // of the CPUs, for the works with separate ones
	dir               string      // of the floor's program, and of nginx
}

func newBench(ctx context.Context, o options, log io.Writer) (*bench, error) {
	tools, err := findTools(ctx, o.binary)
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, tools: tools, host: readHost(), log: log}
	b.binary = tools[0].Path
	if b.dir, err = os.MkdirTemp("", "ceiling-bench-"); err != nil {
		return nil, err
	}
	b.split, err = run.SplitForOwn(o.connections)
	if err != nil {
		b.caveat("no workloads with separate CPUs: %v", err)
	}
	if b.servers, err = startServers(ctx, b.binary, b.dir, b.split); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// serverKind is the cheapest framework, so that the generators make the difference.
const serverKind = "fasthttp"

func (b *bench) close() {
	for _, s := range b.servers {
		s.Stop()
		if err := s.Err(); err != nil {
			fmt.Fprintln(b.log, "bench: the server:", err)
		}
	}
	if err := os.RemoveAll(b.dir); err != nil {
		fmt.Fprintln(b.log, "bench:", err)
	}
}

// addFloor compiles the floor and has it measured like a tool, if it can be compiled.
func (b *bench) addFloor(ctx context.Context) {
	path, err := compileFloor(ctx, b.dir)
	if err != nil {
		b.caveat("the floor was not measured (it needs cc and liburing-dev): %v", err)
		return
	}
	b.tools = append(b.tools, floorTools(path)...)
}

func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(b.log, "bench: "+format+"\n", args...)
}

// failed records what could not be measured; the rest continues.
func (b *bench) failed(ctx context.Context, what string, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	b.failures = append(b.failures, what+": "+err.Error())
	b.progress("%s: %v", what, err)
}

func (b *bench) caveat(format string, args ...any) {
	b.caveats = append(b.caveats, fmt.Sprintf(format, args...))
}

// run measures everything requested.
func (b *bench) run(ctx context.Context) Entry {
	e := Entry{
		Schema: ledgerSchema, Time: time.Now().UTC().Truncate(time.Second), Host: b.host, Tools: map[string]string{},
		Settings: Settings{Rounds: b.rounds, DurationS: b.duration.Seconds(), Connections: b.connections, Seed: b.seed, Server: serverKind},
	}
	var err error
	e.Commit, e.Dirty, err = commit(ctx)
	if err != nil {
		b.caveat("the commit is unknown: %v", err)
	}
	for _, t := range b.tools {
		e.Tools[t.Name] = t.Version
	}
	begin := time.Now()
	if b.only == onlyAccuracy {
		b.accuracy(ctx, &e)
	}
	if b.only == "" || b.only == onlySpeed {
		b.addFloor(ctx)
		b.calm(ctx, onlySpeed)
		b.startup(ctx, &e)
		b.userShare(ctx, &e, b.speed(ctx, &e))
	}
	if b.only == "" || b.only == onlyRace {
		b.calm(ctx, onlyRace)
		b.raced(ctx, &e)
	}
	e.TookS = time.Since(begin).Seconds()
	e.Failures, e.Caveats = b.failures, b.caveats
	return e
}

// calmShare is the share of all CPUs that may be busy before a part of the run.
const calmShare = 0.05

// calm observes the idle host for two seconds.
func (b *bench) calm(ctx context.Context, part string) {
	before, err := sys.HostBusyNs()
	begin := time.Now()
	if err == nil && pause.For(ctx, 2*time.Second) {
		var after int64
		after, err = sys.HostBusyNs()
		share := float64(after-before) / float64(time.Since(begin)*time.Duration(b.host.Cores))
		if err == nil && share > calmShare {
			b.caveat("before the %s part the host was %.0f%% busy with something else: run it again when the machine is calm", part, share*100)
			b.progress("the host is %.0f%% busy with something else", share*100)
		}
	}
	b.failed(ctx, "how busy the host is", err)
}

// startup measures the time from exec to exit with nothing to do.
func (b *bench) startup(ctx context.Context, e *Entry) {
	const times = 20
	var ms, cpu []float64
	for range times {
		begin, c := time.Now(), exec.CommandContext(ctx, b.binary, "--version")
		if err := c.Run(); err != nil {
			b.failed(ctx, "start-up", err)
			return
		}
		ms = append(ms, time.Since(begin).Seconds()*1e3)
		cpu = append(cpu, (c.ProcessState.UserTime()+c.ProcessState.SystemTime()).Seconds()*1e3)
	}
	s, used := spreadOf(ms), spreadOf(cpu)
	e.Startup, e.StartupCPU = &s, &used
}

// raced runs the proxy race against nginx and others, as `ceiling race` does, with this run's
// rounds and seed. The ledger stores the hashes of the configurations; proxy/README.md has their
// texts.
func (b *bench) raced(ctx context.Context, e *Entry) {
	result, err := race.Run(ctx, race.Config{
		Rounds: b.rounds, Duration: 500 * time.Millisecond, Workers: 1, Connections: 60, PerS: 10_000, Seed: b.seed,
		Program: b.binary, Version: b.tools[0].Version, Progress: func(text string) { b.progress("race: %s", text) },
	})
	if err != nil {
		b.failed(ctx, "race", err)
		return
	}
	for i := range result.Cases {
		for k := range result.Cases[i].Rows {
			row := &result.Cases[i].Rows[k]
			row.Configuration, row.Forwards = race.Configuration{}, ""
		}
	}
	e.Race = result
	for _, v := range result.Verdicts {
		e.Targets = append(e.Targets, target("race: "+v.Figure, v.Value, v.Limit, v.Unit))
	}
}
