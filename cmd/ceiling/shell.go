package main

import (
	"context"

	"ceiling/cmd/internal/command"
)

// shell is a verb's environment.
type shell struct{ command.Shell }

// outputFlags define the output.
type outputFlags struct {
	json, keepSecrets, verbose, quiet bool
	out, live                         string
	files                             string // directory for profiles
}

// job is a resolved command line: all that its flags say, before anything has an effect.
type job interface {
	do(ctx context.Context, sh *shell) error
}

// perform does a job, unless resolving it failed.
func (sh *shell) perform(ctx context.Context, j job, err error) error {
	switch {
	case err != nil:
		return command.Usage(err)
	case sh.Performs != nil:
		return sh.Performs(j)
	}
	return j.do(ctx, sh)
}
