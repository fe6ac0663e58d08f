//go:build linux

// Package hog is the verb that consumes CPU time.
package hog

import (
	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/experiment/spec"
	"ceiling/measure/perturb"
)

// New is the verb that consumes CPU time; a proof starts it as its child.
func New(sh *command.Shell) *cobra.Command {
	var o perturb.HogOptions
	var cpus string
	c := &cobra.Command{
		Use:   "hog",
		Short: "Use up a share of the CPU time, as prove does",
		Long: `Uses a share of the time of the given CPUs, in slices of a quarter of a
millisecond, until its standard input ends.`,
		Example: "  ceiling hog --cpus 1 --share 0.25",
		Hidden:  true,
		Args:    command.Exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if o.CPUs, err = spec.ParseCPUList(cpus); err != nil {
				return command.Usage(err)
			}
			if err := o.Check(); err != nil {
				return command.Usage(err)
			}
			return perturb.Hog(c.Context(), o, sh.Stdin, sh.Stdout)
		},
	}
	c.Flags().StringVar(&cpus, "cpus", "", "CPUs to load, e.g. 0-3,8")
	c.Flags().Float64Var(&o.Share, "share", 0.25, "share of each CPU's time")
	c.Flags().BoolVar(&o.Polite, "polite", false, "do not request real-time priority")
	return c
}
