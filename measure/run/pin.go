package run

import (
	"errors"
	"fmt"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/measure/observe"
	"ceiling/measure/perturb"
	"ceiling/measure/tune"
)

// pinning is the subject pinned to other CPUs during the run; nil leaves it alone.
type pinning struct{ held *perturb.Pinned }

// pinServer moves every thread of the subject to the CPUs of the list.
func pinServer(list string, to target) (*pinning, error) {
	cpus, err := spec.ParseCPUList(list)
	if err != nil {
		return nil, fmt.Errorf("%w: --pin-server: %w", exit.ErrRefused, err)
	}
	pids, err := subjectPIDs(to)
	if err != nil {
		return nil, err
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("%w: --pin-server: no process that serves %s was found on this host; it must run on this host, as your user (or run ceiling as root)",
			exit.ErrRefused, to)
	}
	held, err := perturb.Pin(pids, cpus)
	if err != nil {
		return nil, fmt.Errorf("%w: --pin-server: %w", exit.ErrRefused, err)
	}
	return &pinning{held}, nil
}

// restore restores every thread's CPUs.
func (p *pinning) restore() error {
	if p == nil {
		return nil
	}
	return p.held.Restore()
}

// RestorePins undoes what killed runs left behind: pinned threads, slower links and tunings. Every
// run calls it at its start; an error is reported and does not stop it.
func RestorePins() error { return errors.Join(perturb.Restore(), (&tune.Host{}).Restore()) }

// subjectPIDs finds the server's processes as an observer would.
func subjectPIDs(to target) ([]int, error) {
	o, err := observe.New(to.observed())
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return o.Subject(), nil
}

// startTicks returns when a process began: with its PID, its identity.
func startTicks(pid int) (uint64, error) { return perturb.StartTicks(pid) }
