package load

import (
	"cmp"
	"sync/atomic"
	"time"

	"ceiling/internal/ring"
	"ceiling/internal/sys"
)

// composeOrder asks a source for requests, and hands it responses.
type composeOrder struct {
	seen []Answer
	n    int
}

// composedBatch is its answer.
type composedBatch struct {
	list []Composed
	n    int // as ordered
	err  error
}

// feeder is a worker's side of its source. The worker's thread owns it, except for cpuNs.
type feeder struct {
	composing *Composing
	orders    chan composeOrder
	batches   chan composedBatch
	bell      *ring.Bell // the source wakes the worker
	gone      chan struct{}
	source    atomic.Pointer[Source]
	ended     atomic.Bool // no request is wanted any more
	cpuNs     atomic.Int64

	made    []Composed // in the order in which they are sent
	ordered int        // ordered, and not there yet
	places  []Composed // those that are queued or on the wire, by slot
	taken   []int64    // by connection: when its next request may leave, if that is held already; 0: it is not
	hungry  []uint32   // connections that wait for a request
	late    []uint32   // connections whose next request is delayed
	listed  []bool     // by connection: it is in one of the two

	partial [][]byte // responses that are being received, by connection
	seen    []Answer
	sums    ComposeReport // without the CPU

	hungryNs int64 // since when one waits; 0: none
	lastNs   int64 // CPU at the last interval
	windowNs int64 // and at the opening of the window
}

// ordersMost is how many orders may wait for a source: a worker never waits for it.
const ordersMost = 64

func newFeeder(c *Composing, connections, pipelining int) *feeder {
	if c == nil {
		return nil
	}
	m := &feeder{
		composing: c, orders: make(chan composeOrder, ordersMost), batches: make(chan composedBatch, ordersMost+1), gone: make(chan struct{}),
		places: make([]Composed, connections*pipelining), taken: make([]int64, connections), listed: make([]bool, connections),
	}
	if c.Answers {
		m.partial = make([][]byte, connections)
	}
	return m
}

// start starts the source, which wakes a worker's ring.
func (m *feeder) start(id int, r *ring.Ring) (err error) {
	if m == nil {
		return nil
	}
	// No connection has the number of its tag.
	if m.bell, err = r.Bell(ring.MakeTag(uint32(len(m.taken)), 1)); err == nil {
		go m.compose(id)
	}
	return err
}

// compose is the goroutine of the source.
func (m *feeder) compose(id int) {
	release := sys.HoldThread()
	defer release()
	defer close(m.gone)
	before := sys.ThreadCPUNs() // the thread may have served others
	worked := int64(0)
	source, err := m.composing.New(id)
	m.source.Store(&source)
	defer func() {
		if source != nil {
			_ = source.Close() // it has made its last request
		}
	}()
	for o := range m.orders {
		if m.ended.Load() {
			continue // set before the source is looked for: either it is interrupted, or this is seen
		}
		b := composedBatch{n: o.n}
		if b.err = err; err == nil {
			at := time.Now()
			b.list, b.err = source.Next(o.seen, o.n)
			worked += int64(time.Since(at))
			err = b.err
		}
		m.cpuNs.Store(cmp.Or(sys.ThreadCPUNs()-before, worked)) // other systems do not time threads
		m.batches <- b
		m.bell.Ring()
	}
}

// shut ends the source.
func (m *feeder) shut() error {
	if m == nil || m.bell == nil {
		return nil
	}
	m.ended.Store(true)
	close(m.orders)
	if s := m.source.Load(); s != nil && *s != nil {
		(*s).Interrupt()
	}
	for more := true; more; {
		select {
		case <-m.batches: // those that nobody waits for any more
		case <-m.gone:
			more = false
		}
	}
	return m.bell.Close()
}

// place is where the bytes lie of a connection's request.
func (m *feeder) place(i, at uint32) *Composed {
	return &m.places[int(i)*(len(m.places)/len(m.taken))+int(at)]
}

// bodiless reports whether the response to a connection's request has no body; without a feeder the
// script says so.
func (m *feeder) bodiless(i, at uint32, scripted bool) bool {
	if m == nil {
		return scripted
	}
	return m.place(i, at).NoBody
}

// bytesOf joins the bytes of n requests of a connection.
func (m *feeder) bytesOf(s *script, i, at uint32, n int) []byte {
	if n == 1 {
		return m.place(i, at).Bytes
	}
	var b []byte
	for range n {
		b = append(b, m.place(i, at).Bytes...)
		at = s.step(at, 1)
	}
	return b
}

// starve notes a connection that has to wait for the source.
func (m *feeder) starve(i uint32, now int64) {
	if m.hungryNs == 0 {
		m.hungryNs = now
	}
	if !m.listed[i] {
		m.listed[i] = true
		m.hungry = append(m.hungry, i)
	}
}

// sated ends the wait of all connections, as of the given time.
func (m *feeder) sated(now int64) {
	if m.hungryNs > 0 {
		m.sums.WaitedNs += now - m.hungryNs
		m.hungryNs = 0
	}
}

// nextDelayed is when the first delayed request leaves, or the given time, if that is earlier.
func (m *feeder) nextDelayed(until int64) int64 {
	for _, i := range m.late {
		until = min(until, m.taken[i])
	}
	return until
}

// collect keeps a part of the response to the request at a place, for the source; last: it ends with it.
func (m *feeder) collect(i, at uint32, part []byte, last bool) {
	if m.partial == nil {
		return
	}
	m.partial[i] = append(m.partial[i], part...)
	if last {
		m.seen = append(m.seen, Answer{m.partial[i], m.place(i, at).Tag})
		m.partial[i] = nil
	}
}

// failed tells the source of n requests that have no response.
func (m *feeder) failed(s *script, i, at uint32, n int32) {
	if m == nil || !m.composing.Answers {
		return
	}
	for range n {
		m.seen = append(m.seen, Answer{Tag: m.place(i, at).Tag})
		at = s.step(at, 1)
	}
}

// targetAt returns which target the request at a place is of; without a feeder the script says so.
func (m *feeder) targetAt(s *script, i, at uint32) uint32 {
	if m == nil {
		return s.target[at]
	}
	return m.place(i, at).Target
}

// forget drops what a connection has received of a response.
func (m *feeder) forget(i uint32) {
	if m.partial != nil {
		m.partial[i] = nil
	}
}

// charge adds the source's CPU to an interval's: the busier of the two threads is the limit.
func (m *feeder) charge(t *Tally, width int64) {
	cpu := m.cpuNs.Load()
	t.CPUNs += cpu - m.lastNs
	if width > 0 {
		t.Busy = max(t.Busy, float64(cpu-m.lastNs)/float64(width))
	}
	m.lastNs = cpu
}

// startWindow notes the opening of the window.
func (m *feeder) startWindow(now int64) {
	m.windowNs, m.sums.WaitedNs, m.sums.DelayedNs = m.cpuNs.Load(), 0, 0
	if m.hungryNs > 0 {
		m.hungryNs = now
	}
}

func (m *feeder) report(windowNs, now int64) *ComposeReport {
	if m == nil {
		return nil
	}
	m.sated(now)
	r := m.sums
	r.What, r.CPUNs = m.composing.What, m.cpuNs.Load()-m.windowNs
	if windowNs > 0 {
		r.Busy = float64(r.CPUNs) / float64(windowNs)
	}
	return &r
}
