package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"ceiling/check/doctor"
	"ceiling/cmd/internal/command"
	"ceiling/measure/run"
)

// doctorWatches is how long doctor monitors the host's activity.
const doctorWatches = time.Second

func newDoctor(sh *shell) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor [URL]",
		Short: "Check this host for problems that would disturb a run",
		Long: `Checks limits, ports, clocks, CPUs, other processes, queues and the kernel; with a
URL also the network path, and whether its server can be observed. Takes about a
second, changes nothing and sends no requests. Exit code 3: a check failed.`,
		Example: `  ceiling doctor
  ceiling doctor http://127.0.0.1:8080/`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return command.Exactly(1, "at most one URL")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			cfg := doctor.Config{Watch: doctorWatches, Version: command.Version()}
			if len(args) == 1 {
				if err := notURL(args[0]); err != nil {
					return command.Usage(err)
				}
				cfg.URL = args[0]
			}
			facts, err := doctor.Examine(c.Context(), cfg)
			if c.Context().Err() != nil {
				sh.Exit = run.ExitInterrupted
				return nil
			}
			if err != nil {
				return command.Usage(err)
			}
			report := doctor.Diagnose(facts)
			if report.Count(doctor.Bad) > 0 {
				sh.Exit = run.ExitFail
			}
			if asJSON {
				return doctor.WriteJSON(sh.Stdout, &report)
			}
			return sh.Folded(func(w io.Writer) error { return doctor.Text(w, &report) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as one JSON document")
	return c
}
