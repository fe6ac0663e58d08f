package calibrate

import (
	"context"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
	"ceiling/record"
)

const (
	// firstDuration of each of the nine measurements of a first calibration, which
	// takes 1.7 s with their warm-ups. How that compares with the long form is in
	// docs/calibration.md.
	firstDuration = 150 * time.Millisecond
	// worth is the measured time from which a run has that much to spare: a third
	// of it, once. Shorter ones are looks in passing.
	worth = 5 * time.Second
)

// FirstTakes is about how long First takes.
const FirstTakes = 2 * time.Second

// Wanted says why the generator of this host is to be measured before a run with
// this engine that measures for so long; "" where a calibration fits, or the run
// is too short for that. all are those that are kept.
func Wanted(all []record.Calibration, version, engine string, measures time.Duration) (why string) {
	if measures < worth {
		return ""
	}
	if engine == "" || engine == spec.EngineAuto {
		if engine = chosen(); engine == "" {
			return "" // the run itself will say why there is none
		}
	}
	env := record.ReadEnvironment(version)
	_, why = record.FitCalibration(all, &env, engine)
	return why
}

// chosen is the engine that a run gets here which leaves the choice to us.
func chosen() string {
	release := sys.HoldThread()
	defer release()
	r, err := ring.Open(ring.Config{})
	if err != nil {
		return ""
	}
	name := r.Engine()
	if r.Shut() != nil {
		return ""
	}
	return name
}

// First calibrates in short, for the first run on a host.
func First(ctx context.Context, c Config) (*record.Calibration, error) {
	c.Duration, c.Repeats = firstDuration, 1
	return Measure(ctx, c)
}
