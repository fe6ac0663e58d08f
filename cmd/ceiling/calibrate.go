package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"ceiling/check/calibrate"
	"ceiling/cmd/internal/command"
	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/measure/run"
	"ceiling/record"
)

func newCalibrate(sh *shell) *cobra.Command {
	var asJSON bool
	duration, engine := "1s", spec.EngineAuto
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure this machine's generator, for the headroom of later runs",
		Long: `Loads ceiling's own floor server from one thread on one CPU, with the server on
the others: responses of 120 bytes, 4.5 KB and 110 KB, with 1, 16 and 100
requests in flight on each of 64 connections, three times each. The result is
saved; later runs on this machine report the generator's headroom from it.`,
		Example: "  ceiling calibrate                            half a minute, on a quiet machine",
		Args:    command.Exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg := calibrate.Config{Engine: engine, Version: command.Version()}
			if err := span(&cfg.Duration, "-d", duration); err != nil {
				return command.Usage(err)
			}
			if cfg.Duration < 10*time.Millisecond || cfg.Duration > time.Minute {
				return command.Usage(fmt.Errorf("-d: %s is not from 10ms to 1m; leave it out for 1s", duration))
			}
			if engine != spec.EngineAuto && engine != spec.EngineUring && engine != spec.EngineEpoll {
				return command.Usage(fmt.Errorf("invalid --engine %q (use auto, uring or epoll)", engine))
			}
			return sh.perform(c.Context(), &calibration{cfg, asJSON}, nil)
		},
	}
	c.Flags().SortFlags = false
	c.Flags().StringVarP(&duration, "duration", "d", duration, "duration of each of the 27 measurements")
	c.Flags().StringVar(&engine, "engine", engine, "auto, uring or epoll")
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON document")
	return c
}

// calibration is the job that measures this machine's generator.
type calibration struct {
	calibrate.Config
	json bool
}

// do measures, saves and prints.
func (o *calibration) do(ctx context.Context, sh *shell) (err error) {
	cfg := o.Config
	file, err := record.CalibrationFile(os.Getenv)
	if err != nil {
		return err
	}
	// Check that the file is writable before measuring for half a minute.
	if _, err := record.ReadCalibrations(file); err != nil {
		return err
	}
	if cfg.Program, err = os.Executable(); err != nil {
		return err
	}
	live := command.NewProgress(sh.Stderr)
	if live != nil {
		cfg.Progress = func(done, of int, what string) {
			left := time.Duration(of-done) * cfg.Duration * 5 / 4
			live.Print(fmt.Sprintf("%d of %d: %s (%s left)", done+1, of, what, unit.FormatDuration(left)))
		}
	}
	done, err := calibrate.Measure(ctx, cfg)
	live.Clear()
	if errors.Is(err, context.Canceled) {
		sh.Exit = run.ExitInterrupted
		return nil
	}
	if err != nil {
		return err
	}
	if err := record.KeepCalibration(file, done); err != nil {
		return err
	}
	if o.json {
		enc := json.NewEncoder(sh.Stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(done)
	}
	if err := sh.Folded(func(w io.Writer) error { return calibrate.Text(w, done) }); err != nil {
		return err
	}
	fmt.Fprintf(sh.Stderr, "saved to %s; later runs show their headroom against it\n", file)
	return nil
}
