package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ceiling/cmd/internal/command"
	"ceiling/experiment/plan"
	"ceiling/experiment/spec"
)

// compareFlags are the flags of a comparison beyond those of its runs.
type compareFlags struct {
	serve []string
	path  string
	asked spec.Compare
}

func newCompare(sh *shell) *cobra.Command {
	var f runFlags
	var o compareFlags
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare A and B: faster, slower or no change",
		Long: `Interleaves two servers (A B B A, and A vs A for the machine's own noise) and
reports faster, slower, no change within ±x%, or inconclusive.
Each side is a URL or, with --serve, a command that starts a server; or both
are records of earlier runs, or results of other tools.`,
		Example: `  ceiling compare --serve './old -addr {addr}' --serve './new -addr {addr}' --path /read
  ceiling compare http://127.0.0.1:8080/ http://127.0.0.1:8081/ --fail-on 'rps<-5%,p99>+10%'
  ceiling compare x7f2 k3pq`,
		Args: func(c *cobra.Command, args []string) error {
			if n := len(args) + len(o.serve); n == 2 || n == 1 && len(args) == 1 && spec.IsExperimentFile(args[0]) {
				return nil
			}
			return command.Usage(fmt.Errorf("compare takes two of URL, record and --serve COMMAND, or one FILE.yaml; see: %s --help", c.CommandPath()))
		},
		RunE: func(c *cobra.Command, args []string) error { return sh.compare(c, args, &f, &o) },
	}
	return sh.declare(c, &f, func(p *pflag.FlagSet) {
		p.StringArrayVar(&o.serve, "serve", nil, "command that starts a server at {addr} (up to twice)")
		p.StringVar(&o.path, "path", "", "path to request from a started server (default /)")
		p.StringVar(&o.asked.FailOn, "fail-on", "", "exit 3 if true, 4 if inconclusive: 'rps<-5%,p99>+10%'")
		p.IntVar(&o.asked.Blocks, "blocks", 0, "blocks of A B B A (0 = auto)")
		p.IntVar(&o.asked.NoiseBlocks, "noise-blocks", 0, "blocks of A vs A (0 = auto)")
		hide(c, "repeats", "slo", "targets", "connect-ramp", "link-speed")
		p.Lookup("duration").DefValue, f.load.duration = "2s", "2s"
		p.Lookup("pause").DefValue, f.plan.pause = "100ms", "100ms"
	})
}

func (sh *shell) compare(c *cobra.Command, args []string, f *runFlags, o *compareFlags) error {
	if _, err := plan.ParseGate(o.asked.FailOn); err != nil {
		return command.Usage(err)
	}
	if i := slices.IndexFunc(args, spec.IsExperimentFile); i >= 0 {
		if len(args) > 1 {
			return command.Usage(fmt.Errorf("%s is an experiment with its own servers; give only it", args[i]))
		}
		return sh.fromFile(c, args[i], f)
	}
	if len(args) == 2 && (isKept(args[0]) || isKept(args[1])) {
		err := only(c, append(outputNames(), "fail-on"), func(string) string {
			return fmt.Sprintf("%s and %s are measured already; remove it, or compare two URLs", args[0], args[1])
		})
		return sh.perform(c.Context(), &comparison{args[0], args[1], o.asked.FailOn, f.output}, err)
	}
	e, err := o.experiment(c.Context(), args, f, sh)
	return sh.explore(c.Context(), f, e, err)
}

// experiment combines the two sides.
func (o *compareFlags) experiment(ctx context.Context, args []string, f *runFlags, sh *shell) (spec.Experiment, error) {
	path := o.path
	var servers []spec.Server
	for _, url := range args {
		base, p, err := spec.SplitURL(url)
		if err != nil {
			return spec.Experiment{}, err
		}
		if path != "" && p != path && (p != "/" || o.path == "") {
			return spec.Experiment{}, fmt.Errorf("the two URLs have different paths, %s and %s: give both the same", path, p)
		}
		if o.path == "" {
			path = p
		}
		servers = append(servers, spec.Server{URL: base})
	}
	for _, command := range o.serve {
		servers = append(servers, spec.Server{Serve: command})
	}
	if path == "" {
		path = "/"
	}
	if !strings.HasPrefix(path, "/") {
		return spec.Experiment{}, fmt.Errorf("--path: %s does not begin with /", path)
	}
	// Up to here the first server stands for both: the flags define one target.
	base := servers[0].URL
	if base == "" {
		base = "http://127.0.0.1:1"
	}
	e, err := f.experiment(ctx, spec.KindCompare, []string{base + path}, sh)
	e.Servers, e.Compare = servers, o.asked
	return e, err
}
