package run

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	pprof "github.com/google/pprof/profile"

	"ceiling/internal/profiles"
	"ceiling/measure/profile"
	"ceiling/record"
)

// rotation profiles all of the server's processes in every other stretch of the window: the
// stretches between show the profiling cost, and the spread over those with shows the noise.
type rotation struct {
	group  *profile.Group // nil: no pprof of the server was found
	stacks *stacker
	began  time.Time
	cancel context.CancelFunc
	done   chan struct{}

	blocks   []record.ProfilingBlock
	profiled int // of the blocks
	parts    map[string][]profiles.Part
	last     profile.Moment // the heap of the last block
	gc       [2]profile.Memory
	latency  *record.GoScheduler
	goCPU    *pprof.Profile
	missing  []record.NotMeasured
}

// Lengths of a stretch. A Go CPU profile lasts whole seconds.
const (
	stretch      = time.Second
	stretchLeast = 200 * time.Millisecond
	// goCPULeast is the window from which on one-second CPU profiles leave room for stretches
	// without.
	goCPULeast = 4 * time.Second
	// traceFor is the length of the execution trace, and tailFor the time reserved for what is
	// taken once, at the end.
	traceFor = 100 * time.Millisecond
	tailFor  = 600 * time.Millisecond
)

// open begins with the window, concurrently with the load. A run without a duration has stretches
// until it ends.
func (r *rotation) open(at time.Time, length time.Duration) {
	if r == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.began, r.cancel, r.done = at, cancel, make(chan struct{})
	go func() {
		defer close(r.done)
		r.run(ctx, length)
	}()
}

// close ends with the window.
func (r *rotation) close() {
	if r == nil || r.done == nil {
		return
	}
	r.cancel()
	<-r.done
}

// run alternates until the window ends: with, without, without, with, or the reverse, at random.
func (r *rotation) run(ctx context.Context, length time.Duration) {
	r.stacks.pause()
	seconds, each, tail := 0, stretch, time.Duration(0)
	if length > 0 {
		each = min(max(length/12, min(stretchLeast, length/4)), stretch)
	}
	if r.group != nil {
		var err error
		r.gc[0], err = r.group.Memory(ctx)
		r.note("GC pauses", err)
		tail = min(tailFor, length/5)
		if length == 0 || length >= goCPULeast {
			seconds, each = int(stretch/time.Second), stretch
		}
	}
	until := r.began.Add(length - tail)
	room := each + each/4 // a profile takes a little longer than its duration
	for n := 0; ; n++ {
		first := rand.IntN(2) == 1
		for _, with := range [...]bool{first, !first, !first, first} {
			if ctx.Err() != nil || length > 0 && time.Until(until) < room {
				r.end(ctx)
				return
			}
			r.block(ctx, with, each, seconds)
		}
	}
}

// block does one stretch.
func (r *rotation) block(ctx context.Context, with bool, each time.Duration, seconds int) {
	from := time.Since(r.began)
	if with {
		r.stacks.mark(r.profiled)
		r.take(ctx, each, seconds)
		r.stacks.pause()
	} else {
		sleep(ctx, each)
	}
	if ctx.Err() != nil {
		if with { // its partial profiles count for no block
			r.drop()
		}
		return
	}
	if with {
		r.profiled++
	}
	r.blocks = append(r.blocks, record.ProfilingBlock{FromNs: int64(from), ToNs: int64(time.Since(r.began)), Profiled: with})
}

// drop discards the parts of a block that was cut short.
func (r *rotation) drop() {
	for kind, list := range r.parts {
		r.parts[kind] = slices.DeleteFunc(list, func(p profiles.Part) bool { return p.Block == r.profiled })
	}
}

// take takes all profiles of one block.
func (r *rotation) take(ctx context.Context, each time.Duration, seconds int) {
	if r.group == nil {
		sleep(ctx, each)
		return
	}
	before, err := r.group.Moment(ctx)
	r.note("profiles", err)
	if seconds > 0 {
		parts, err := r.group.CPU(ctx, seconds, r.profiled)
		r.note("Go's CPU profile", err)
		r.add(record.ProfileGoCPU, parts)
	} else {
		sleep(ctx, each)
	}
	after, err := r.group.Moment(ctx)
	r.note("profiles", err)
	for kind, of := range map[string]string{
		record.ProfileGoBlock: record.ProfileBlock, record.ProfileGoMutex: record.ProfileMutex, record.ProfileAllocs: "heap",
	} {
		parts, err := after.Since(before, of, r.profiled)
		r.note(kind+" profile", err)
		r.add(kind, parts)
	}
	if len(after["heap"]) > 0 {
		r.last = after
	}
}

func (r *rotation) add(kind string, parts []profiles.Part) {
	r.parts[kind] = append(r.parts[kind], parts...)
}

// end takes what is taken once.
func (r *rotation) end(ctx context.Context) {
	if r.group == nil || ctx.Err() != nil {
		return
	}
	parts, err := r.group.Goroutines(ctx)
	r.note("goroutine profile", err)
	r.add(record.ProfileGoroutine, parts)
	r.gc[1], err = r.group.Memory(ctx)
	r.note("GC pauses", err)
	r.latency, err = r.group.Latency(ctx, traceFor)
	r.note("scheduler latency", err)
}

// note records why something was not measured, unless err is nil or the end of the window.
func (r *rotation) note(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		r.lose(what, local(err).Error())
	}
}

// lose records it once.
func (r *rotation) lose(what, why string) {
	if !slices.ContainsFunc(r.missing, func(n record.NotMeasured) bool { return n.What == what }) {
		r.missing = append(r.missing, record.NotMeasured{What: what, Why: why, Part: r.profiled > 0})
	}
}

func (r *rotation) notMeasured() []record.NotMeasured {
	if r == nil {
		return nil
	}
	return r.missing
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
