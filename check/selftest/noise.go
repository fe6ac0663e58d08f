package selftest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What was planted is the ceiling only while nobody else takes the cores: a
// server that is denied a core of two has another one. So the CPU time of
// others is measured around each run, apart from what the run itself observes.

const (
	// othersMax cores used by others, on average over a run, are borne. A quiet
	// machine shows up to 0.1 by the coarseness of the ticks (10 ms).
	othersMax = 0.25
	// quietFor is looked at before each attempt.
	quietFor = 300 * time.Millisecond
	// attempts at a scenario that is disturbed.
	attempts = 3
)

// usage is CPU time up to a moment, in ticks of 10 ms: of the whole host (with
// what the hypervisor took away), and of this process and its children.
type usage struct {
	at         time.Time
	host, ours int64
}

const ticksPerSecond = 100 // USER_HZ, on every architecture that Go runs on

// use reads the counters. A process is ours by its group, which a child leads,
// or by an ancestor's: a database's backends lead groups of their own. One that ended is in this process's account of its children once it was
// waited for.
func use(groups map[int]bool) (usage, error) {
	u := usage{at: time.Now()}
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return u, fmt.Errorf("/proc/stat begins with %q", line)
	}
	// user nice system (idle iowait) irq softirq steal: proc_stat(5)
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		u.host += number(f[i])
	}
	all, err := processes()
	if err != nil {
		return u, err
	}
	self := os.Getpid()
	for pid, p := range all {
		if pid == self || all.within(pid, groups) {
			u.ours += p.ticks
		}
	}
	u.ours += all[self].reaped
	return u, nil
}

// process is what /proc/PID/stat says of one.
type process struct {
	parent, group int
	ticks         int64 // of CPU time
	reaped        int64 // of children that ended and were waited for
}

type processTable map[int]process

// within tells whether a process or one of its ancestors is in one of the groups.
func (t processTable) within(pid int, groups map[int]bool) bool {
	for range len(t) { // a table read while it changes could hold a circle
		p, found := t[pid]
		if !found || groups[p.group] {
			return found
		}
		pid = p.parent
	}
	return false
}

// processes reads all of /proc/PID/stat.
func processes() (processTable, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := processTable{}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended
		}
		text := string(b)
		f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		pid, _, _ := strings.Cut(text, " ")
		if len(f) < 15 {
			continue
		}
		// Counted from the state, field 3 of proc_pid_stat(5): ppid 1, pgrp 2,
		// utime 11, stime 12, and those of children waited for, 13 and 14.
		all[int(number(pid))] = process{
			parent: int(number(f[1])), group: int(number(f[2])),
			ticks: number(f[11]) + number(f[12]), reaped: number(f[13]) + number(f[14]),
		}
	}
	return all, nil
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0 // the kernel writes no other
	}
	return n
}

// others is how many cores others used between two moments.
func (u *usage) others(since usage) float64 {
	elapsed := u.at.Sub(since.at).Seconds()
	if elapsed <= 0 {
		return 0
	}
	return float64((u.host-since.host)-(u.ours-since.ours)) / ticksPerSecond / elapsed
}

// awaitQuiet returns when others let the cores alone, or the patience is used
// up; what is left of it is for the next.
func awaitQuiet(ctx context.Context, patience *time.Duration) error {
	for {
		before, err := use(nil)
		if err != nil {
			return err
		}
		select {
		case <-time.After(quietFor):
		case <-ctx.Done():
			return ctx.Err()
		}
		after, err := use(nil)
		if err != nil {
			return err
		}
		if after.others(before) <= othersMax || *patience <= 0 {
			return nil
		}
		*patience -= after.at.Sub(before.at)
	}
}
