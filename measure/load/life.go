package load

import (
	"errors"
	"fmt"

	"ceiling/internal/ring"
	"ceiling/internal/sys"
)

// newWorker sets up a worker on the calling OS thread, which it keeps.
func newWorker(s *shared, id, first, count int, free chan *Tally, out chan<- delivery) (*worker, error) {
	w := &worker{
		shared: s, id: id, number: first, pipelining: s.Pipelining,
		learned: s.script.learned(), conns: make([]conn, count),
		flights: make([]flight, flights(count, s.Pipelining)),
		fresh:   make([]uint32, 0, count),
		reopen:  make([]uint32, 0, count),
		tally:   newTally(len(s.Mix)), left: &Waiting{}, free: free, out: out,
		openLoop: !s.Rate.IsZero(),
		quota:    -1, granted: -1, tickNs: maxTime, nextDue: maxTime, windowNs: maxTime, endNs: maxTime,
		gathering: gathering{trial: trial{untilNs: maxTime}},
	}
	w.tally.Warmup = true // until the window opens
	if w.openLoop {
		w.slots.of = make([]uint32, count*s.Pipelining)
	} else if s.Requests > 0 {
		own := s.Share.Part(s.Requests)
		w.granted = int64(own / uint64(s.Threads))
		if uint64(id) < own%uint64(s.Threads) {
			w.granted++
		}
	}
	for i := range w.conns {
		c := &w.conns[i]
		c.fd, c.generation = -1, 1
		number := s.Share.Number(uint64(first + i)) // in the whole run
		c.oldest = s.script.step(0, int(mix(s.Seed+number)%uint64(len(s.script.target))))
		c.next = c.oldest
		c.reopenAt = int64(s.ConnectRamp) / int64(s.Connections) * int64(number)
		w.reopen = append(w.reopen, uint32(i))
	}
	w.feeder = newFeeder(composing(s.Mix), count, s.Pipelining)
	w.seen.checks = newChecker(s.Expect.Checks)
	w.h2 = newH2(s, count)
	if s.TLS != nil {
		w.tls = newSecure(s.TLS, count)
	}
	if s.Opening != nil {
		w.streams = newStreams(s.Opening, count)
	}
	if err := w.settle(); err != nil {
		return nil, err
	}
	if err := w.feeder.start(id, w.ring); err != nil {
		return nil, errors.Join(err, w.ring.Shut())
	}
	return w, nil
}

// settle prepares the thread, if the worker has one, and opens the ring.
func (w *worker) settle() (err error) {
	if !onThreads(&w.shared.Config) {
		w.ring, err = ring.Open(ring.Config{Engine: w.shared.Engine})
		return err
	}
	if len(w.shared.CPUs) > 0 {
		if err := sys.Pin(0, w.shared.CPUs); err != nil {
			return err
		}
	}
	if err := sys.SharpTimers(); err != nil {
		return err
	}
	// On a kernel without the file the delay stays unmeasured, and the report says so.
	if d, err := sys.OpenRunDelay(); err == nil {
		w.delay = d
	}
	w.ring, err = ring.Open(ring.Config{Engine: w.shared.Engine})
	if err != nil {
		err = fmt.Errorf("open ring: %w", err)
		if w.delay != nil {
			err = errors.Join(err, w.delay.Close())
		}
	}
	return err
}

// end finishes the window's counts.
func (w *worker) end() {
	w.fill(w.now)
	if w.phase == probing { // interrupted
		w.forgetAlone()
	}
	if w.lastNs == 0 {
		w.lastNs = w.now
	}
	for i := range w.conns {
		if c := &w.conns[i]; c.onWire > 0 && c.served == 0 && c.reader.EventStream() {
			w.tally.Faults[Fault{PhaseOpen, causeEndless}]++
		}
	}
	w.close(w.lastNs)
	w.tally.Behind = w.behind()
}

// report returns this worker's report of the window.
func (w *worker) report() *WorkerReport {
	r := &WorkerReport{
		Thread: threadID(&w.shared.Config), Connections: len(w.conns), Opened: w.opened, RunDelay: -1,
		ring:    ringFacts{w.ring.Engine(), w.ring.Why(), w.ring.Features()},
		firstNs: w.firstNs, firstDueNs: w.firstDueNs, alone: w.alone.report(), first: w.first.report(),
		responses: w.seen.kept(), handshakes: w.tls.report(), h2: w.h2.report(), streams: w.streams.report(),
		compose: w.feeder.report(w.lastNs-w.windowNs, w.lastNs),
	}
	if w.phase < measuring {
		return r
	}
	r.carried, r.inFlight, r.lateAtEnd = uint64(w.carried), uint64(w.inFlight), w.lateAtEnd
	r.asked, r.unsent = w.asked()
	r.atEdges.Waiting = w.unansweredAtEnd()
	if !w.openLoop && !w.h2.limited(w.pipelining) {
		r.atEdges.Edges = &Edges{w.carriedNs, w.waited(w.lastNs)}
	}
	if r.windowNs = w.lastNs - w.windowNs; r.windowNs <= 0 {
		return r
	}
	r.Busy = busyFor(&w.shared.Config, cpuUsed(&w.shared.Config)-w.windowCPUNs, r.windowNs)
	if r.compose != nil {
		r.Busy = max(r.Busy, r.compose.Busy)
	}
	if now := w.runDelay(); now >= 0 && w.windowDelay >= 0 {
		r.RunDelay = float64(now-w.windowDelay) / float64(r.windowNs)
	}
	return r
}

// shut closes every descriptor.
func (w *worker) shut() error {
	for i := range w.conns {
		if c := &w.conns[i]; c.fd >= 0 {
			if w.streams != nil {
				w.endStream(uint32(i), c)
			}
			if w.tls != nil {
				w.endTLS(uint32(i), c)
			}
			w.ring.Close(int(c.fd), c.tag(uint32(i)))
		}
	}
	err := w.feeder.shut()
	_, waited := w.ring.Wait(ring.Patience{})
	err = errors.Join(err, waited, w.ring.Shut())
	if w.delay != nil {
		err = errors.Join(err, w.delay.Close())
	}
	return err
}

// flights returns how many places the queues of count connections take beyond those in the
// connections themselves.
func flights(count, pipelining int) int {
	if pipelining == 1 {
		return 0
	}
	return count * pipelining
}
