//go:build linux

// Package perturb reduces one resource during a run, measures how much of it was left, and restores
// it whatever happens.
//
// A station of a closed loop that is slowed by a factor k takes k times as long for everything;
// slow all of them by k and the throughput is 1/k of what it was. So the elasticities of throughput
// over the speeds of all stations add up to one, and each is that station's share of the
// bottleneck. That holds for speeds, not for caps: a CPU quota does nothing to a thread that is
// half idle until it throttles, and then stops it for tens of milliseconds. CPU time is therefore
// taken by a hog (hog.go): a process with a thread on each of the CPUs, all of which run for a
// share of every quarter of a millisecond. A link's rate is lowered at its token bucket (link.go).
// Requests in flight are reduced by the load itself.
//
// Every change on the host is noted in a file before it is made (note.go): if this process is
// killed, the next start finds the note and undoes it. A hog ends with the process that started it.
package perturb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"ceiling/internal/sys"
	"ceiling/measure/cores"
	"ceiling/record"
)

// Targets has the resources that a proof can perturb, and how. It changes nothing on the host by
// itself.
type Targets struct {
	// Generator and Server are the separate CPUs of the two sides. Server is nil if the server is
	// on another host.
	Generator, Server []int
	// PinGenerator and PinServer must be in the spec of every run of the proof, including the
	// undisturbed ones; "" leaves a side unpinned.
	PinGenerator, PinServer string
	// Threads of the generator must be the same in all runs, including those with fewer slots.
	Threads int
	// Says tells the user how the sides were separated; "": they already were.
	Says string

	wish     Request
	link     *Link
	lacks    map[string]string // by resource, why it cannot be perturbed
	ordinary error             // why no thread here can be real-time
}

// affinityCPUs is the least number of server CPUs from which whole CPUs are taken when no hog can
// run in real time: a hog of ordinary priority competes with all threads of the server for its
// share.
const affinityCPUs = 4

// Survey finds what can be perturbed here. It fails if nothing can, because what is taken from one
// side would be taken from the other.
func Survey(w Request) (*Targets, error) {
	if !(w.Share > 0 && w.Share <= ShareMax) {
		return nil, fmt.Errorf("take: a share of %v is not above 0 and at most %v; 0.25 takes a quarter", w.Share, ShareMax)
	}
	if w.Program == "" {
		var err error
		if w.Program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	s := &Targets{wish: w, lacks: map[string]string{}, PinGenerator: w.PinGenerator, PinServer: w.PinServer}
	if err := s.findCPUs(); err != nil {
		return nil, err
	}
	s.Threads = min(w.threads(), len(s.Generator))
	s.ordinary = tryRealTime()
	switch {
	case w.Interface == "":
		s.lacks[record.PerturbLink] = "no interface to throttle was named; name it with --interface"
	default:
		var err error
		if s.link, err = findLink(w.Interface, w.Namespace, w.LinkBitsPerS); err != nil {
			s.lacks[record.PerturbLink] = err.Error()
		}
	}
	if w.Connections*max(w.Pipelining, 1) < 2 {
		s.lacks[record.PerturbConcurrency] = "only one request in flight: nothing to remove"
	}
	return s, nil
}

// findCPUs finds the CPUs of the two sides and separates them.
func (s *Targets) findCPUs() error {
	w := &s.wish
	var err error
	if s.Generator, err = allowedHere(w.PinGenerator); err != nil {
		return err
	}
	if len(w.PIDs) == 0 {
		s.lacks[record.PerturbServer] = "the server does not run on this host, or its processes were not found"
		return nil
	}
	before := cores.Sides{Generator: s.Generator, GeneratorPinned: w.PinGenerator != "", ServerPinned: w.PinServer != "",
		Layout: cores.ReadLayout(), Want: w.threads()}
	if w.PinServer != "" {
		before.Server, err = allowedHere(w.PinServer)
	} else {
		before.Server, err = AllowedTo(w.PIDs)
	}
	if err != nil {
		return err
	}
	split, err := before.Apart()
	if err != nil {
		return fmt.Errorf("nothing can be taken from only one side: %w", err)
	}
	s.Generator, s.Server = split.Generator, split.Server
	if split.Parted {
		s.Says = "generator and server shared CPUs; for the time of each run they are pinned apart: " + split.String()
		s.PinGenerator, s.PinServer = cores.Format(s.Generator), cores.Format(s.Server)
	}
	return nil
}

// slotsPerThread is how many requests in flight justify a generator thread, as in package run.
const slotsPerThread = 32

// threads returns how many CPUs the generator can use.
func (w *Request) threads() int {
	if w.Threads > 0 {
		return w.Threads
	}
	return max(1, min(w.Connections, w.Connections*max(w.Pipelining, 1)/slotsPerThread))
}

// tryRealTime tries to make a thread real-time. That thread ends.
func tryRealTime() error {
	tried := make(chan error)
	go func() {
		sys.HoldThread() // never unlocked: the thread ends with the goroutine
		tried <- sys.SetFIFO(hogPriority)
	}()
	return <-tried
}

// Lacks returns why a resource cannot be perturbed here; "": it can.
func (s *Targets) Lacks(resource string) string { return s.lacks[resource] }

// Taking is a perturbation during one run.
type Taking struct {
	// PinServer must be in the spec of this run instead of the scene's.
	PinServer string

	take  record.Perturbation
	how   string
	left  float64
	theft *hogProcess
	note  *note
}

// Begin starts a step's perturbation, until End; a step without one does nothing. The step's own
// load reduces slots. ctx bounds the wait for a hog to start.
func (s *Targets) Begin(ctx context.Context, step *record.Step) (*Taking, error) {
	t := &Taking{take: step.Perturb, PinServer: s.PinServer, left: 1}
	if why := s.lacks[step.Perturb.Resource]; why != "" {
		return nil, fmt.Errorf("take from %s: %s", step.Perturb.Resource, why)
	}
	var err error
	switch step.Perturb.Resource {
	case "":
	case record.PerturbGenerator:
		err = t.steal(ctx, s, s.Generator)
	case record.PerturbServer:
		if s.ordinary != nil && len(s.Server) >= affinityCPUs {
			t.confine(s)
		} else {
			err = t.steal(ctx, s, s.Server)
		}
	case record.PerturbLink:
		t.note, t.left, t.how, err = s.link.slow(step.Perturb.Share)
	case record.PerturbConcurrency:
		before, after := s.wish.Connections*max(s.wish.Pipelining, 1), step.Connections*max(step.Pipelining, 1)
		t.left, t.how = float64(after)/float64(before), fmt.Sprintf("%d of %d requests in flight", after, before)
	default:
		err = fmt.Errorf("unknown resource %q", step.Perturb.Resource)
	}
	if err != nil {
		return nil, fmt.Errorf("take from %s: %w", step.Perturb.Resource, err)
	}
	return t, nil
}

func (t *Taking) steal(ctx context.Context, s *Targets, cpus []int) error {
	var err error
	t.theft, err = startHog(ctx, s.wish.Program, cpus, t.take.Share, s.ordinary != nil)
	return err
}

// confine restricts the server to fewer CPUs.
func (t *Taking) confine(s *Targets) {
	n := len(s.Server)
	left := min(n-1, max(1, int(math.Round(float64(n)*(1-t.take.Share)))))
	t.PinServer = cores.Format(s.Server[:left])
	t.left = float64(left) / float64(n)
	t.how = fmt.Sprintf("the server was bound to %d of %d CPUs (no real-time CPU hog: %v)", left, n, s.ordinary)
}

// End undoes the perturbation, and returns how much of the resource was left in the run's window,
// which opened at a time of the wall clock and lasted elapsedS seconds; if it never opened, from
// Begin to End. It must be called whatever the run's outcome. With an error it still returns what
// is known.
func (t *Taking) End(opened time.Time, elapsedS float64) (record.Perturbed, error) {
	taken := record.Perturbed{Perturbation: t.take, Left: t.left, How: t.how}
	var failed error
	if t.theft != nil {
		var until time.Time
		if !opened.IsZero() {
			until = opened.Add(time.Duration(elapsedS * float64(time.Second)))
		}
		taken.Left, failed = t.theft.stop(opened, until)
		taken.How = fmt.Sprintf("a CPU hog with %s took %.1f%% of CPU %s", t.theft.how, 100*(1-taken.Left), cores.Format(t.theft.cpus))
	}
	if t.note != nil {
		failed = errors.Join(failed, t.note.undo())
	}
	if failed != nil {
		failed = fmt.Errorf("give back what was taken from %s: %w", t.take.Resource, failed)
	}
	return taken, failed
}
