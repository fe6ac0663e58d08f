package run

import (
	"fmt"
	"runtime"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/ring"
)

// checkSystem refuses what needs Linux on another system, by the names of the flags.
func checkSystem(s *spec.Spec) error {
	if !ring.OnlyPortable {
		return nil
	}
	what := ""
	switch {
	case s.Engine == spec.EngineUring || s.Engine == spec.EngineEpoll:
		what = "--engine " + s.Engine
	case s.PinGenerator != "":
		what = "--pin-generator"
	case s.PinServer != "":
		what = "--pin-server"
	case s.Apart:
		what = "--separate-cpus"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s needs Linux, and this is %s; remove it", exit.ErrRefused, what, runtime.GOOS)
}

// errTogether says why generator and server share CPUs on other systems than Linux.
var errTogether = fmt.Errorf("CPUs are assigned only on Linux, and this is %s", runtime.GOOS) // read-only
