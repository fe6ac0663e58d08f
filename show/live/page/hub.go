package page

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"ceiling/internal/pause"
	"ceiling/show/live"
)

// pulseEvery is how often readers get updates. Changes in between are combined, so the page is at
// most this old.
const pulseEvery = 250 * time.Millisecond

// hub builds the messages once for all readers. Readers have no queues: each has a position in
// the shared list of points, and fetches the rest when it is ready.
type hub struct {
	board *live.Board
	// nonce distinguishes this list from another run's at the same address.
	nonce string

	mu    sync.Mutex
	beat  chan struct{} // closed at the next pulse
	ended bool          // nothing more will come

	generation int
	points     []byte // JSON, "," between them
	ends       []int  // end of each point in points
	runs       []byte // same, for the finished runs of a plan
	runEnds    []int
	state      []byte
	version    int    // of state
	path       []byte // over time
	paths      int    // version of path
	readers    map[*reader]bool
	cost       cost
	report     func(io.Writer) error // nil if there is none
}

// cost is the CPU time of the view, and of all garbage collection, while there were viewers.
type cost struct {
	lastAt  time.Time // of a pulse with readers
	lastNs  int64
	spentNs int64
	watched time.Duration
}

// add updates the cost. A gap between two pulses is time without viewers.
func (c *cost) add(now time.Time, totalNs int64) {
	if since := now.Sub(c.lastAt); since < 4*pulseEvery {
		c.watched += since
		c.spentNs += totalNs - c.lastNs
	}
	c.lastAt, c.lastNs = now, totalNs
}

// reader is one open page.
type reader struct {
	place
	started bool
	version int
	paths   int
}

// place is a reader's position.
type place struct{ generation, points, runs int }

func newHub(board *live.Board, nonce string) *hub {
	return &hub{board: board, nonce: nonce, beat: make(chan struct{}), readers: map[*reader]bool{}, generation: -1}
}

// run pulses until ctx is done.
func (h *hub) run(ctx context.Context) {
	pause.Every(ctx, pulseEvery, func() {
		if h.read() {
			h.board.Spent(live.CPUTime(h.tell))
		}
	})
}

func (h *hub) hasReport(write func(io.Writer) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report = write
}

func (h *hub) reportWriter() func(io.Writer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.report
}

// read reports whether any page is open.
func (h *hub) read() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.readers) > 0
}

// tell fetches news from the board and wakes the readers.
func (h *hub) tell() {
	snapshot := h.board.Snapshot()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.take()
	h.cost.add(time.Now(), h.board.CostNs()+live.CollectedNs())
	if state := encodeState(&snapshot, h.cost.says(), h.report != nil); !bytes.Equal(state, h.state) {
		h.state = state
		h.version++
	}
	if list, version := h.board.Stretches(); version != h.paths {
		h.path, h.paths = encodeStretches(list), version
	}
	h.ended = snapshot.Phase == live.Ended && (snapshot.Plan == nil || snapshot.Plan.Answer != "" || snapshot.Killed)
	h.wake()
}

func (h *hub) wake() {
	close(h.beat)
	h.beat = make(chan struct{})
}

// take appends the board's new points and runs to the lists.
func (h *hub) take() {
	points, generation := h.board.Points(h.generation, len(h.ends))
	if generation != h.generation {
		h.generation, h.points, h.ends = generation, h.points[:0], h.ends[:0]
	}
	for i := range points {
		if len(h.ends) > 0 {
			h.points = append(h.points, ',')
		}
		h.points = appendPoint(h.points, &points[i])
		h.ends = append(h.ends, len(h.points))
	}
	for _, d := range h.board.Done(len(h.runEnds)) {
		if len(h.runEnds) > 0 {
			h.runs = append(h.runs, ',')
		}
		h.runs = append(h.runs, encodeRun(&d)...)
		h.runEnds = append(h.runEnds, len(h.runs))
	}
}

// join adds a reader positioned after its last event; nil if there are too many readers.
func (h *hub) join(lastEvent string) *reader {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.readers) >= readersMost {
		return nil
	}
	r := &reader{place: place{generation: -1}}
	if p, ok := h.parse(lastEvent); ok {
		r.place, r.started = p, true
	}
	h.readers[r] = true
	return r
}

func (h *hub) leave(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.readers, r)
	h.wake() // drain may wait for it
}

// message returns the events that a reader has not seen yet, nil if none, and the channel to wait
// on. last is set if no more will follow.
func (h *hub) message(r *reader, out []byte) (message []byte, beat <-chan struct{}, last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == nil {
		return nil, h.beat, false
	}
	switch {
	case !r.started || r.generation != h.generation || r.points > len(h.ends) || r.runs > len(h.runEnds):
		out = append(out, "event: history\ndata: {\"points\":["...)
		out = append(out, h.points...)
		out = append(out, "],\"runs\":["...)
		out = append(out, h.runs...)
		out = append(out, "]}\n"...)
		out = h.id(out)
		r.started = true
	case r.points < len(h.ends) || r.runs < len(h.runEnds):
		out = append(out, "event: more\ndata: {\"points\":["...)
		out = append(out, behind(h.points, h.ends, r.points)...)
		out = append(out, "],\"runs\":["...)
		out = append(out, behind(h.runs, h.runEnds, r.runs)...)
		out = append(out, "]}\n"...)
		out = h.id(out)
	}
	r.place = place{h.generation, len(h.ends), len(h.runEnds)}
	if r.version != h.version {
		r.version = h.version
		out = append(out, "event: state\ndata: "...)
		out = append(out, h.state...)
		out = append(out, "\n\n"...)
	}
	if r.paths != h.paths {
		r.paths = h.paths
		out = append(out, "event: path\ndata: "...)
		out = append(out, h.path...)
		out = append(out, "\n\n"...)
	}
	if h.ended {
		out = append(out, "event: end\ndata: {}\n\n"...)
	}
	return out, h.beat, h.ended
}

// behind returns the rest of a list from an element on.
func behind(list []byte, ends []int, from int) []byte {
	switch {
	case from == len(ends):
		return nil
	case from == 0:
		return list
	}
	return list[ends[from-1]+1:] // the comma
}

// id ends an event with its reader's position, for Last-Event-ID.
func (h *hub) id(out []byte) []byte {
	return fmt.Appendf(out, "id: %s-%d-%d-%d\n\n", h.nonce, h.generation, len(h.ends), len(h.runEnds))
}

// parse parses an id. It rejects an id of another server, or an invalid one.
func (h *hub) parse(id string) (place, bool) {
	parts := strings.Split(id, "-")
	if len(parts) != 4 || parts[0] != h.nonce {
		return place{}, false
	}
	var n [3]int
	for i := range n {
		v, err := strconv.ParseUint(parts[i+1], 10, 31)
		if err != nil {
			return place{}, false
		}
		n[i] = int(v)
	}
	return place{n[0], n[1], n[2]}, true
}

// drain waits until every reader has had the last message, for at most grace.
func (h *hub) drain(grace time.Duration) {
	if h.read() {
		h.tell()
	}
	over := time.NewTimer(grace)
	defer over.Stop()
	for {
		h.mu.Lock()
		waits, beat := h.ended && len(h.readers) > 0, h.beat
		h.mu.Unlock()
		if !waits {
			return
		}
		select {
		case <-beat:
		case <-over.C:
			return
		}
	}
}
