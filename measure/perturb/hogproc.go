//go:build linux

package perturb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ceiling/internal/process"
	"ceiling/internal/sys"
	"ceiling/measure/cores"
)

// hogProcess is a running hog, as seen by the process that started it.
type hogProcess struct {
	*process.Process
	in   io.Closer // closing it ends the hog
	cpus []int
	how  string // "real-time priority"

	quit    chan struct{}
	sampler sync.WaitGroup
	// Owned by the sampler until it has ended.
	samples []sample
	failed  error
}

// sample is what had been taken from all CPUs together at a time.
type sample struct {
	at time.Time
	// hogNs is the hog's CPU time; hostNs the CPUs' steal time, which nothing on this host
	// could have used.
	hogNs, hostNs int64
}

const (
	// hogStart is how long a hog may take to start on a saturated host.
	hogStart = 10 * time.Second
	// sampleEvery is how often the hog's clock is read: what was taken in a run is interpolated
	// between two readings.
	sampleEvery = 50 * time.Millisecond
)

// hogVerb starts a hog: PROGRAM hog --cpus 1,2 --share 0.25.
const hogVerb = "hog"

// startHog starts a hog as a child of this process and waits until it runs.
func startHog(ctx context.Context, program string, cpus []int, share float64, polite bool) (*hogProcess, error) {
	args := []string{hogVerb, "--cpus", cores.Format(cpus), "--share", strconv.FormatFloat(share, 'g', -1, 64)}
	if polite {
		args = append(args, "--polite")
	}
	its, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	// Its threads run Go code without pause, for which each would get a hundred preemption signals
	// a second.
	c := process.Command{Name: program, Args: args, Env: []string{"GODEBUG=asyncpreemptoff=1"}, Stdin: its,
		Ready: func(line string) (how string, ok bool) { return strings.CutPrefix(line, hogReady+" with ") }}
	p, err := c.Start()
	err = errors.Join(err, its.Close())
	if err != nil {
		return nil, fmt.Errorf("start a CPU hog: %w", errors.Join(err, in.Close()))
	}
	t := &hogProcess{Process: p, in: in, cpus: cpus, quit: make(chan struct{})}
	ctx, cancel := context.WithTimeoutCause(ctx, hogStart, fmt.Errorf("it took nothing within %s", hogStart))
	defer cancel()
	if t.how, err = p.Await(ctx, nil); err != nil {
		return nil, fmt.Errorf("start a CPU hog on CPU %s: %w", cores.Format(cpus), errors.Join(err, in.Close()))
	}
	t.sample()
	t.sampler.Go(t.watch)
	return t, nil
}

// watch reads the hog's clock until quit.
func (t *hogProcess) watch() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-t.quit:
			t.sample()
			return
		case <-tick.C:
			t.sample()
		}
	}
}

func (t *hogProcess) sample() {
	s := sample{at: time.Now()}
	var err error
	if s.hogNs, err = sys.ProcessClockNs(t.PID); err != nil {
		t.failed = fmt.Errorf("read the CPU time of the CPU hog: %w", err)
		return
	}
	if s.hostNs, err = hypervisorNs(t.cpus); err != nil {
		t.failed = err
		return
	}
	t.samples = append(t.samples, s)
}

// stop ends the hog and returns what it left of its CPUs' time between two times; without them,
// from its start to its end.
func (t *hogProcess) stop(from, to time.Time) (left float64, err error) {
	close(t.quit)
	t.sampler.Wait()
	early := t.Died() // before its input is closed, which ends it
	if err := errors.Join(early, t.end(), t.failed); err != nil {
		return 0, fmt.Errorf("the CPU hog on CPU %s: %w", cores.Format(t.cpus), err)
	}
	return leftOf(t.samples, len(t.cpus), from, to)
}

// end closes the hog's input, and kills it if that is not enough.
func (t *hogProcess) end() error {
	closed := t.in.Close()
	t.End()
	return errors.Join(t.Err(), closed)
}

// leftOf returns the share of the CPUs' time that was left between two times, by the samples around
// them.
func leftOf(samples []sample, cpus int, from, to time.Time) (float64, error) {
	if len(samples) < 2 {
		return 0, errors.New("the CPU hog's clock was not read twice")
	}
	first, last := samples[0], samples[len(samples)-1]
	if from.IsZero() || from.Before(first.at) {
		from = first.at
	}
	if to.IsZero() || to.After(last.at) {
		to = last.at
	}
	a, b := sampleAt(samples, from), sampleAt(samples, to)
	had := float64(b.at.Sub(a.at))*float64(cpus) - float64(b.hostNs-a.hostNs)
	if had <= 0 {
		return 0, fmt.Errorf("no CPU time between %s and %s to take from", from.Format(time.TimeOnly), to.Format(time.TimeOnly))
	}
	return min(max(1-float64(b.hogNs-a.hogNs)/had, 0), 1), nil
}

// sampleAt interpolates; at must lie between the first sample and the last.
func sampleAt(samples []sample, at time.Time) sample {
	i, found := slices.BinarySearchFunc(samples, at, func(s sample, at time.Time) int { return s.at.Compare(at) })
	if found || i == 0 {
		return samples[i]
	}
	if i == len(samples) {
		return samples[i-1]
	}
	a, b := samples[i-1], samples[i]
	share := float64(at.Sub(a.at)) / float64(b.at.Sub(a.at))
	between := func(x, y int64) int64 { return x + int64(share*float64(y-x)) }
	return sample{at, between(a.hogNs, b.hogNs), between(a.hostNs, b.hostNs)}
}

// hypervisorNs returns the steal time of some CPUs since boot.
func hypervisorNs(cpus []int) (int64, error) {
	s, err := sys.ReadStat()
	if err != nil {
		return 0, err
	}
	return stolenNs(s, cpus)
}

func stolenNs(s *sys.Stat, cpus []int) (ns int64, err error) {
	seen := 0
	for i := range s.CPUs {
		if slices.Contains(cpus, s.CPUs[i].CPU) {
			ns += s.CPUs[i].StealNs()
			seen++
		}
	}
	if seen != len(cpus) {
		return 0, fmt.Errorf("/proc/stat has lines for %d of the CPUs %s", seen, cores.Format(cpus))
	}
	return ns, nil
}
