//go:build linux

package main

import (
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"ceiling/check/doctor"
	"ceiling/cmd/internal/command"
	"ceiling/internal/exit"
)

// doctorWatches is how long doctor monitors the host's activity.
const doctorWatches = time.Second

func newDoctor(sh *shell) *cobra.Command {
	var asJSON bool
	var calibrates calibrateFlags
	c := &cobra.Command{
		Use:   "doctor [URL]",
		Short: "Check this host for problems that would disturb a run",
		Long: `Checks limits, ports, clocks, CPUs, other processes, queues and the kernel; with a
URL also the network path, and whether its server can be observed. Takes about a
second, changes nothing and sends no requests. Exit code 3: a check failed.

With --calibrate it measures this host's generator instead: it loads ceiling's own
floor server from one thread on one CPU, with responses of 120 bytes, 4.5 KB and
110 KB, and 1, 16 and 100 requests in flight on each of 64 connections, three times
each. Later runs on this host report the generator's headroom from the result. Then
it measures what observing costs that server, with the observers on and off in turn.`,
		Example: `  ceiling doctor
  ceiling doctor http://127.0.0.1:8080/
  ceiling doctor --calibrate                   a minute, on a quiet machine`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			if calibrates.on {
				return command.Usage(errors.New("--calibrate measures this host, not a server; remove the URL"))
			}
			return command.Exactly(1, "at most one URL")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if calibrates.on {
				cfg, err := calibrates.config()
				return sh.perform(c.Context(), &calibration{cfg, asJSON}, err)
			}
			if err := only(c, []string{"json"}, func(string) string { return "only used with --calibrate; add that, or remove this" }); err != nil {
				return command.Usage(err)
			}
			cfg := doctor.Config{Watch: doctorWatches, Version: command.Version()}
			if len(args) == 1 {
				if err := notURL(args[0]); err != nil {
					return command.Usage(err)
				}
				cfg.URL = args[0]
			}
			facts, err := doctor.Examine(c.Context(), cfg)
			if c.Context().Err() != nil {
				sh.Exit = exit.Interrupted
				return nil
			}
			if err != nil {
				return command.Usage(err)
			}
			report := doctor.Diagnose(facts)
			if report.Count(doctor.Bad) > 0 {
				sh.Exit = exit.Fail
			}
			if asJSON {
				return doctor.WriteJSON(sh.Stdout, &report)
			}
			return sh.Folded(func(w io.Writer) error { return doctor.Text(w, &report) })
		},
	}
	c.Flags().SortFlags = false
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as one JSON document")
	calibrates.bind(c.Flags())
	return c
}
