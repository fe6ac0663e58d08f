package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ceiling/experiment/plan"
	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/measure/perturb"
	"ceiling/record"
)

// survey finds, once per proof, the resources that can be perturbed.
func (x *explorer) survey(ctx context.Context, base string, step *record.Step) error {
	if x.scene != nil {
		return nil
	}
	e := x.experiment
	address, err := e.Load.Address(base)
	if err != nil {
		return err
	}
	to, err := resolve(ctx, address, nil)
	if err != nil {
		return err
	}
	pids, err := subjectPIDs(to)
	if err != nil {
		return err
	}
	s, err := e.Spec(base, step.Mix, &step.Condition)
	if err != nil {
		return err
	}
	splitOf(x.plan.CPUs, &e.Servers[step.Server], &s)
	iface, namespace := x.bed.throttled(&e.Prove)
	x.scene, err = perturb.Survey(perturb.Request{
		Share: plan.ProofShare(e), PIDs: pids, PinGenerator: s.PinGenerator, PinServer: s.PinServer,
		Condition: s.Condition, Interface: iface, Namespace: namespace, LinkBitsPerS: s.LinkBitsPerSecond, Program: x.options.Program,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	return nil
}

// proofRun does one run of a proof: with one resource reduced, or undisturbed. A resource that
// cannot be reduced from here gets no run, and a reason.
func (x *explorer) proofRun(ctx context.Context, step *record.Step, base string, s spec.Spec, o Options) (*record.Measured, error) {
	if err := x.survey(ctx, base, step); err != nil {
		return nil, err
	}
	if why := x.scene.Lacks(step.Perturb.Resource); why != "" {
		return &record.Measured{Step: *step, Started: time.Now(), Outcome: record.Invalid, NotRun: why}, nil
	}
	taking, err := x.scene.Begin(ctx, step)
	if err != nil {
		return nil, err
	}
	s.PinGenerator, s.PinServer = x.scene.PinGenerator, taking.PinServer
	s.Threads = min(x.scene.Threads, s.Connections)
	m, err := x.one(ctx, step, s, o)
	var opened time.Time
	elapsed := 0.0
	if m != nil {
		opened, elapsed = m.Started, m.ElapsedS
	}
	taken, gaveBack := taking.End(opened, elapsed)
	if err != nil {
		return nil, errors.Join(err, gaveBack)
	}
	if step.Perturb.Resource != "" {
		m.Perturbed = &taken
	}
	return m, gaveBack
}
