package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/pause"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/live"
)

const (
	// pulseEvery is how often readers get updates. Changes in between are combined.
	pulseEvery = 250 * time.Millisecond
	// partsEvery is how often figures change that nobody can read faster; making them takes most of an update.
	partsEvery = time.Second
)

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
	extent     chart.Extent
	done       []live.FinishedRun
	pulses     int
	version    int // of what was rendered last
	rendered   []rendered
	readers    map[*reader]bool
	cost       cost
	report     func(io.Writer) error // nil if there is none
}

// rendered is a part of the page, or the axes of the charts, as an event.
type rendered struct {
	of      any
	event   []byte
	version int
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

// says describes the view's cost to its process.
func (c *cost) says() string {
	if c.watched < secondsShown {
		return "measuring…"
	}
	share := float64(c.spentNs) / float64(c.watched.Nanoseconds())
	return fmt.Sprintf("≤ %.2f%% of one core", 100*share)
}

// secondsShown is how long the view must have been watched before it reports its cost.
const secondsShown = 2e9 // ns

// reader is one open page.
type reader struct {
	place
	started bool
	version int
}

// place is a reader's position.
type place struct{ generation, points int }

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
	h.render(&snapshot)
	h.ended = snapshot.Phase == live.Ended && (snapshot.Plan == nil || snapshot.Plan.Answer != "" || snapshot.Killed)
	h.wake()
}

// render makes the parts, and the axes of the charts.
func (h *hub) render(s *live.Snapshot) {
	over, changes := h.board.Stretches()
	v := &view{Snapshot: s, done: h.done, over: over, overs: changes, cost: h.cost.says(), Report: h.report != nil,
		tick: h.pulses * int(pulseEvery) / int(partsEvery)}
	h.pulses++
	axes := axesOf(s, h.extent)
	h.put(0, axes, axes.event)
	for i, p := range v.parts() {
		h.put(i+1, p.of, p.event)
	}
}

// put keeps the i-th event, and encodes it again unless it is of the same as before.
func (h *hub) put(i int, of any, encode func() []byte) {
	if i == len(h.rendered) {
		h.rendered = append(h.rendered, rendered{})
	}
	r := &h.rendered[i]
	if of == r.of {
		return
	}
	if event := encode(); !bytes.Equal(event, r.event) {
		h.version++
		r.event, r.version = event, h.version
	}
	r.of = of
}

func (h *hub) wake() {
	close(h.beat)
	h.beat = make(chan struct{})
}

// take appends the board's new points and finished runs.
func (h *hub) take() {
	points, generation := h.board.Points(h.generation, len(h.ends))
	if generation != h.generation {
		h.generation, h.points, h.ends, h.extent = generation, h.points[:0], h.ends[:0], chart.Extent{}
	}
	for i := range points {
		if len(h.ends) > 0 {
			h.points = append(h.points, ',')
		}
		h.points = appendPoint(h.points, &points[i])
		reach(&h.extent, &points[i])
		h.ends = append(h.ends, len(h.points))
	}
	h.done = append(h.done, h.board.Done(len(h.done))...)
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
	if h.rendered == nil {
		return nil, h.beat, false
	}
	for i := range h.rendered {
		if h.rendered[i].version > r.version {
			out = append(out, h.rendered[i].event...)
		}
	}
	r.version = h.version
	if from := r.points; !r.started || r.generation != h.generation || from > len(h.ends) {
		out = append(out, "event: history\ndata: ["...)
		out = h.id(append(out, h.points...))
		r.started = true
	} else if from < len(h.ends) {
		out = append(out, "event: more\ndata: ["...)
		out = h.id(append(out, behind(h.points, h.ends, from)...))
	}
	r.place = place{h.generation, len(h.ends)}
	if h.ended {
		out = append(out, "event: end\ndata: {}\n\n"...)
	}
	return out, h.beat, h.ended
}

// behind returns the rest of a list from an element on.
func behind(list []byte, ends []int, from int) []byte {
	if from == 0 {
		return list
	}
	return list[ends[from-1]+1:] // the comma
}

// id ends an event with its reader's position, for Last-Event-ID.
func (h *hub) id(out []byte) []byte {
	return fmt.Appendf(out, "]\nid: %s-%d-%d\n\n", h.nonce, h.generation, len(h.ends))
}

// parse parses an id. It rejects an id of another server, or an invalid one.
func (h *hub) parse(id string) (place, bool) {
	parts := strings.Split(id, "-")
	if len(parts) != 3 || parts[0] != h.nonce {
		return place{}, false
	}
	generation, err := strconv.ParseUint(parts[1], 10, 31)
	points, err2 := strconv.ParseUint(parts[2], 10, 31)
	return place{int(generation), int(points)}, err == nil && err2 == nil
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

// appendPoint writes a point as [end s, width s, requests/s, max, p99, p50 ns, remarks, late, [first step, responses in
// it, in the next, …]]. Without responses the quantiles are null and there are no steps (record.Steps).
func appendPoint(out []byte, p *live.Point) []byte {
	number := func(v float64, digits int) {
		out = strconv.AppendFloat(out, v, 'f', digits, 64)
		out = append(out, ',')
	}
	out = append(out, '[')
	number(float64(p.TNs)/1e9, 3)
	number(float64(p.WidthNs)/1e9, 3)
	number(p.PerS(), 1)
	for _, ns := range []int64{p.MaxNs, p.P99Ns, p.P50Ns} {
		if p.Answered {
			number(float64(ns), 0)
		} else {
			out = append(out, "null,"...)
		}
	}
	out = strconv.AppendQuote(out, remarks(p))
	out = append(out, ",0,["...)
	if p.Late {
		out[len(out)-3] = '1'
	}
	if p.Response != nil {
		out = strconv.AppendInt(out, int64(p.Response.First), 10)
		for _, n := range p.Response.Counts {
			out = strconv.AppendUint(append(out, ','), n, 10)
		}
	}
	return append(out, "]]"...)
}

// remarks is what to know of a point besides its figures.
func remarks(p *live.Point) string {
	var list []string
	if p.Warmup {
		list = append(list, "warm-up")
	}
	if p.Failed > 0 {
		list = append(list, fmt.Sprintf("%d errors", p.Failed))
	}
	if p.Intervals > 1 {
		list = append(list, fmt.Sprintf("worst of %d intervals", p.Intervals))
	}
	return strings.Join(list, ", ")
}

// reach extends an extent to a point.
func reach(e *chart.Extent, p *live.Point) {
	e.From, e.To, e.PerS = min(e.From, float64(p.TNs-p.WidthNs)/1e9), max(e.To, float64(p.TNs)/1e9), max(e.PerS, p.PerS())
	if !p.Answered {
		return
	}
	low := float64(p.P50Ns)
	if p.Response != nil && p.Response.Possible() {
		low = hist.StepNs(p.Response.First)
	}
	if e.LowNs == 0 {
		e.LowNs = low
	}
	e.LowNs, e.HighNs = min(e.LowNs, low), max(e.HighNs, float64(p.MaxNs))
}

// axes is what the charts show besides their points.
type axes struct {
	chart.Extent
	kind   spec.LoadKind
	formed *live.Formed // has the stalls
}

// axesOf returns the axes of a run whose points have an extent. The time axis is the whole run where its end is known, so
// that a reader sees how much is still to come.
func axesOf(s *live.Snapshot, e chart.Extent) axes {
	e.From = min(e.From, -s.Spec.Warmup.Seconds())
	if s.Phase != live.Ended {
		e.To = max(e.To, s.Spec.Duration.Seconds())
	}
	return axes{e, s.Spec.Kind, s.Formed}
}

func (a axes) event() []byte {
	var run record.Run
	run.Spec.Kind = a.kind
	if a.formed != nil {
		run.Verdict.Stalls = a.formed.Verdict.Stalls
	}
	rate, response := chart.Growing(&chart.Run{Run: &run}, a.Extent)
	text, err := json.Marshal(map[string]chart.Plot{"rate": rate, "response": response})
	if err != nil {
		panic("live page: " + err.Error()) // plain structs and finite numbers: a bug in this file
	}
	return fmt.Appendf(nil, "event: axes\ndata: %s\n\n", text)
}
