// Package perturb takes something away from one resource for the time of a run,
// measures how much of it was left, and gives it back whatever happens.
//
// A station of a closed loop that is slowed by a factor k takes k times as long
// for everything; slow all of them by k and the throughput is 1/k of what it
// was. So the elasticities of throughput over the speeds of all stations add to
// one, and each is that station's share of the ceiling. That holds for speeds,
// not for caps: a quota of CPU time does nothing to a thread that is half idle
// until it bites, and then stops it for tens of milliseconds. CPU time is
// therefore taken by a hog (hog.go): a process with a thread on each of the
// CPUs, all of which run for a share of every quarter of a millisecond. A
// link's rate is lowered at its token bucket (link.go). Requests in flight are
// taken by the load itself.
//
// What is changed on the host is noted in a file before it is changed
// (note.go): if this process is killed, the next start finds the note and gives
// back. A hog ends with the process that started it.
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

// Wish says what a proof would take from.
type Wish struct {
	// Share of a resource that shall be taken, above 0 and at most ShareMax.
	Share float64
	// PIDs of the server's processes; none where it runs on another host.
	PIDs []int
	// PinGenerator and PinServer are the CPU lists that the person gave, "" none.
	PinGenerator, PinServer string
	// Connections and Pipelining of the runs that nothing is taken from;
	// Threads of the generator as asked, 0 automatic.
	Connections, Pipelining, Threads int
	// Interface whose rate may be lowered, in Namespace; "" none. LinkBitsPerS
	// is its speed as the person gave it, 0 unknown.
	Interface, Namespace string
	LinkBitsPerS         float64
	// Program has the verb hog; "" is this program.
	Program string
}

// Scene is where a proof is made: what there is to take from, and how. It
// changes nothing on the host by itself.
type Scene struct {
	// Generator and Server are the CPUs of the two sides, apart from each other.
	// Server is nil where the server is on another host.
	Generator, Server []int
	// PinGenerator and PinServer have to be in the spec of every run of the
	// proof, those that nothing is taken from included; "" leaves a side free.
	PinGenerator, PinServer string
	// Threads of the generator have to be the same in all runs, those with fewer
	// slots included.
	Threads int
	// Says is what was done to part the sides, for the person; "" nothing.
	Says string

	wish     Wish
	link     *Link
	lacks    map[string]string // by resource, why it cannot be taken
	ordinary error             // why no thread here can be a real-time one
}

// affinityCPUs is from how many of the server's CPUs on some of them are taken
// away whole, where no hog can run in real time: a hog of ordinary priority
// competes with all threads of the server for its share.
const affinityCPUs = 4

// Survey looks what can be taken here. Its error is a scene on which nothing
// can be: what is taken from one side would be taken from the other.
func Survey(w Wish) (*Scene, error) {
	if !(w.Share > 0 && w.Share <= ShareMax) {
		return nil, fmt.Errorf("take: a share of %v is not above 0 and at most %v; 0.25 takes a quarter", w.Share, ShareMax)
	}
	if w.Program == "" {
		var err error
		if w.Program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	s := &Scene{wish: w, lacks: map[string]string{}, PinGenerator: w.PinGenerator, PinServer: w.PinServer}
	if err := s.findCPUs(); err != nil {
		return nil, err
	}
	s.Threads = min(w.threads(), len(s.Generator))
	s.ordinary = tryRealTime()
	switch {
	case w.Interface == "":
		s.lacks[record.PerturbLink] = "no interface was named whose rate may be lowered; name it with --interface"
	default:
		var err error
		if s.link, err = findLink(w.Interface, w.Namespace, w.LinkBitsPerS); err != nil {
			s.lacks[record.PerturbLink] = err.Error()
		}
	}
	if w.Connections*max(w.Pipelining, 1) < 2 {
		s.lacks[record.PerturbConcurrency] = "there is one request in flight: none can be taken from it"
	}
	return s, nil
}

// findCPUs finds those of the two sides and parts them.
func (s *Scene) findCPUs() error {
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
		return fmt.Errorf("nothing can be taken from one side alone: %w", err)
	}
	s.Generator, s.Server = split.Generator, split.Server
	if split.Parted {
		s.Says = "generator and server shared CPUs; for the time of each run they are pinned apart: " + split.String()
		s.PinGenerator, s.PinServer = cores.Format(s.Generator), cores.Format(s.Server)
	}
	return nil
}

// slotsPerThread is how many requests in flight are worth a thread of the
// generator, as package run chooses their number.
const slotsPerThread = 32

// threads is how many CPUs the generator has a use for.
func (w *Wish) threads() int {
	if w.Threads > 0 {
		return w.Threads
	}
	return max(1, min(w.Connections, w.Connections*max(w.Pipelining, 1)/slotsPerThread))
}

// tryRealTime looks whether a thread here may be a real-time one. The thread
// that tried ends.
func tryRealTime() error {
	tried := make(chan error)
	go func() {
		sys.HoldThread() // and never release: the thread ends with the goroutine
		tried <- sys.BeRealTime(hogPriority)
	}()
	return <-tried
}

// Lacks says why nothing can be taken from a resource here; "" it can.
func (s *Scene) Lacks(resource string) string { return s.lacks[resource] }

// Taking is something taken away, for the time of one run.
type Taking struct {
	// PinServer has to be in the spec of this run instead of the scene's.
	PinServer string

	take  record.Perturbation
	how   string
	left  float64
	theft *theft
	note  *note
}

// Begin takes what a step says, until End; of a step that takes nothing it
// takes nothing. Slots are taken by the step's own load. The wait for a hog to
// come up ends with ctx.
func (s *Scene) Begin(ctx context.Context, step *record.Step) (*Taking, error) {
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
		err = fmt.Errorf("there is no resource %q", step.Perturb.Resource)
	}
	if err != nil {
		return nil, fmt.Errorf("take from %s: %w", step.Perturb.Resource, err)
	}
	return t, nil
}

func (t *Taking) steal(ctx context.Context, s *Scene, cpus []int) error {
	var err error
	t.theft, err = startHog(ctx, s.wish.Program, cpus, t.take.Share, s.ordinary != nil)
	return err
}

// confine leaves the server fewer CPUs.
func (t *Taking) confine(s *Scene) {
	n := len(s.Server)
	left := min(n-1, max(1, int(math.Round(float64(n)*(1-t.take.Share)))))
	t.PinServer = cores.Format(s.Server[:left])
	t.left = float64(left) / float64(n)
	t.how = fmt.Sprintf("the server was bound to %d of %d CPUs (no real-time CPU hog: %v)", left, n, s.ordinary)
}

// End gives back what was taken, and answers how much of it was left in the
// window of the run, which opened at a time of the wall clock and lasted
// elapsed seconds; where it did not open at all, from Begin to End. It has to
// be called whatever became of the run. What was taken comes with the error
// too, as far as it is known.
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
