package selftest

import (
	"context"
	"errors"
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

// watch returns how many cores others used while something was done.
func watch(groups map[int]bool, do func() error) (others float64, err error) {
	begun := time.Now()
	before, err := othersNs(groups)
	if err != nil {
		return 0, err
	}
	err = do()
	after, failed := othersNs(groups)
	return float64(after-before) / float64(time.Since(begun)), errors.Join(err, failed)
}

// othersNs returns the CPU time of others so far, nanoseconds counted in ticks of 10 ms: that of the whole host
// (including steal) without this process and its children. A process is ours by its process group, which a child leads,
// or by an ancestor's: a database's backends lead their own groups. This process's account of its children includes
// those that exited and were waited for.
func othersNs(groups map[int]bool) (int64, error) {
	stat, err := sys.ReadStat()
	if err != nil {
		return 0, err
	}
	ns := stat.Total.BusyNs() + stat.Total.StealNs()
	all, err := sys.Processes()
	if err != nil {
		return 0, err
	}
	self := os.Getpid()
	for pid, p := range all {
		if pid == self || within(all, pid, groups) {
			ns -= int64(p.UserTicks+p.SystemTicks) * sys.TickNs
		}
	}
	if own := all[self]; own != nil {
		ns -= int64(own.ReapedTicks) * sys.TickNs
	}
	return ns, nil
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

// awaitQuiet waits until others leave the cores alone, or the patience is used up; the rest of it
// remains for the next call.
func awaitQuiet(ctx context.Context, patience *time.Duration) error {
	for {
		others, err := watch(nil, func() error {
			select {
			case <-time.After(quietFor):
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		if err != nil || others <= othersMax || *patience <= 0 {
			return err
		}
		*patience -= quietFor
	}
}
