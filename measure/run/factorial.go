package run

import (
	"context"
	"errors"
	"fmt"

	"ceiling/experiment/plan"
	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/record"
)

// mayPin rejects CPUs in a factorial experiment's cells that this process does not have, before
// anything starts.
func mayPin(e *spec.Experiment) error {
	for _, c := range e.Cells() {
		for name, list := range map[string]string{"pin_server": c.PinServer, "pin_generator": c.PinGenerator} {
			if list == "" {
				continue
			}
			if _, err := allowedCPUs(list); err != nil {
				return fmt.Errorf("%w: %s: %s: %w", exit.ErrRefused, e.CellLabel(c.Levels), name, err)
			}
		}
	}
	return nil
}

// cellRun does one run of a cell: it tunes the host, starts a server, and looks whether the tuning
// acts while the load runs. It undoes both.
func (x *explorer) cellRun(ctx context.Context, d *plan.Decision) (*record.Measured, error) {
	cell := x.experiment.Cell(d.Next.Cell)
	if err := x.arrange(d.Next, &cell); err != nil {
		return nil, err
	}
	if err := x.bed.shape(ctx, &cell.Link); err != nil {
		return nil, fmt.Errorf("%s: %w", x.plan.Experiment.CellLabel(d.Next.Cell), err)
	}
	kept, undo, err := x.bed.tune(ctx, cell.Tune)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.plan.Experiment.CellLabel(d.Next.Cell), err)
	}
	m, err := x.stepOn(ctx, d)
	if m != nil && err == nil {
		m.Tuned, err = kept()
	}
	x.servers.stop()
	return m, errors.Join(err, undo())
}

// arrange sets the server to start as the step's cell says.
func (x *explorer) arrange(step *record.Step, cell *spec.Cell) error {
	x.servers.list[step.Server] = cell.With(x.experiment.Servers[step.Server])
	x.servers.cpus = startCPUs(x.plan.CPUs)
	if cell.PinServer == "" {
		return nil
	}
	parse := allowedCPUs
	if x.bed.on != nil {
		parse = spec.ParseCPUList // it knows its own
	}
	cpus, err := parse(cell.PinServer)
	x.servers.cpus = cpus
	return err
}

// cellSettings applies a cell's settings to its run. A server that is started has its CPUs from the
// beginning.
func cellSettings(e *spec.Experiment, step *record.Step, s *spec.Spec) {
	cell := e.Cell(step.Cell)
	if e.Servers[step.Server].URL == "" {
		cell.PinServer = ""
	}
	s.Settings = cell.Settings.Onto(s.Settings)
}
