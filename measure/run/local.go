package run

import (
	"context"

	"ceiling/experiment/spec"
	"ceiling/measure/profile/stacks"
	"ceiling/record"
)

// Local is the Work of this machine: one agent with the whole share.
type Local struct {
	// Version of this program, for the environment.
	Version string
	// tables that its runs share; nil: each has its own.
	tables *stacks.Tables
}

// localJob is a share that is the whole.
type localJob struct{ *part }

// Prepare implements Work.
func (l Local) Prepare(ctx context.Context, s *spec.Spec) (Job, error) {
	if err := apart(ctx, s); err != nil {
		return nil, err
	}
	p, err := prepare(ctx, s, ShareOptions{Load: true, Observe: true, Version: l.Version, tables: l.tables})
	if err != nil {
		return nil, err
	}
	return localJob{p}, nil
}

// Environment implements Job.
func (j localJob) Environment() record.Environment { return j.env }

// Close implements Job.
func (j localJob) Close() error { return j.restore() }

// Do implements Job.
func (j localJob) Do(ctx context.Context, sink Sink) (*Worked, error) {
	d, err := j.do(ctx, sink)
	if err != nil {
		return nil, err
	}
	return &Worked{Result: d.Result, Threads: d.Threads, Connections: d.Connections, Target: d.Target, Found: d.Found}, nil
}
