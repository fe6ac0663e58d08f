// Package load is the load engine: it sends the requests of one run from a few OS threads, in a
// closed loop or on a schedule, and counts the outcomes.
//
// One worker is one locked OS thread with its own ring, connections and tally. Workers share no
// memory that is written while requests are in flight; each hands its tally over through a channel
// once per interval, and the coordinator merges them.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/metrics"
	"time"

	"ceiling/internal/hist"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
)

// slack is the time between the last connection being established and the first request: enough for
// every worker to see it.
const slack = 5 * time.Millisecond

// Run does one run. It returns an error only if this side could not measure anything; the server's
// faults are in the Result.
func Run(ctx context.Context, c Config, o Observer) (*Result, error) {
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.Drain == 0 {
		c.Drain = min(c.Timeout, max(time.Second, c.Duration/10))
	}
	if err := c.Share.Check(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	own := int(c.Share.Part(uint64(max(c.Connections, 0))))
	switch {
	case c.Threads < 1 || c.Pipelining < 1 || c.Timeout <= 0 || c.Duration <= 0 && c.Requests == 0:
		return nil, errors.New("load: threads, pipelining, timeout and a duration or a number of requests must be set")
	case len(c.To.Addresses) == 0:
		return nil, errors.New("load: an address to connect to is missing")
	case own < c.Threads:
		return nil, fmt.Errorf("load: %d connections are too few for %d threads; each thread needs its own", own, c.Threads)
	case c.Duration < 0 || c.Unloaded < 0 || c.Warmup < 0 || c.Drain < 0 || c.ConnectRamp < 0 || c.Interval < 0:
		return nil, errors.New("load: a time is negative")
	case composing(c.Mix) != nil && (c.Protocol != HTTP1 || c.Opening != nil || c.Unloaded > 0):
		return nil, errors.New("load: requests are composed for HTTP/1.1 only, and without unloaded ones")
	case c.Duration == 0 && !c.Rate.Constant():
		return nil, errors.New("load: a ramp needs a duration")
	}
	s, err := scriptOf(&c)
	if err != nil {
		return nil, err
	}
	if err := s.forH2(&c); err != nil {
		return nil, err
	}
	// Workers block in system calls without notifying the scheduler, and so does the thread that
	// samples the sockets; the other goroutines need Ps of their own. Concurrent runs would compete
	// for them: their caller raises GOMAXPROCS first.
	if need := c.Threads + 3; runtime.GOMAXPROCS(0) < need {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(need))
	}
	r := &coordinator{shared: &shared{Config: c, script: s, own: own, base: time.Now()}, observer: o, ctx: ctx}
	if r.shared.sources, err = newSources(&c); err != nil {
		return nil, err
	}
	r.shared.schedule = newSchedule(&c)
	if r.shared.Expect.Unexpected == nil {
		r.shared.Expect.Unexpected = errorStatuses()
	}
	return r.run()
}

// scriptOf lays out the requests of a run.
func scriptOf(c *Config) (*script, error) {
	if composing(c.Mix) != nil {
		return composedScript(c.Pipelining), nil
	}
	s, err := newScript(c.Mix, c.Pipelining, c.Seed)
	if err == nil {
		s.runs = s.runs && len(c.Expect.Checks) == 0 && c.NewConnections == 0
	}
	return s, err
}

// newSources returns the addresses to bind to, in the kernel's form.
func newSources(c *Config) ([]ring.Sockaddr, error) {
	var list []ring.Sockaddr
	for _, ip := range c.SourceIPs {
		a := ring.TCPAddr(netip.AddrPortFrom(ip, 0))
		if !a.SameFamily(&c.To.Addresses[0]) {
			return nil, fmt.Errorf("load: the source address %s is not of the server's family", ip)
		}
		list = append(list, a)
	}
	return list, nil
}

// coordinator starts the workers, sets the start time, and merges their tallies.
type coordinator struct {
	shared   *shared
	observer Observer
	ctx      context.Context
	out      chan delivery
	free     []chan *Tally
	rows     *rowMerger // of the workers
	result   Result
	user     int64
	system   int64
	alloc    uint64
	opened   bool // the window
	failure  error
	askedNs  int64 // the start from Config.Start; startNs is later if that precedes the run's clock
}

// spareTallies per worker: one in use, the others on their way.
const spareTallies = 4

func (r *coordinator) run() (*Result, error) {
	if len(r.shared.CPUs) == 0 || onThreads(&r.shared.Config) {
		return r.runWith(r.start)
	}
	undo, err := pinProcess(r.shared.CPUs) // goroutines have no threads of their own to pin
	if err != nil {
		return nil, errors.Join(err, undo())
	}
	result, err := r.runWith(r.start)
	if err = errors.Join(err, undo()); err != nil {
		return nil, err
	}
	return result, nil
}

// runWith does the run with workers whose goroutines have the given body.
func (r *coordinator) runWith(worker func(id, first, count int, free chan *Tally)) (*Result, error) {
	n := r.shared.Threads
	r.out = make(chan delivery, n*(spareTallies+6)) // never full: a worker does not wait
	r.merge()
	r.result.Total = *newTally(len(r.shared.Mix))
	r.result.Setup = map[Fault]uint64{}
	r.result.Workers = make([]WorkerReport, n)
	first := 0
	for id := range n {
		count := r.shared.own / n
		if id < r.shared.own%n {
			count++
		}
		free := make(chan *Tally, spareTallies)
		for range spareTallies - 1 {
			free <- newTally(len(r.shared.Mix))
		}
		r.free = append(r.free, free)
		go worker(id, first, count, free)
		first += count
	}
	if err := r.collect(); err != nil {
		return nil, err
	}
	return &r.result, nil
}

// start is the body of a worker's goroutine.
func (r *coordinator) start(id, first, count int, free chan *Tally) {
	release := hold(&r.shared.Config)
	w, err := newWorker(r.shared, id, first, count, free, r.out)
	if err == nil {
		err = w.loop()
	}
	over := delivery{worker: id, over: true}
	if w != nil {
		w.end()
		over.tally, over.report = w.tally, w.report()
		w.tally = w.spare() // for what follows, of which nothing counts
	}
	r.out <- over
	if w != nil {
		if err == nil {
			err = drain(w)
		}
		err = cmp.Or(err, w.shut())
	}
	r.out <- delivery{worker: id, last: true, err: err}
	if len(r.shared.CPUs) == 0 || !onThreads(&r.shared.Config) {
		release() // a pinned thread is not given back: it ends with the goroutine
	}
}

// merge sets up the merging of the workers' tallies. Of a worker's four tallies one is in use, up
// to two wait for the other workers, and one is in transit.
func (r *coordinator) merge() {
	r.rows = newRowMerger(r.shared.Threads, spareTallies-2, len(r.shared.Mix))
	r.rows.taken, r.rows.closed = r.addPart, r.rowEnds
	r.rows.free = func(id int, t *Tally) {
		select {
		case r.free[id] <- t:
		default: // one more than there should be, or the worker has ended
		}
	}
}

// take handles a worker's delivery.
func (r *coordinator) take(d delivery) {
	if d.report != nil {
		d.report.Completed = r.result.Workers[d.worker].Completed
		r.result.Workers[d.worker] = *d.report
		r.result.Engine, r.result.EngineWhy, r.result.EngineFeatures = d.report.ring.engine, d.report.ring.why, d.report.ring.features
	}
	if d.over {
		r.rows.end(d.worker, d.tally)
		return
	}
	r.rows.add(d.worker, d.tally)
}

// addPart counts what one worker did in a row.
func (r *coordinator) addPart(id int, t *Tally) {
	r.result.include(t)
	if !t.Warmup {
		r.result.Workers[id].Completed += t.Completed
	}
}

// rowEnds reports a row to the observer, on the window's clock.
func (r *coordinator) rowEnds(row *Tally) {
	if r.shared.startNs.Load() == 0 {
		return
	}
	row.StartNs -= r.openNs()
	row.EndNs -= r.openNs()
	r.observer.Interval(row, isLate(row, int64(r.shared.Interval)))
}

// openNs returns when the window opens on the run's clock, once the start is known.
func (r *coordinator) openNs() int64 { return r.shared.startNs.Load() + int64(r.shared.Warmup) }

// collect takes deliveries until every worker has ended.
func (r *coordinator) collect() error {
	ready, counting, left := 0, r.shared.Threads, r.shared.Threads
	done := r.ctx.Done()
	var start, window, windowEnd <-chan time.Time
	for left > 0 {
		select {
		case <-done:
			r.interrupt()
			done, start = nil, nil
		case at, given := <-start:
			start = nil
			if !given {
				r.interrupt()
				continue
			}
			window, windowEnd = r.begin(at)
		case <-window:
			window = nil
			r.windowOpens()
		case <-windowEnd:
			windowEnd = nil
			r.measureCost()
		case d := <-r.out:
			if window != nil && time.Since(r.shared.base) >= time.Duration(r.openNs()) {
				window = nil // the timer is due too, and comes first
				r.windowOpens()
			}
			switch {
			case d.ready:
				r.result.Established += d.connected
				if ready++; ready == r.shared.Threads && !r.result.Interrupted {
					if start = r.allConnected(); start == nil && r.result.Established > 0 {
						window, windowEnd = r.begin(time.Now().Add(slack))
					}
				}
				continue
			case d.last:
				left--
				if d.err != nil {
					r.fail(fmt.Errorf("load worker %d: %w", d.worker, d.err))
				}
				continue
			}
			r.take(d)
			if d.over {
				if counting--; counting == 0 {
					r.windowCloses(windowEnd != nil)
				}
			}
		}
	}
	r.finish()
	return r.failure
}

// windowCloses reports the end of the counts; early: before the window's time.
func (r *coordinator) windowCloses(early bool) {
	if !r.opened {
		return
	}
	if early || r.shared.Duration == 0 || !r.shared.Rate.IsZero() {
		r.measureCost() // the run ended before its time, or after it
	}
	r.observer.Window(false, time.Now())
}

// fail ends the run for a failure of this side.
func (r *coordinator) fail(err error) {
	r.failure = errors.Join(r.failure, err)
	r.shared.stop.Store(true)
}

// finish merges the workers' reports.
func (r *coordinator) finish() {
	r.result.StartLateNs, r.result.Edges = -1, &Edges{}
	for i := range r.result.Workers {
		w := &r.result.Workers[i]
		if w.alone != nil {
			r.result.Unloaded = w.alone
		}
		r.result.First = join(r.result.First, w.first, (*hist.Hist).Merge)
		r.result.Handshakes = join(r.result.Handshakes, w.handshakes, (*Handshakes).add)
		r.result.H2 = join(r.result.H2, w.h2, (*H2Report).add)
		r.result.Streams = join(r.result.Streams, w.streams, (*Streams).add)
		late := w.firstNs - w.firstDueNs + r.shared.startNs.Load() - r.askedNs
		if w.firstNs > 0 && (r.result.StartLateNs < 0 || late < r.result.StartLateNs) {
			r.result.StartLateNs = max(late, 0)
		}
		r.result.Carried += w.carried
		r.result.AtEdges.join(&w.atEdges)
		r.result.Total.InFlight += w.inFlight
		r.result.Asked += w.asked
		r.result.Unsent += w.unsent
		r.result.LateAtEnd += w.lateAtEnd
		r.result.Opened += w.Opened
		r.result.FirstResponses.join(&w.responses)
		r.result.WindowNs = max(r.result.WindowNs, w.windowNs)
	}
}

// interrupt ends the run before its time.
func (r *coordinator) interrupt() {
	r.shared.stop.Store(true)
	r.result.Interrupted = true
}

// allConnected reports that every first connect attempt has ended, and ends the run if none succeeded.
// It returns the channel that delivers the start; nil: the load begins now.
func (r *coordinator) allConnected() <-chan time.Time {
	if r.shared.Ready != nil {
		r.shared.Ready(r.result.Established, r.shared.own)
	}
	if r.result.Established == 0 {
		r.observer.Connected(0, r.shared.own, time.Time{})
		r.shared.stop.Store(true)
		return nil
	}
	return r.shared.Start
}

// begin sets when the load starts. A time before the zero of the run's clock counts as zero.
func (r *coordinator) begin(at time.Time) (window, end <-chan time.Time) {
	start := max(at.Sub(r.shared.base), 1)
	open := start + r.shared.Warmup
	if late := time.Since(at); r.shared.Duration > 0 && late >= r.shared.Warmup+r.shared.Duration {
		r.fail(fmt.Errorf("load: the start was %v ago, and the run takes %v", late.Round(time.Millisecond), r.shared.Warmup+r.shared.Duration))
		return nil, nil
	}
	if r.shared.Warmup == 0 {
		r.costBegins() // before the load does, which may be over in no time
	}
	r.result.Started = r.shared.base.Add(open)
	r.askedNs = int64(at.Sub(r.shared.base))
	r.shared.startNs.Store(int64(start))
	r.observer.Connected(r.result.Established, r.shared.own, r.result.Started)
	if r.shared.Duration > 0 {
		end = time.After(time.Until(r.shared.base.Add(open + r.shared.Duration)))
	}
	return time.After(time.Until(r.shared.base.Add(open))), end
}

func (r *coordinator) windowOpens() {
	r.opened = true
	if r.shared.Warmup > 0 {
		r.costBegins()
	}
	r.observer.Window(true, r.result.Started)
}

func (r *coordinator) costBegins() {
	r.user, r.system = sys.ProcessCPUNs()
	r.alloc = allocatedBytes()
}

// measureCost reads the CPU time that the process used since the window opened.
func (r *coordinator) measureCost() {
	user, system := sys.ProcessCPUNs()
	r.result.UserNs, r.result.SystemNs = user-r.user, system-r.system
	r.result.AllocatedBytes = allocatedBytes() - r.alloc
}

// allocatedBytes returns the bytes the Go heap has allocated since the process began.
func allocatedBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
