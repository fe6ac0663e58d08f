//go:build linux

package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ceiling/cmd/internal/command"
	"ceiling/experiment/spec"
)

func newProve(sh *shell) *cobra.Command {
	var f runFlags
	var p spec.Prove
	var blocks int
	c := &cobra.Command{
		Use:   "prove URL",
		Short: "Prove the bottleneck by experiment",
		Long: `Removes a share of one resource at a time (the generator's CPU, the server's
CPU, concurrency, the link if you name it), measures the effect, and restores it.
The resource that throughput follows is the bottleneck.`,
		Example: `  ceiling prove http://127.0.0.1:8080/read
  ceiling prove --interface veth1 --link-speed 1Gbps http://10.0.0.2:8080/`,
		Args: urlOrTargets(&f),
		RunE: func(c *cobra.Command, args []string) error {
			if f.fleet.agents != 0 {
				return command.Usage(errors.New("--agents: prove perturbs this machine; remove it, or run prove on the server's machine"))
			}
			e, err := f.experiment(c.Context(), spec.KindProve, args, sh)
			e.Prove, e.Repeats = p, blocks
			return sh.explore(c.Context(), &f, e, err)
		},
	}
	return sh.declare(c, &f, func(flags *pflag.FlagSet) {
		flags.Float64Var(&p.Share, "share", 0, "share removed from each resource (0 = auto)")
		flags.StringVar(&p.Interface, "interface", "", "network interface to throttle")
		flags.StringVar(&p.Namespace, "namespace", "", "network namespace of that interface")
		flags.IntVar(&blocks, "blocks", 0, "measured blocks (0 = auto)")
		hide(c, "rate", "arrivals", "repeats", "slo", "agents", "observe", "allow-loss", "controller")
		flags.Lookup("duration").DefValue, f.load.duration = "3s", "3s"
	})
}
