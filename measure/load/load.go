// Package load is the load engine: it sends the requests of one run from a few
// OS threads, in a closed loop or on a schedule, and counts what came of them.
//
// One worker is one locked OS thread with one ring, its own connections and its
// own tally. Nothing that is shared is written while requests are under way;
// tallies leave their worker through a channel once an interval and are merged
// by the coordinator.
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

// Config is one run of the engine. All of it has to be given but where a zero
// is explained.
type Config struct {
	// Address of the server.
	Address ring.Sockaddr
	// Requests to send, with their weights.
	Mix []Request
	// Connections over all Threads, each keeping Pipelining requests in flight
	// (closed loop) or up to as many (open loop).
	Connections int
	Threads     int
	Pipelining  int
	// Rate makes an open loop, a ramp where From and To differ. The zero value
	// is a closed loop.
	Rate unit.Rate
	// Poisson arrivals in place of constant gaps.
	Poisson bool
	Seed    uint64
	// Lone is how long requests are sent one at a time, a single one in flight in
	// the whole run, before a closed loop begins; 0: none. The first share's last
	// worker does it once its connections stand, and only then tells that it is
	// ready. See Lone.
	Lone time.Duration
	// Warmup before the window, Duration of the window (0: until Requests).
	Warmup, Duration time.Duration
	// Requests ends the run after so many; 0 means Duration ends it.
	Requests uint64
	// Drain bounds the wait for the last answers of an open loop.
	Drain time.Duration
	// ConnectRamp spreads the opening of the connections.
	ConnectRamp time.Duration
	// Timeout of a connect and of a request.
	Timeout time.Duration
	// NewConnections opens one for each request.
	NewConnections bool
	// Unexpected status codes count as Bad; nil: 400 and more.
	Unexpected *[1000]bool
	// Engine of the ring; see ring.Config.
	Engine string
	// CPUs that the workers may run on; nil leaves them free.
	CPUs []int
	// Interval between two samples, 0: 100 ms.
	Interval time.Duration

	// Share of the run that this engine does; the zero value is all of it.
	// Connections, Rate, Requests and ConnectRamp are those of the whole run.
	Share Share
	// Ready, if set, is told once the first attempts to connect have ended, before
	// the load begins: how many of the share's own connections stand. It is called
	// from the coordinator's goroutine and must return soon. With none established
	// the run ends by itself.
	Ready func(established, asked int)
	// Start, if set, gives once the time at which the load begins (the warm-up
	// first); the connections stand idle until then, and one that the server closes
	// meanwhile is opened again. A time that is past begins at once, its schedule
	// as if it had begun in time: Result.StartLateNs says by how much. Closed
	// without a time, it ends the run. nil: the load begins as soon as they stand.
	Start <-chan time.Time
	Sockets

	// gatherFor is a fixed wait for further completions, for a test; 0: by what
	// responses take.
	gatherFor time.Duration
}

// Sockets is how connections are made.
type Sockets struct {
	// SourceIPs to spread the connections over, one after the other; of the
	// address's family. The port is chosen when they connect, for each pair of
	// addresses anew (ip(7), IP_BIND_ADDRESS_NO_PORT). None: the kernel chooses.
	SourceIPs []netip.Addr
	// TLS of the connections; nil: none.
	TLS *tlsconn.Config
	// Protocol that they speak, but where ALPN says another.
	Protocol Protocol
	// GRPC: the requests are unary calls of gRPC over HTTP/2. Their status codes, 0 to 16,
	// are the statuses, and all but 0 are Bad where Unexpected is nil.
	GRPC bool
	// Opening makes the connections WebSockets or event streams; nil: they carry
	// requests.
	Opening *Opening
}

// Observer is told what happens while it happens, from one goroutine. Its
// methods must return soon: intervals get late otherwise, and say so.
type Observer interface {
	// Connected: the first attempts have ended. The load begins, and the
	// window will open at the time given; zero where nothing was established
	// and the run is over.
	Connected(established, asked int, window time.Time)
	// Window: the window opens (true) or has closed (false).
	Window(open bool, at time.Time)
	// Interval: what all workers did, valid during the call only. late marks
	// one wider than 1.5 times what was asked; the drain of an open loop is one
	// interval. Times are on the run's clock,
	// zero where the window opens.
	Interval(t *Tally, late bool)
}

// Result is what a run came to.
type Result struct {
	Total Tally // of the window
	// Setup counts what went wrong before the window opened.
	Setup   map[Fault]uint64
	Started time.Time // the window opened
	// WindowNs is what the counted requests took: the window, and in an open loop
	// on to the last answer. The widths of its intervals add up to it.
	WindowNs int64
	// Carried requests were in flight when the window opened. Those of a closed
	// loop count in the latencies like any other, as those in flight at the end
	// do not: it comes to the same. Those of an open loop were due in the
	// warm-up, and their latencies are left out.
	Carried uint64
	// Edges of the window in a closed loop; nil: not known.
	Edges *Edges
	// Lone requests, nil: none were sent. First is how long after the start of a
	// closed loop each connection had its first answer, of those that got one
	// before the window opened; nil: not looked at.
	Lone  *Lone
	First *hist.Hist
	// Handshakes of TLS; nil: there was no TLS.
	Handshakes *Handshakes
	Spoken
	// Asked is how many requests were due in the window of an open loop, or were
	// asked for by number; Unsent the ones that never left, LateAtEnd those of
	// an open loop that had not left when the window closed.
	Asked, Unsent, LateAtEnd uint64
	// Opened counts connects begun over the whole run; Established the
	// connections that stood when the load began, of those asked for.
	Opened, Established int
	// StartLateNs is the time from Config.Start (without one: from the beginning
	// of the load) to the first request that left, by any worker; in an open loop
	// from when the first of them was due. -1: none left.
	StartLateNs       int64
	Engine, EngineWhy string
	EngineFeatures    []string
	UserNs, SystemNs  int64 // CPU of the process over the window
	AllocatedBytes    uint64
	Workers           []WorkerReport
	// Errors has the first response of each unexpected status, by status.
	Errors []ErrorResponse
	// Interrupted: the context ended before the plan did.
	Interrupted bool
}

// Spoken is what connections add that carry more than HTTP/1.1.
type Spoken struct {
	// H2 is what HTTP/2 adds; nil: no connection has spoken it.
	H2 *H2Report
	// Streams of messages or events; nil: the connections carried requests.
	Streams *Streams
}

// Edges are how long the requests of all slots had waited for their answers when
// the window opened (below 0 where they came due after that) and when it closed,
// each summed over the requests. With them slots × window = all response times +
// InFlightNs − CarriedNs, exactly, where no slot was ever without a request.
type Edges struct {
	CarriedNs, InFlightNs int64
}

// addEdges adds a part's to those of all, which are nil where one part's are.
func addEdges(all, part *Edges) *Edges {
	if all == nil || part == nil {
		return nil
	}
	return &Edges{all.CarriedNs + part.CarriedNs, all.InFlightNs + part.InFlightNs}
}

// WorkerReport is one worker's own account.
type WorkerReport struct {
	// Agent of several that the worker is part of, by its number in the Merger.
	Agent       int
	Thread      int
	Connections int
	Completed   uint64
	Busy        float64 // share of the window on a CPU
	RunDelay    float64 // share of the window waiting for one; -1 not measured
	Opened      int

	carried, inFlight, asked, unsent, lateAtEnd uint64
	edges                                       *Edges
	alone                                       *Lone
	handshakes                                  *Handshakes
	h2                                          *H2Report
	streams                                     *Streams
	first                                       *hist.Hist
	firstNs, firstDueNs                         int64 // the first request left, and was due to
	windowNs                                    int64 // what its counted requests took
	engine, why                                 string
	errors                                      []ErrorResponse
	features                                    []string
}

// slack is the time between the last connection standing and the first
// request: enough for every worker to have seen it.
const slack = 5 * time.Millisecond

// Run does one run. It returns an error only where nothing could be measured
// for reasons of this side; what the server does wrong is in the Result.
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
	case c.Duration < 0 || c.Lone < 0 || c.Warmup < 0 || c.Drain < 0 || c.ConnectRamp < 0 || c.Interval < 0:
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
	// Workers stay in system calls without telling the scheduler, and so does the
	// thread that samples the sockets; the others need processors of their own.
	// Runs side by side would take them from each other: who wants that raises
	// GOMAXPROCS beforehand.
	if need := c.Threads + 3; c.Protocol != HTTP3 && runtime.GOMAXPROCS(0) < need {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(need))
	}
	r := &coordinator{shared: &shared{Config: c, script: s, own: own, base: time.Now()}, observer: o, ctx: ctx}
	if r.sources, err = newSources(&c); err != nil {
		return nil, err
	}
	r.schedule = newSchedule(&c)
	if r.Unexpected == nil {
		r.Unexpected = errorStatuses()
		if c.GRPC {
			r.Unexpected = callErrors()
		}
	}
	return r.run()
}

// newSources are the addresses to bind to, in the kernel's form.
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

// coordinator starts the workers, says when to begin, and merges what they
// deliver.
type coordinator struct {
	*shared
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
	askedNs  int64 // the start as Config.Start gave it; startNs is later where that was before the run's clock
}

// spareTallies per worker: one in use, the others on their way.
const spareTallies = 4

func (r *coordinator) run() (*Result, error) {
	n, undo := r.Threads, func() error { return nil }
	if r.Protocol == HTTP3 && len(r.CPUs) > 0 { // goroutines have no threads of their own to pin
		var err error
		if undo, err = pinProcess(r.CPUs); err != nil {
			return nil, errors.Join(err, undo())
		}
	}
	r.out = make(chan delivery, n*(spareTallies+6)) // never full: a worker does not wait
	r.merge()
	r.result.Total = *newTally(len(r.Mix))
	r.result.Setup = map[Fault]uint64{}
	r.result.Workers = make([]WorkerReport, n)
	first := 0
	for id := range n {
		count := r.own / n
		if id < r.own%n {
			count++
		}
		free := make(chan *Tally, spareTallies)
		for range spareTallies - 1 {
			free <- newTally(len(r.Mix))
		}
		r.free = append(r.free, free)
		if r.Protocol == HTTP3 {
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

// start is a worker's goroutine.
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
	if len(r.CPUs) == 0 {
		release() // a pinned thread is not given back: it ends with the goroutine
	}
}

// merge sets up where the workers' tallies meet. Of a worker's four one is in
// use, two may wait for the other workers, and one is on its way.
func (r *coordinator) merge() {
	r.rows = newRowMerger(r.Threads, spareTallies-2, len(r.Mix))
	r.rows.taken, r.rows.closed = r.addPart, r.rowEnds
	r.rows.free = func(id int, t *Tally) {
		select {
		case r.free[id] <- t:
		default: // one more than there should be, or the worker has ended
		}
	}
}

// take accepts what a worker delivers.
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

// include counts a tally in the total, or before the window its faults.
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

// rowEnds tells of a row, on the clock of who asked.
func (r *coordinator) rowEnds(row *Tally) {
	if r.startNs.Load() == 0 {
		return
	}
	row.StartNs -= r.openNs()
	row.EndNs -= r.openNs()
	r.observer.Interval(row, isLate(row, int64(r.Interval)))
}

// openNs is when the window opens on the run's clock, once that is known.
func (r *coordinator) openNs() int64 { return r.startNs.Load() + int64(r.Warmup) }

// collect takes deliveries until every worker has ended.
func (r *coordinator) collect() error {
	ready, left := 0, r.Threads
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
			if window != nil && time.Since(r.base) >= time.Duration(r.openNs()) {
				window = nil // the timer is due too, and comes first
				r.windowOpens()
			}
			switch {
			case d.ready:
				r.result.Established += d.connected
				if ready++; ready == r.Threads && !r.result.Interrupted {
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
		if windowEnd != nil || r.Duration == 0 || !r.Rate.IsZero() {
			r.measureCost() // the run ended before its time, or after it
		}
		r.observer.Window(false, time.Now())
	}
	r.finish()
	return r.failure
}

// fail ends the run for a reason of this side.
func (r *coordinator) fail(err error) {
	r.failure = errors.Join(r.failure, err)
	r.stop.Store(true)
}

// finish draws the workers' own accounts together.
func (r *coordinator) finish() {
	r.result.StartLateNs, r.result.Edges = -1, &Edges{}
	for i := range r.result.Workers {
		w := &r.result.Workers[i]
		if w.alone != nil {
			r.result.Lone = w.alone
		}
		r.result.First = join(r.result.First, w.first, (*hist.Hist).Merge)
		r.result.Handshakes = join(r.result.Handshakes, w.handshakes, (*Handshakes).add)
		r.result.H2 = join(r.result.H2, w.h2, (*H2Report).add)
		r.result.Streams = join(r.result.Streams, w.streams, (*Streams).add)
		late := w.firstNs - w.firstDueNs + r.startNs.Load() - r.askedNs
		if w.firstNs > 0 && (r.result.StartLateNs < 0 || late < r.result.StartLateNs) {
			r.result.StartLateNs = max(late, 0)
		}
		r.result.Carried += w.carried
		r.result.Edges = addEdges(r.result.Edges, w.edges)
		r.result.Total.InFlight += w.inFlight
		r.result.Asked += w.asked
		r.result.Unsent += w.unsent
		r.result.LateAtEnd += w.lateAtEnd
		r.result.Opened += w.Opened
		r.result.Errors = joinErrors(r.result.Errors, w.errors)
		r.result.WindowNs = max(r.result.WindowNs, w.windowNs)
	}
}

// interrupt ends the run before its time.
func (r *coordinator) interrupt() {
	r.stop.Store(true)
	r.result.Interrupted = true
}

// connected tells that every first attempt to connect has ended, and ends the
// run where none succeeded. It answers where the start comes from, nil: from here.
func (r *coordinator) connected() <-chan time.Time {
	if r.Ready != nil {
		r.Ready(r.result.Established, r.own)
	}
	if r.result.Established == 0 {
		r.observer.Connected(0, r.own, time.Time{})
		r.stop.Store(true)
		return nil
	}
	return r.Start
}

// begin says when the load starts. A time before the run's own clock began is
// taken for that.
func (r *coordinator) begin(at time.Time) (window, end <-chan time.Time) {
	start := max(at.Sub(r.base), 1)
	open := start + r.Warmup
	if late := time.Since(at); r.Duration > 0 && late >= r.Warmup+r.Duration {
		r.fail(fmt.Errorf("load: told to start %v ago, and the run takes %v", late.Round(time.Millisecond), r.Warmup+r.Duration))
		return nil, nil
	}
	if r.Warmup == 0 {
		r.costBegins() // before the load does, which may be over in no time
	}
	r.result.Started = r.base.Add(open)
	r.askedNs = int64(at.Sub(r.base))
	r.startNs.Store(int64(start))
	r.observer.Connected(r.result.Established, r.own, r.result.Started)
	if r.Duration > 0 {
		end = time.After(time.Until(r.base.Add(open + r.Duration)))
	}
	return time.After(time.Until(r.base.Add(open))), end
}

func (r *coordinator) windowOpens() {
	r.opened = true
	if r.Warmup > 0 {
		r.costBegins()
	}
	r.observer.Window(true, r.result.Started)
}

func (r *coordinator) costBegins() {
	r.user, r.system = sys.ProcessCPUNs()
	r.alloc = allocatedBytes()
}

// measureCost reads what the process spent since the window opened.
func (r *coordinator) measureCost() {
	user, system := sys.ProcessCPUNs()
	r.result.UserNs, r.result.SystemNs = user-r.user, system-r.system
	r.result.AllocatedBytes = allocatedBytes() - r.alloc
}

// allocatedBytes is what the Go heap has handed out since the process began.
func allocatedBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
