package run

import (
	"cmp"
	"fmt"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// mayPin refuses CPUs of a factorial experiment's cells that this process does not
// have, before anything is started.
func mayPin(e *spec.Experiment) error {
	for _, c := range e.Cells() {
		for name, list := range map[string]string{"pin_server": c.PinServer, "pin_generator": c.PinGenerator} {
			if list == "" {
				continue
			}
			if _, err := allowedCPUs(list); err != nil {
				return fmt.Errorf("%w: %s: %s: %w", ErrRefused, e.CellLabel(c.Levels), name, err)
			}
		}
	}
	return nil
}

// arrange has a server start as the step's cell says.
func (x *explorer) arrange(step *record.Step, cell *spec.Cell) error {
	if step.Cell == nil {
		return nil
	}
	x.servers.list[step.Server] = cell.With(x.experiment.Servers[step.Server])
	x.servers.cpus = startCPUs(x.plan.CPUs)
	if cell.PinServer == "" {
		return nil
	}
	cpus, err := allowedCPUs(cell.PinServer)
	x.servers.cpus = cpus
	return err
}

// pinCell puts a cell's own CPUs into its run. A server that is started has them from
// the beginning.
func pinCell(cell *spec.Cell, server *spec.Server, s *spec.Spec) {
	s.PinGenerator = cmp.Or(cell.PinGenerator, s.PinGenerator)
	if server.URL != "" {
		s.PinServer = cmp.Or(cell.PinServer, s.PinServer)
	}
}
