package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// userShare measures the user-space part of the engine's CPU. getrusage(2) splits user from
// system by the tick, and for the whole process. If perf is installed, one more run per work is
// sampled, on the engine's threads only.
func (b *bench) userShare(ctx context.Context, e *Entry, cells []cell) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		b.caveat("no perf here: the user-space share is the process's, split by the tick")
		perf = ""
	}
	for _, w := range works() {
		if w.userNs == 0 || ctx.Err() != nil {
			continue
		}
		u := UserShare{Work: w.name, ByTickNs: of(cells, w.name, ours, (*cell).ownUserNsPerRequest)}
		if u.ByTickNs.N == 0 {
			continue // its runs failed, already reported
		}
		value := u.ByTickNs.Median
		if perf != "" {
			if err := b.sampled(ctx, perf, w, &u); err != nil {
				b.caveat("%s: perf: %v: the user-space share is the process's, split by the tick", w.name, err)
			} else {
				value = *u.SampledNs
			}
		}
		e.User = append(e.User, u)
		e.Targets = append(e.Targets, target(w.name+": user-space CPU of the engine", value, w.userNs, "ns/request"))
	}
}

// samplesPerS of perf's clock, per CPU: not a multiple of the tick's 250, to avoid beating with
// work started by the tick.
const samplesPerS = 3989

// sampled runs ours under perf record and counts the samples.
func (b *bench) sampled(ctx context.Context, perf string, w work, u *UserShare) error {
	dir, err := os.MkdirTemp("", "ceiling-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := &b.tools[0] // ours
	args, _ := t.arguments(b.job(w), dir)
	data := filepath.Join(dir, "perf.data")
	line := append([]string{perf, "record", "-q", "-e", "cpu-clock", "-F", strconv.Itoa(samplesPerS), "-o", data, "--", t.Path}, args...)
	o, err := t.runCommand(ctx, line, b.job(w))
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, perf, "script", "-i", data, "-F", "tid,ip").Output()
	if err != nil {
		return fmt.Errorf("perf script: %w", err)
	}
	if u.Samples, u.UserSamples, err = countSamples(out, o.Ours.WorkerThreads); err != nil {
		return err
	}
	ns := o.Ours.WorkerNs / float64(o.Completed) * float64(u.UserSamples) / float64(u.Samples)
	u.SampledNs = &ns
	return nil
}

// countSamples counts the lines "TID ADDRESS" of these threads, and those in user space: the
// lower half of the address space.
func countSamples(script []byte, threads []int) (all, user int, err error) {
	for line := range bytes.Lines(script) {
		f := bytes.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) < 2 {
			return 0, 0, fmt.Errorf("perf script: line %q", line)
		}
		tid, err := strconv.Atoi(string(f[0]))
		if err != nil {
			return 0, 0, fmt.Errorf("perf script: line %q: %w", line, err)
		}
		address, err := strconv.ParseUint(string(f[1]), 16, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("perf script: line %q: %w", line, err)
		}
		if !slices.Contains(threads, tid) {
			continue
		}
		all++
		if address < 1<<63 {
			user++
		}
	}
	if all == 0 {
		return 0, 0, errors.New("no sample of the engine's threads")
	}
	return all, user, nil
}
