package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"ceiling/check/calibrate"
	"ceiling/internal/unit"
	"ceiling/record"
)

// knowHeadroom calibrates this host's generator before the first run that is long enough to
// justify it, so that later runs know their headroom. It never prevents a run: it prints errors,
// and the run reports an unknown headroom.
func (sh *shell) knowHeadroom(ctx context.Context, engine string, measures time.Duration) {
	file, err := record.CalibrationFile(os.Getenv)
	if err != nil {
		return // the run reports it
	}
	all, err := record.ReadCalibrations(file)
	if err != nil {
		return // the run reports it
	}
	why := calibrate.Wanted(all, version(), engine, measures)
	if why == "" {
		return
	}
	sh.note("measuring this host's generator first, about %s: %s", unit.FormatDuration(calibrate.FirstTakes),
		oneReason(all, why))
	c := calibrate.Config{Engine: engine, Version: version()}
	if c.Program, err = os.Executable(); err == nil {
		var done *record.Calibration
		if done, err = calibrate.First(ctx, c); err == nil {
			err = record.KeepCalibration(file, done)
		}
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(sh.stderr, "ceiling: the generator's headroom stays unknown: %s\n", oneLine(err))
	}
}

// oneReason returns why no calibration is usable, without the advice to make one.
func oneReason(all []record.Calibration, why string) string {
	if len(all) == 0 {
		return "its first run of this length here"
	}
	why, _, _ = strings.Cut(why, ";")
	return why
}
