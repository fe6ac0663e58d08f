//go:build linux

package perturb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"ceiling/internal/sys"
)

// HogOptions say what a hog consumes.
type HogOptions struct {
	// CPUs it runs on, with a thread on each.
	CPUs []int
	// Share of each CPU's time, above 0 and at most ShareMax.
	Share float64
	// Polite hogs do not request real-time priority.
	Polite bool
}

const (
	// ShareMax is the largest share: beyond it the kernel's real-time throttling (95 % of a second)
	// comes near, and little is left to measure.
	ShareMax = 0.8

	// hogPeriod is how often a hog takes its share. A request that finds its CPU taken waits for
	// the rest of a slice, so slices must be short compared to a request; each costs two context
	// switches of about 2 µs, which the hog's own clock counts almost fully.
	hogPeriod = 250 * time.Microsecond

	// hogPriority is one above the lowest: it also slows a subject that is itself real-time of the
	// lowest priority.
	hogPriority = 2

	// debtMost is how far behind its share a hog may fall, in periods; it forgives the rest. One
	// that could not run for a second must not take a whole second afterwards.
	debtMost = 20
)

// hogReady begins the line that a hog prints once all its threads run.
const hogReady = "hog takes"

// Hog consumes a share of some CPUs' time: one thread on each runs for that share of every quarter
// of a millisecond, all at the same moments, so that no thread of the subject gains by migrating.
// Each thread measures its own CPU time, so the share holds over time whatever else runs there. It
// reports on out when it is running, and ends when ctx does or at the end of in: if a killed
// process held the other end of that pipe, the hog ends as well.
func Hog(ctx context.Context, o HogOptions, in io.Reader, out io.Writer) error {
	if err := o.Check(); err != nil {
		return err
	}
	// No allocations, and no garbage collection may stop the threads.
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(len(o.CPUs) + 2)
	epoch := sys.MonotonicNs()
	epoch -= epoch % int64(hogPeriod)
	policies := make(chan policy, len(o.CPUs))
	for _, cpu := range o.CPUs {
		go steal(cpu, o, epoch, policies)
	}
	ordinary := error(nil)
	for range o.CPUs {
		p := <-policies
		if p.failed != nil {
			return fmt.Errorf("hog: %w", p.failed)
		}
		if p.ordinary != nil {
			ordinary = p.ordinary
		}
	}
	how := realTime
	if ordinary != nil {
		how = ordinaryPriority
	}
	if _, err := fmt.Fprintf(out, "%s with %s\n", hogReady, how); err != nil {
		return fmt.Errorf("hog: say that it is ready: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, bufio.NewReader(in))
		ended <- err
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// How a hog runs, in its own words.
const (
	realTime         = "real-time priority"
	ordinaryPriority = "ordinary priority"
)

// Check rejects options that ask for nothing or too much.
func (o *HogOptions) Check() error {
	if len(o.CPUs) == 0 {
		return errors.New("hog: no CPUs to take from; give --cpus 1")
	}
	if !(o.Share > 0 && o.Share <= ShareMax) {
		return fmt.Errorf("hog: a share of %v is not above 0 and at most %v; 0.25 takes a quarter", o.Share, ShareMax)
	}
	return nil
}

// policy is the scheduling policy of one hog thread: ordinary says why it is not real-time.
type policy struct{ ordinary, failed error }

// steal consumes one CPU until the process ends.
func steal(cpu int, o HogOptions, epoch int64, ready chan<- policy) {
	runtime.LockOSThread()
	var p policy
	if p.failed = errors.Join(sys.Pin(0, []int{cpu}), sys.SharpTimers()); p.failed != nil {
		ready <- p
		return
	}
	p.ordinary = errors.New("real-time priority was not requested")
	if !o.Polite {
		p.ordinary = sys.SetFIFO(hogPriority)
	}
	if p.ordinary != nil {
		p.failed = sys.SetLowLatency(hogPeriod / 5)
	}
	ready <- p
	if p.failed != nil {
		return
	}
	d := debt{share: o.Share, since: sys.MonotonicNs(), used: sys.ThreadCPUNs()}
	for {
		now := sys.MonotonicNs()
		for d.owed(now, sys.ThreadCPUNs()) > 0 {
			runtime.KeepAlive(spin(now))
			now = sys.MonotonicNs()
		}
		// The slots are multiples of the period, the same for all threads.
		sys.SleepUntil(epoch + ((now-epoch)/int64(hogPeriod)+1)*int64(hogPeriod))
	}
}

// debt is how much a thread still has to take.
type debt struct {
	share       float64
	since, used int64 // the zero of the account: a time, and the thread's CPU time then
}

// owed returns how much CPU time the thread is behind its share, in nanoseconds. It forgives more
// than a few periods' worth.
func (d *debt) owed(now, used int64) int64 {
	owed := int64(d.share*float64(now-d.since)) - (used - d.used)
	if most := int64(debtMost * d.share * float64(hogPeriod)); owed > most {
		d.since, d.used = now-int64(debtMost*hogPeriod), used
		owed = most
	}
	return owed
}

// spin does a microsecond or less of work that touches no memory.
func spin(seed int64) uint64 {
	x := uint64(seed) | 1
	for range 200 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}
