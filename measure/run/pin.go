package run

import (
	"errors"
	"fmt"

	"ceiling/experiment/spec"
	"ceiling/measure/observe"
	"ceiling/measure/perturb"
	"ceiling/measure/tune"
)

// pinning is the subject on other CPUs for the time of a run; nil leaves it
// where it is.
type pinning struct{ held *perturb.Pinned }

// pinServer moves every thread of the subject to the CPUs of the list.
func pinServer(list string, to target) (*pinning, error) {
	cpus, err := spec.ParseCPUList(list)
	if err != nil {
		return nil, fmt.Errorf("%w: --pin-server: %w", ErrRefused, err)
	}
	pids, err := subjectPIDs(to)
	if err != nil {
		return nil, err
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("%w: --pin-server: no process that serves %s was found on this host; it has to run here, and be yours or you root",
			ErrRefused, to)
	}
	held, err := perturb.Pin(pids, cpus)
	if err != nil {
		return nil, fmt.Errorf("%w: --pin-server: %w", ErrRefused, err)
	}
	return &pinning{held}, nil
}

// restore gives every thread what it had.
func (p *pinning) restore() error {
	if p == nil {
		return nil
	}
	return p.held.Restore()
}

// RestorePins undoes what runs have left behind that were killed: pinned
// threads, slower links and tunings. It is called at the start of every run; an error
// is told and does not stop it.
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

// startTicks tells when a process began: with its number its identity.
func startTicks(pid int) (uint64, error) { return perturb.StartTicks(pid) }
