//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"ceiling/check/calibrate"
	"ceiling/cmd/internal/command"
	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/unit"
	"ceiling/record"
)

// calibrateFlags are the flags of doctor --calibrate.
type calibrateFlags struct {
	on               bool
	duration, engine string
}

func (f *calibrateFlags) bind(p *pflag.FlagSet) {
	p.BoolVar(&f.on, "calibrate", false, "measure the generator's capacity instead, and what observing costs a server (a minute)")
	p.StringVarP(&f.duration, "duration", "d", "1s", "--calibrate: duration of each of the 27 measurements")
	p.StringVar(&f.engine, "engine", spec.EngineAuto, "--calibrate: auto, uring or epoll")
}

// observingBlocks take 24 s. Six are the fewest for an interval at 95 %; 15 tolerate a disturbed one.
const observingBlocks = 15

// config checks the flags.
func (f *calibrateFlags) config() (calibrate.Config, error) {
	cfg := calibrate.Config{Engine: f.engine, Version: command.Version(), Observing: observingBlocks}
	switch err := span(&cfg.Duration, "--duration", f.duration); {
	case err != nil:
		return cfg, err
	case cfg.Duration < 10*time.Millisecond || cfg.Duration > time.Minute:
		return cfg, fmt.Errorf("--duration %s: must be 10ms–1m; the default is 1s", f.duration)
	case f.engine != spec.EngineAuto && f.engine != spec.EngineUring && f.engine != spec.EngineEpoll:
		return cfg, fmt.Errorf("invalid --engine %q (use auto, uring or epoll)", f.engine)
	}
	if cfg.Duration < calibrate.Reliable { // in haste
		cfg.Observing = 0
	}
	return cfg, nil
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
			left := time.Duration(of-done)*cfg.Duration*5/4 + calibrate.ObservingTakes(cfg.Observing)
			live.Print(fmt.Sprintf("%d of %d: %s (%s left)", done+1, of, what, unit.FormatDuration(left)))
		}
	}
	done, err := calibrate.Measure(ctx, cfg)
	live.Clear()
	if errors.Is(err, context.Canceled) {
		sh.Exit = exit.Interrupted
		return nil
	}
	if err != nil {
		return err
	}
	if err := record.KeepCalibration(file, done); err != nil {
		return err
	}
	if o.json {
		return sh.JSON(done)
	}
	if err := sh.Folded(func(w io.Writer) error { return calibrate.Text(w, done) }); err != nil {
		return err
	}
	fmt.Fprintf(sh.Stderr, "saved to %s; later runs show their headroom against it\n", file)
	return nil
}
