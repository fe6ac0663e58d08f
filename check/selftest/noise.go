package selftest

import (
	"context"
	"os"
	"time"

	"ceiling/internal/sys"
)

// A plant is the bottleneck only while no other program uses the cores: a server that loses one
// of two cores has another bottleneck. So the CPU time of others is measured around each run,
// independently of the run's own observation.

const (
	// othersMax is the tolerated CPU use of others, in cores, averaged over a run. A quiet
	// machine shows up to 0.1 because of the ticks' resolution (10 ms).
	othersMax = 0.25
	// quietFor is the observation time before each attempt.
	quietFor = 300 * time.Millisecond
	// attempts at a disturbed scenario.
	attempts = 3
)

// usage is CPU time so far, nanoseconds counted in ticks of 10 ms: of the whole host (including
// steal), and of this process and its children.
type usage struct {
	at             time.Time
	hostNs, oursNs int64
}

// use reads the counters. A process is ours by its process group, which a child leads, or by an
// ancestor's: a database's backends lead their own groups. This process's account of its children
// includes those that exited and were waited for.
func use(groups map[int]bool) (usage, error) {
	u := usage{at: time.Now()}
	stat, err := sys.ReadStat()
	if err != nil {
		return u, err
	}
	u.hostNs = stat.Total.BusyNs() + stat.Total.StealNs()
	all, err := sys.Processes()
	if err != nil {
		return u, err
	}
	self := os.Getpid()
	for pid, p := range all {
		if pid == self || within(all, pid, groups) {
			u.oursNs += int64(p.UserTicks+p.SystemTicks) * sys.TickNs
		}
	}
	if own := all[self]; own != nil {
		u.oursNs += int64(own.ReapedTicks) * sys.TickNs
	}
	return u, nil
}

// within reports whether a process or one of its ancestors is in one of the groups.
func within(t map[int]*sys.PIDStat, pid int, groups map[int]bool) bool {
	for range len(t) { // a table read while it changes could contain a cycle
		p, found := t[pid]
		if !found || groups[p.Group] {
			return found
		}
		pid = p.Parent
	}
	return false
}

// others returns how many cores others used between two moments.
func (u *usage) others(since usage) float64 {
	elapsed := u.at.Sub(since.at).Seconds()
	if elapsed <= 0 {
		return 0
	}
	return float64((u.hostNs-since.hostNs)-(u.oursNs-since.oursNs)) / 1e9 / elapsed
}

// awaitQuiet waits until others leave the cores alone, or the patience is used up; the rest of it
// remains for the next call.
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
