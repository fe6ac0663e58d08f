package run

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/ring"
)

// RefuseFar rejects what only the machine that starts a run can do.
func RefuseFar(s *spec.Spec) error {
	if s.PinGenerator != "" {
		return fmt.Errorf("%w: --pin-generator: machines have different CPUs; remove it, and start the agents with taskset", exit.ErrRefused)
	}
	if s.Apart {
		return fmt.Errorf("%w: --separate-cpus: agents load from other machines; remove it, or start an agent and a server that share one with taskset", exit.ErrRefused)
	}
	if s.Proxy != "" {
		return fmt.Errorf("%w: --proxy: agents load only the addresses that they allow, and a proxy leads to any; remove it", exit.ErrRefused)
	}
	if len(s.SourceIPs) > 0 {
		return fmt.Errorf("%w: --source-ips: machines have different addresses; with several machines each has its own ports already", exit.ErrRefused)
	}
	return nil
}

// Host is a Work that starts an experiment's servers on their own machine.
type Host interface {
	Work
	// Hosting returns the address that servers are started on. The error says why none are, and what
	// to do; it wraps exit.ErrRefused.
	Hosting(ctx context.Context) (netip.Addr, error)
	// Start starts a server on some of that machine's CPUs, nil for all, and returns its address, or
	// its URL if that is not http, once it accepts connections.
	Start(ctx context.Context, o *spec.Own, cpus []int) (Instance, string, error)
}

// Instance is a server that was started for an experiment.
type Instance interface {
	// Died returns nil while it runs; then how it ended.
	Died() error
	// Stop ends it, and waits for that.
	Stop()
}

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
