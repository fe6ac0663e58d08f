//go:build linux

package observe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ceiling/internal/sys"
	"ceiling/record"
)

// The looker samples the socket queues at random moments: a random handful of the connections, both
// ends of each, by exact look-ups. The moments form a Poisson process, which sees time averages
// (Wolff 1982, PASTA) as long as they do not depend on what is seen. An ordinary thread's would: it
// runs when the scheduler has nothing better to do, which is when the queues are short, or just
// after it has delayed the others. So the looker has its own thread, which runs immediately when
// due (SCHED_FIFO, if allowed), for some 50 µs.

const (
	// lookEvery is the shortest mean interval between two looks. One costs 50 to 60 µs under load,
	// 15 of them the timer and the wake-up, so the share below usually makes it 100 looks a second.
	lookEvery = 6 * time.Millisecond
	// lookShare is the largest share of one core for the looks; they come less often if a look is
	// expensive.
	lookShare = 0.0055
	// lookerPriority is the lowest real-time priority: it only has to be above ordinary threads.
	lookerPriority = 1
)

// endLooks sums what was seen at one end.
type endLooks struct {
	looked, gone                         int
	unread, unacked, unaccepted, closing int
	unreadBytes, unackedBytes            int64
	unreadMaxBytes, unackedMaxBytes      int64
}

// A look is the result of one look.
type look struct {
	costNs             int64
	client, server     endLooks
	toServer, toClient record.Transit
	err                error
}

// add sums two looks.
func (l *look) add(o *look) {
	l.costNs += o.costNs
	l.client.add(&o.client)
	l.server.add(&o.server)
	addTransit(&l.toServer, &o.toServer)
	addTransit(&l.toClient, &o.toClient)
	if l.err == nil {
		l.err = o.err
	}
}

func (e *endLooks) add(o *endLooks) {
	e.looked += o.looked
	e.gone += o.gone
	e.unread += o.unread
	e.unacked += o.unacked
	e.unaccepted += o.unaccepted
	e.closing += o.closing
	e.unreadBytes += o.unreadBytes
	e.unackedBytes += o.unackedBytes
	e.unreadMaxBytes = max(e.unreadMaxBytes, o.unreadMaxBytes)
	e.unackedMaxBytes = max(e.unackedMaxBytes, o.unackedMaxBytes)
}

func addTransit(to, t *record.Transit) {
	to.Pairs += t.Pairs
	to.Connections += t.Connections
	to.Bytes += t.Bytes
	to.UnsentBytes += t.UnsentBytes
	to.HeldBack += t.HeldBack
}

// see adds one socket.
func (e *endLooks) see(s *inetSocket) {
	e.looked++
	if s.state == tcpCloseWait {
		e.closing++
	}
	if s.inode == 0 {
		e.unaccepted++
	}
	if n := int64(s.unreadBytes()); n > 0 {
		e.unread++
		e.unreadBytes += n
		e.unreadMaxBytes = max(e.unreadMaxBytes, n)
	}
	if n := int64(s.wqueue); n > 0 {
		e.unacked++
		e.unackedBytes += n
		e.unackedMaxBytes = max(e.unackedMaxBytes, n)
	}
}

// queues extrapolates the looks to all sockets of an end.
func (e *endLooks) queues(all *record.EndQueues) record.EndQueues {
	q := record.EndQueues{
		Sockets: all.Sockets, Connecting: all.Connecting,
		UnreadMaxBytes: e.unreadMaxBytes, UnackedMaxBytes: e.unackedMaxBytes,
	}
	if e.looked == 0 {
		return q
	}
	each := float64(all.Sockets) / float64(e.looked)
	q.Unread, q.UnreadBytes = float64(e.unread)*each, float64(e.unreadBytes)*each
	q.Unacked, q.UnackedBytes = float64(e.unacked)*each, float64(e.unackedBytes)*each
	q.Unaccepted, q.PeerClosed = float64(e.unaccepted)*each, float64(e.closing)*each
	return q
}

// A looker samples connections of a roster. It belongs to one goroutine: the observer's or, once
// started, its own.
type socketLookup struct {
	client, server *lookups // the same if both ends are in one namespace
	rng            *rand.Rand
	chosen         []int
	ends           []lookedEnd // the end of pair that each question of client, then of server, is about
	client0        []flow      // by chosen pair
	server0        []flow
	roster         *socketTable

	cpus    []int // to run on; nil: any
	effort  float64
	rosters chan *socketTable
	looks   chan look
	lost    atomic.Int64 // looks that were not taken in time
	spentNs atomic.Int64 // CPU of its own thread that spent has not yet returned
	done    sync.WaitGroup
	cancel  context.CancelFunc
	plain   error // why it has no real-time priority; valid once started is closed
	started chan struct{}
}

// lookedEnd is the subject of a question.
type lookedEnd struct {
	pair int
	end  end
}

// flow is how many bytes one end of a connection has processed.
type flow struct {
	known, heldBack        bool
	sent, received, unsent uint64
}

// newLooker opens the sockets, one in each namespace.
func newLooker(sides []*side, seed uint64, cpus []int, effort float64) (*socketLookup, error) {
	l := &socketLookup{rng: rand.New(rand.NewPCG(jitterSeed, seed)), cpus: cpus, effort: effort, rosters: make(chan *socketTable, 1),
		looks: make(chan look, 512)}
	for _, s := range sides {
		var door *lookups
		err := s.in(func() (err error) {
			door, err = newLookups()
			return err
		})
		if err != nil {
			l.close()
			return nil, err
		}
		if s.only != endServer {
			l.client = door
		}
		if s.only != endClient {
			l.server = door
		}
	}
	return l, nil
}

func (l *socketLookup) close() {
	l.stop()
	if l.client != nil {
		l.client.close()
	}
	if l.server != nil && l.server != l.client {
		l.server.close()
	}
	l.client, l.server = nil, nil
}

// look samples a handful of connections now.
func (l *socketLookup) look(n int) look {
	l.choose(n)
	return l.seeChosen()
}

// choose draws the connections of the next look and writes the questions, so that only the system
// call is left when it is due: any work before would delay the load, and the look would see the
// queue that this builds.
func (l *socketLookup) choose(n int) {
	l.chosen = l.roster.draw(l.rng, n, l.chosen)
	for _, door := range []*lookups{l.client, l.server} {
		if door != nil {
			door.begin()
		}
	}
	l.client0, l.server0, l.ends = l.client0[:0], l.server0[:0], l.ends[:0]
	for i, k := range l.chosen {
		p := &l.roster.pairs[k]
		l.client0, l.server0 = append(l.client0, flow{}), append(l.server0, flow{})
		if l.client != nil && p.client.family != 0 {
			l.client.add(&p.client)
			l.ends = append(l.ends, lookedEnd{i, endClient})
		}
		if l.server != nil && p.server.family != 0 {
			l.server.add(&p.server)
			l.ends = append(l.ends, lookedEnd{i, endServer})
		}
	}
}

// seeChosen asks the questions that choose has prepared.
func (l *socketLookup) seeChosen() (out look) {
	out.err = l.ask(&out)
	for i := range l.chosen {
		transitOf(&out.toServer, &l.client0[i], &l.server0[i])
		transitOf(&out.toClient, &l.server0[i], &l.client0[i])
	}
	return out
}

// ask asks both look-up sockets and handles the answers.
func (l *socketLookup) ask(out *look) error {
	doors := []*lookups{l.client, l.server}
	if l.client == l.server {
		doors = doors[:1]
	}
	for _, door := range doors {
		if door == nil {
			continue
		}
		if err := door.ask(); err != nil {
			return err
		}
	}
	for _, door := range doors {
		if door == nil {
			continue
		}
		asked := l.asked(door)
		if err := door.answers(func(i int, s *inetSocket) { l.see(out, asked(i), s) }); err != nil {
			return err
		}
	}
	return nil
}

// asked returns what the questions to one look-up socket were about: all of them if there is one,
// else those of its end.
func (l *socketLookup) asked(door *lookups) func(i int) lookedEnd {
	if l.client == l.server {
		return func(i int) lookedEnd { return l.ends[i] }
	}
	own := endClient
	if door == l.server {
		own = endServer
	}
	at := -1
	return func(int) lookedEnd { // called in their order
		for at++; l.ends[at].end != own; at++ {
		}
		return l.ends[at]
	}
}

// see handles one answer.
func (l *socketLookup) see(out *look, about lookedEnd, s *inetSocket) {
	sums, flows := &out.client, l.client0
	if about.end == endServer {
		sums, flows = &out.server, l.server0
	}
	if s == nil {
		sums.gone++
		return
	}
	sums.see(s)
	flows[about.pair] = flowOf(s.info)
}

// transitOf adds what one end has written and the other's kernel has not received yet. The two are
// read a microsecond apart: a negative difference counts as nothing in transit.
func transitOf(t *record.Transit, from, to *flow) {
	if !from.known || !to.known {
		return
	}
	t.Pairs++
	n := int64(from.sent+from.unsent) - int64(to.received)
	if n <= 0 {
		return
	}
	t.Connections++
	t.Bytes += float64(n)
	t.UnsentBytes += float64(from.unsent)
	if from.heldBack {
		t.HeldBack++
	}
}

// start makes it look by itself, at random moments, until stop. The observer's goroutine collects
// the results with taken.
func (l *socketLookup) start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	l.started = make(chan struct{})
	l.done.Go(func() {
		// Not unlocked: a thread with another policy or affinity ends with its goroutine.
		runtime.LockOSThread()
		l.plain = l.prepare()
		real := l.plain == nil
		close(l.started)
		l.run(ctx)
		// The thread outlives the goroutine by a moment in which its process cannot be moved to
		// another cgroup if it is a real-time one (CONFIG_RT_GROUP_SCHED). It may always give up
		// that priority.
		if real {
			_ = sys.SetNormal()
		}
	})
	<-l.started
}

// prepare sets the thread's affinity and priority.
func (l *socketLookup) prepare() error {
	if len(l.cpus) > 0 {
		if err := sys.Pin(0, l.cpus); err != nil {
			return err
		}
	}
	err := sys.SetFIFO(lookerPriority)
	if err == nil {
		return nil
	}
	if prompt := sys.SetLowLatency(100 * time.Microsecond); prompt != nil {
		return fmt.Errorf("%w; %w", err, prompt)
	}
	return err
}

func (l *socketLookup) run(ctx context.Context) {
	least, share := float64(lookEvery)/l.effort, lookShare*l.effort
	every := least
	next, cpu := sys.MonotonicNs(), threadNs()
	for ctx.Err() == nil {
		select {
		case r := <-l.rosters:
			l.roster = r
		default:
		}
		there := l.roster != nil && len(l.roster.pairs) > 0
		if there {
			l.choose(looksAt)
		}
		next = max(next, sys.MonotonicNs()-int64(lookEvery)) + int64(l.rng.ExpFloat64()*every)
		// In pieces, so that stop does not wait for a long pause.
		for now := sys.MonotonicNs(); now < next && ctx.Err() == nil; now = sys.MonotonicNs() {
			sys.NapUntil(min(next, now+int64(50*time.Millisecond)))
		}
		if ctx.Err() != nil || !there {
			continue
		}
		seen := l.seeChosen()
		was := cpu
		cpu = threadNs()
		seen.costNs = cpu - was // including the pause before it
		l.spentNs.Add(seen.costNs)
		every += (max(least, float64(seen.costNs)/share) - every) / 16
		select {
		case l.looks <- seen:
		default:
			l.lost.Add(1)
		}
		if seen.err != nil {
			return
		}
	}
}

// stop ends it; look may be called again from the caller's goroutine.
func (l *socketLookup) stop() {
	if l.cancel == nil {
		return
	}
	l.cancel()
	l.done.Wait()
	l.cancel = nil
}

// spent returns its own thread's CPU time since the last call, in nanoseconds.
func (l *socketLookup) spent() int64 { return l.spentNs.Swap(0) }

// running reports whether it looks by itself.
func (l *socketLookup) running() bool { return l.cancel != nil }

// use makes it choose from another roster.
func (l *socketLookup) use(r *socketTable) {
	if !l.running() {
		l.roster = r
		return
	}
	select {
	case <-l.rosters: // one not yet taken
	default:
	}
	l.rosters <- r
}

// taken sums what was seen since the last call, and returns the number of looks.
func (l *socketLookup) taken() (sum look, moments int) {
	for {
		select {
		case one := <-l.looks:
			sum.add(&one)
			moments++
		default:
			return sum, moments
		}
	}
}
