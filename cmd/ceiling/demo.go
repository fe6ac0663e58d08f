package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/headroom"
	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/unit"
	"ceiling/measure/cores"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/server"
	"ceiling/show/layout"
	"ceiling/verdict/prose"
)

// demoServers are the command lines of `ceiling serve` that a demo measures.
func demoServers() [][]string {
	list := [][]string{{"nethttp"}, {"fasthttp"}, {"fiber"}}
	if kind, err := server.Lookup("fiber"); err == nil && kind.Prefork {
		list = append(list, []string{"fiber", "--prefork"})
	}
	return list
}

const demoConnections = 64

func demoRoutes() []string { return []string{"/simple", "/read", "/list", "/compute"} }

func newDemo(sh *shell) *cobra.Command {
	duration := 2 * time.Second
	c := &cobra.Command{
		Use:   "demo",
		Short: "Measure the built-in servers, as an example",
		Long: `Starts net/http, fasthttp, fiber and fiber with prefork one after the other on
free loopback ports, and measures /simple, /read, /list and /compute on each
with 64 connections. Generator and server run on separate CPUs, so the figures
are the server's. Every run is saved; ceiling list shows them.`,
		Example: "  ceiling demo",
		Args:    command.Exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			return sh.perform(c.Context(), &demo{duration}, nil)
		},
	}
	c.Flags().DurationVarP(&duration, "duration", "d", duration, "measured time of each run")
	return c
}

// demoColumns are the columns of the demo's table.
func demoColumns() []layout.Column {
	return []layout.Column{
		{Name: "server", Width: 13}, {Name: "route", Width: 8}, {Name: "req/s", Width: 11, Right: true},
		{Name: "p50", Width: 8, Right: true, Drop: 2},
		{Name: "p99", Width: 8, Right: true}, {Name: "generator", Width: 10, Right: true, Drop: 3}, {Name: "bottleneck", Width: 22, Least: 14},
	}
}

// demoRow is one finished run of the demo.
type demoRow struct {
	name, route string
	run         *record.Run
}

// demo is the job that measures the built-in servers.
type demo struct{ duration time.Duration }

func (o *demo) do(ctx context.Context, sh *shell) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	headroom.Know(ctx, &sh.Shell, spec.EngineAuto, time.Duration(len(demoServers())*len(demoRoutes()))*o.duration)
	split, err := run.SplitForOwn(demoConnections)
	if err != nil {
		fmt.Fprintf(sh.Stdout, "generator and server share their CPUs: %s\n\n", command.OneLine(err))
	} else {
		fmt.Fprintf(sh.Stdout, "%s\n\n", split)
	}
	table := layout.NewGrid(command.Output(sh.Stdout), demoColumns())
	fmt.Fprintln(sh.Stdout, table.Head())
	var rows []demoRow
	for _, server := range demoServers() {
		measured, err := demoServer(sh, ctx, exe, server, o.duration, split, table)
		rows = append(rows, measured...)
		if ctx.Err() != nil {
			sh.Exit = exit.Interrupted
			return nil
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintln(sh.Stdout)
	for _, r := range rows {
		v := &r.run.Verdict
		text := fmt.Sprintf("%-13s %-8s  %-7s %s: %s", r.name, r.route, v.Outcome, v.Bottleneck, prose.Reason(v))
		if l := command.Output(sh.Stdout); l.Screen {
			if err := l.Paragraph(sh.Stdout, text); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(sh.Stdout, text)
	}
	fmt.Fprintf(sh.Stdout, "\nsaved %d runs; see: ceiling list, ceiling show %s\n", len(rows), rows[len(rows)-1].run.ID)
	return nil
}

// demoServer starts one server, measures its routes and stops it.
func demoServer(sh *shell, ctx context.Context, exe string, server []string, duration time.Duration, split cores.Split,
	table *layout.Grid) (rows []demoRow, err error) {
	name := strings.ReplaceAll(strings.Join(server, " "), "--", "")
	child, err := run.StartChildOn(ctx, split.Server, exe, append([]string{"serve", "--addr", "127.0.0.1:0"}, server...)...)
	if err != nil {
		return nil, err
	}
	defer child.Stop()
	for _, route := range demoRoutes() {
		s := spec.Spec{
			Targets:   []spec.Target{{Method: "GET", URL: "http://" + child.Addr + route, Weight: 1}},
			Condition: spec.Condition{Connections: demoConnections, Pipelining: 1}, Duration: duration, Warmup: duration / 5,
			Timeout: 2 * time.Second, Settings: spec.Settings{Engine: spec.EngineAuto, PinGenerator: cores.Format(split.Generator)}, Seed: 1,
		}
		done, err := run.Do(ctx, s, run.Options{Command: sh.Args, Version: command.Version()})
		if err != nil {
			return rows, err
		}
		r := &done.Run
		rows = append(rows, demoRow{name, route, r})
		fmt.Fprintln(sh.Stdout, table.Row(name, route, unit.FormatCount(int64(r.Rate.CompletedPerS+0.5)),
			r.Latency.Response.Text(.5), r.Latency.Response.Text(.99),
			unit.FormatNs(int64(r.Generator.CPUNsPerRequest)), string(r.Verdict.Bottleneck)))
		if done.KeepErr != nil {
			return rows, fmt.Errorf("keep the run: %w", done.KeepErr)
		}
		if r.Interrupted {
			return rows, errors.New("interrupted")
		}
	}
	return rows, nil
}
