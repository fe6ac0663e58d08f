// Package headroom calibrates the generator before a run that deserves it.
package headroom

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"ceiling/check/calibrate"
	"ceiling/cmd/internal/command"
	"ceiling/internal/unit"
	"ceiling/record"
)

// Know calibrates this host's generator before the first run that is long enough to
// justify it, so that later runs know their headroom. It never prevents a run: it prints errors,
// and the run reports an unknown headroom.
func Know(ctx context.Context, sh *command.Shell, engine string, measures time.Duration) {
	file, err := record.CalibrationFile(os.Getenv)
	if err != nil {
		return // the run reports it
	}
	all, err := record.ReadCalibrations(file)
	if err != nil {
		return // the run reports it
	}
	why := calibrate.Wanted(all, command.Version(), engine, measures)
	if why == "" {
		return
	}
	sh.Note("calibrating the generator and what observing costs (about %s): %s", unit.FormatDuration(calibrate.FirstTakes), oneReason(all, why))
	c := calibrate.Config{Engine: engine, Version: command.Version()}
	if c.Program, err = os.Executable(); err == nil {
		var done *record.Calibration
		if done, err = calibrate.First(ctx, c); err == nil {
			err = record.KeepCalibration(file, done)
		}
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(sh.Stderr, "ceiling: the generator's headroom stays unknown: %s\n", command.OneLine(err))
	}
}

// oneReason returns why no calibration is usable, without the advice to make one.
func oneReason(all []record.Calibration, why string) string {
	if len(all) == 0 {
		return "once per host"
	}
	why, _, _ = strings.Cut(why, ";")
	return why
}
