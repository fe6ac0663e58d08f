// Package load is the load engine: it sends the requests of one run from a few OS threads, in a
// closed loop or on a schedule, and counts the outcomes.
//
// One worker is one locked OS thread with its own ring, connections and tally. Workers share no
// memory that is written while requests are in flight; each hands its tally over through a channel
// once per interval, and the coordinator merges them.
package load

import (
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
	"ceiling/internal/tlsconn"
	"ceiling/internal/unit"
)

// Config configures one run of the engine. Every field is required unless its zero value is
// documented.
type Config struct {
	// Address of the server.
	Address ring.Sockaddr
	// Mix has the requests to send, with their weights.
	Mix []Request
	// Connections over all Threads. Each keeps Pipelining requests in flight in a closed loop, and
	// at most that many in an open loop.
	Connections int
	Threads     int
	Pipelining  int
	// Rate makes it an open loop, with a ramp if From and To differ. The zero value is a closed
	// loop.
	Rate unit.Rate
	// Poisson arrivals instead of constant gaps.
	Poisson bool
	Seed    uint64
	// Unloaded is how long the run sends requests one at a time, a single one in flight in the whole
	// run, before a closed loop begins; 0: not at all. The last worker of the first share does it
	// once its connections are established, and reports ready afterwards. See Lone.
	Unloaded time.Duration
	// Warmup precedes the window, which lasts Duration (0: until Requests).
	Warmup, Duration time.Duration
	// Requests ends the run after that many; 0: Duration ends it.
	Requests uint64
	// Drain bounds the wait for the last responses of an open loop.
	Drain time.Duration
	// ConnectRamp spreads the connects over this time.
	ConnectRamp time.Duration
	// Timeout of a connect, and of a request.
	Timeout time.Duration
	// NewConnections opens a new connection for each request.
	NewConnections bool
	// Unexpected has the status codes that count as Bad; nil: 400 and up.
	Unexpected *[1000]bool
	// Engine of the ring; see ring.Config.
	Engine string
	// CPUs that the workers may run on; nil: any.
	CPUs []int
	// Interval between two samples; 0: 100 ms.
	Interval time.Duration

	// Share of the run that this engine does; zero value: all of it. Connections, Rate, Requests
	// and ConnectRamp are those of the whole run.
	Share Share
	// Ready, if set, is called when the first connect attempts have ended, before the load begins,
	// with the number of the share's own connections that are established. It runs on the
	// coordinator's goroutine and must return quickly. If none is established, the run ends by
	// itself.
	Ready func(established, asked int)
	// Start, if set, delivers once the time at which the load begins (warm-up first). Until then
	// the connections are idle, and one that the server closes is reopened. If the time has passed,
	// the load begins at once on the schedule of an on-time start: Result.StartLateNs has the
	// delay. Closing the channel without a time ends the run. nil: the load begins once the
	// connections are established.
	Start <-chan time.Time
	Sockets

	// gatherFor is a fixed wait for further completions, for tests; 0: derived from response times.
	gatherFor time.Duration
}

// Sockets is how the engine makes connections.
type Sockets struct {
	// SourceIPs to spread the connections over, round robin; same family as the address. The kernel
	// chooses the port at connect, per address pair (ip(7), IP_BIND_ADDRESS_NO_PORT). Empty: the
	// kernel chooses the address too.
	SourceIPs []netip.Addr
	// TLS of the connections; nil: none.
	TLS *tlsconn.Config
	// Protocol of the connections, unless ALPN selects another.
	Protocol Protocol
	// GRPC: the requests are unary gRPC calls over HTTP/2. Their status codes, 0 to 16, are the
	// statuses; if Unexpected is nil, all but 0 are Bad.
	GRPC bool
	// Opening makes the connections WebSockets or event streams; nil: they carry requests.
	Opening *Opening
}

// Observer receives events during the run, from one goroutine. Its methods must return quickly: a
// slow one makes intervals late, and they are marked late.
type Observer interface {
	// Connected: the first connect attempts have ended. The load begins, and the window will open
	// at the given time; zero if no connection was established and the run is over.
	Connected(established, asked int, window time.Time)
	// Window: the window opens (true) or closed (false).
	Window(open bool, at time.Time)
	// Interval has what all workers did; t is valid during the call only. late marks one wider than
	// 1.5 times the configured interval; the drain of an open loop is one interval. Times are on
	// the run's clock, zero at the opening of the window.
	Interval(t *Tally, late bool)
}

// Result is the result of a run.
type Result struct {
	Total Tally // of the window
	// Setup counts the faults before the window opened.
	Setup   map[Fault]uint64
	Started time.Time // the window opened
	// WindowNs is the time the counted requests took: the window and, in an open loop, the time to
	// the last response. The widths of its intervals add up to it.
	WindowNs int64
	// Carried requests were in flight when the window opened. A closed loop counts them in the
	// latencies, and leaves out those in flight at the end: the two balance. Those of an open loop
	// were due in the warm-up, and their latencies are left out.
	Carried uint64
	AtEdges
	// Unloaded has the unloaded requests; nil: none were sent. First is the time from the start of a closed
	// loop to each connection's first response, for those that got one before the window opened;
	// nil: not measured.
	Unloaded *Unloaded
	First    *hist.Hist
	// Handshakes of TLS; nil: no TLS.
	Handshakes *Handshakes
	Spoken
	// Asked is how many requests were due in the window of an open loop, or were requested by
	// number. Unsent of them never left; LateAtEnd of an open loop had not left when the window
	// closed.
	Asked, Unsent, LateAtEnd uint64
	// Opened counts the connects begun over the whole run; Established the connections, of those
	// requested, that were established when the load began.
	Opened, Established int
	// StartLateNs is the time from Config.Start (if nil: from the beginning of the load) to the
	// first request that any worker sent; in an open loop, from when that request was due. -1: none
	// was sent.
	StartLateNs       int64
	Engine, EngineWhy string
	EngineFeatures    []string
	UserNs, SystemNs  int64 // CPU of the process over the window
	AllocatedBytes    uint64
	Workers           []WorkerReport
	FirstResponses
	// Interrupted: the context ended before the plan did.
	Interrupted bool
}

// Spoken is what protocols other than HTTP/1.1 add to a result.
type Spoken struct {
	// H2 is what HTTP/2 adds; nil: no connection spoke it.
	H2 *H2Report
	// Streams of messages or events; nil: the connections carried requests.
	Streams *Streams
}

// Edges sum, over the requests of all slots, how long each had waited for its response when the
// window opened (negative if it came due after that) and when it closed. With them slots × window =
// all response times + InFlightNs − CarriedNs, exactly, if no slot was ever without a request.
type Edges struct {
	CarriedNs, InFlightNs int64
}

// AtEdges is what is known of the requests at the edges of the window.
type AtEdges struct {
	// Edges of the window in a closed loop; nil: unknown.
	Edges *Edges
	// Waiting has the requests without a response at the end; nil: unknown.
	Waiting *Waiting
}

// join adds a part's.
func (e *AtEdges) join(part *AtEdges) {
	e.Edges, e.Waiting = addEdges(e.Edges, part.Edges), join(e.Waiting, part.Waiting, (*Waiting).add)
}

// addEdges adds a part's edges to the total, which is nil if any part's are.
func addEdges(all, part *Edges) *Edges {
	if all == nil || part == nil {
		return nil
	}
	return &Edges{all.CarriedNs + part.CarriedNs, all.InFlightNs + part.InFlightNs}
}

// WorkerReport is one worker's own account.
type WorkerReport struct {
	// Agent among several that the worker belongs to, by its number in the Merger.
	Agent       int
	Thread      int
	Connections int
	Completed   uint64
	Busy        float64 // share of the window on a CPU
	RunDelay    float64 // share of the window runnable, waiting for a CPU; -1 not measured
	Opened      int

	carried, inFlight, asked, unsent, lateAtEnd uint64
	atEdges                                     AtEdges
	alone                                       *Unloaded
	handshakes                                  *Handshakes
	h2                                          *H2Report
	streams                                     *Streams
	first                                       *hist.Hist
	firstNs, firstDueNs                         int64 // when the first request left, and when it was due
	windowNs                                    int64 // time its counted requests took
	engine, why                                 string
	responses                                   FirstResponses
	features                                    []string
}

// slack is the time between the last connection being established and the first request: enough for
// every worker to see it.
const slack = 5 * time.Millisecond

// Run does one run. It returns an error only if this side could not measure anything; the server's
// faults are in the Result.
func Run(ctx context.Context, c Config, o Observer) (*Result, error) {
	if c.Interval == 0 {
		c.Interval = 100 * time.Millisecond
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
	case own < c.Threads:
		return nil, fmt.Errorf("load: %d connections are too few for %d threads; each thread needs its own", own, c.Threads)
	case c.Duration < 0 || c.Unloaded < 0 || c.Warmup < 0 || c.Drain < 0 || c.ConnectRamp < 0 || c.Interval < 0:
		return nil, errors.New("load: a time is negative")
	case c.Protocol == HTTP3 && c.TLS == nil:
		return nil, errors.New("load: HTTP/3 needs TLS")
	case c.GRPC && c.Protocol != HTTP2:
		return nil, errors.New("load: gRPC needs HTTP/2")
	case c.Duration == 0 && !c.Rate.Constant():
		return nil, errors.New("load: a ramp needs a duration")
	}
	s, err := newScript(c.Mix, c.Pipelining, c.Seed)
	if err != nil {
		return nil, err
	}
	if err := s.forH2(&c); err != nil {
		return nil, err
	}
	// Workers block in system calls without notifying the scheduler, and so does the thread that
	// samples the sockets; the other goroutines need Ps of their own. Concurrent runs would compete
	// for them: their caller raises GOMAXPROCS first.
	if need := c.Threads + 3; c.Protocol != HTTP3 && runtime.GOMAXPROCS(0) < need {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(need))
	}
	r := &coordinator{shared: &shared{Config: c, script: s, own: own, base: time.Now()}, observer: o, ctx: ctx}
	if r.shared.sources, err = newSources(&c); err != nil {
		return nil, err
	}
	r.shared.schedule = newSchedule(&c)
	if r.shared.Unexpected == nil {
		r.shared.Unexpected = errorStatuses()
		if c.GRPC {
			r.shared.Unexpected = callErrors()
		}
	}
	return r.run()
}

// newSources returns the addresses to bind to, in the kernel's form.
func newSources(c *Config) ([]ring.Sockaddr, error) {
	var list []ring.Sockaddr
	for _, ip := range c.SourceIPs {
		a := ring.TCPAddr(netip.AddrPortFrom(ip, 0))
		if !a.SameFamily(&c.Address) {
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
	n, undo := r.shared.Threads, func() error { return nil }
	if r.shared.Protocol == HTTP3 && len(r.shared.CPUs) > 0 { // goroutines have no threads of their own to pin
		var err error
		if undo, err = pinProcess(r.shared.CPUs); err != nil {
			return nil, errors.Join(err, undo())
		}
	}
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
		if r.shared.Protocol == HTTP3 {
			go r.startQUIC(id, first, count, free)
		} else {
			go r.start(id, first, count, free)
		}
		first += count
	}
	if err := errors.Join(r.collect(), undo()); err != nil {
		return nil, err
	}
	return &r.result, nil
}

// start is the body of a worker's goroutine.
func (r *coordinator) start(id, first, count int, free chan *Tally) {
	release := sys.HoldThread()
	w, err := newWorker(r.shared, id, first, count, free, r.out)
	if err == nil {
		err = w.loop()
	}
	d := delivery{worker: id, last: true, err: err}
	if w != nil {
		w.end()
		d.tally, d.report = w.tally, w.report()
		err = w.shut()
		if d.err == nil {
			d.err = err
		}
	}
	r.out <- d
	if len(r.shared.CPUs) == 0 {
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
		r.result.Engine, r.result.EngineWhy, r.result.EngineFeatures = d.report.engine, d.report.why, d.report.features
	}
	if d.last {
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

// include adds a tally to the total, or only its faults if it is from before the window.
func (r *Result) include(t *Tally) {
	if t.Warmup {
		for f, n := range t.Faults {
			r.Setup[f] += n
		}
		return
	}
	r.Total.count(t)
	r.Total.CPUNs, r.Total.Busy = max(r.Total.CPUNs, t.CPUNs), max(r.Total.Busy, t.Busy)
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
	ready, left := 0, r.shared.Threads
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
					if start = r.connected(); start == nil && r.result.Established > 0 {
						window, windowEnd = r.begin(time.Now().Add(slack))
					}
				}
				continue
			case d.last:
				left--
				if d.err != nil {
					r.fail(fmt.Errorf("load worker %d: %w", d.worker, d.err))
				}
			}
			r.take(d)
		}
	}
	if r.opened {
		if windowEnd != nil || r.shared.Duration == 0 || !r.shared.Rate.IsZero() {
			r.measureCost() // the run ended before its time, or after it
		}
		r.observer.Window(false, time.Now())
	}
	r.finish()
	return r.failure
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

// connected reports that every first connect attempt has ended, and ends the run if none succeeded.
// It returns the channel that delivers the start; nil: the load begins now.
func (r *coordinator) connected() <-chan time.Time {
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
