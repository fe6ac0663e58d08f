// Package publish creates events for a server's subscribers and counts the fate of each, for
// comparison with a client's counts: every event offered to a subscriber is delivered, dropped,
// or lost when the subscriber leaves.
//
// An event is created once for all: one event to n subscribers is n sends, each on the
// subscriber's own goroutine, as in the frameworks' own streaming.
package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ceiling/internal/option"
	"ceiling/internal/sys"
)

// Policies for a subscriber whose queue is full.
const (
	Drop  = "drop"  // the subscriber misses it
	Block = "block" // all wait until there is room
)

// Options configure publishing.
type Options struct {
	PerS  float64 // events per second; 0: as fast as subscribers are served
	Size  int     // of an event with its fields, in bytes; raised to an event's minimum
	Slow  string  // Drop or Block
	Queue int     // length of each subscriber's queue
	Await int     // subscribers to await before the first event
	Count uint64  // total events; 0: unlimited
}

// Standard is 10 events per second of 200 bytes; slow subscribers miss some.
func Standard() Options { return Options{PerS: 10, Size: 200, Slow: Drop, Queue: 64} }

// catchUp is the largest delay that the publisher makes up for: timers are up to a millisecond
// late, and without catching up the rate would be too low.
const catchUp = 100 * time.Millisecond

// greeting is a comment, which subscribers ignore. It makes the response's head leave at once:
// fasthttp holds it back until the body starts.
const greeting = ": subscribed\n\n"

// Limits of the options.
const (
	rateMost  = 1e6
	sizeLeast = 1
	sizeMost  = 1 << 20
	queueMost = 1 << 16
	awaitMost = 1e6
)

// form is the syntax of options.
const form = "rate=10,size=200,slow=drop,queue=64,await=1,count=1000, or own"

// Parse parses options as typed: "rate=100,size=1000,slow=block". Omitted values are those of
// Standard, as is all of "own"; rate=max is as fast as subscribers are served.
func Parse(text string) (Options, error) {
	o := Standard()
	return o, option.Read(text, form, o.set)
}

func (o *Options) set(name, value string) error {
	number := func(into *int, least, most int) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < least || n > most {
			return fmt.Errorf("give a number from %d to %d", least, most)
		}
		*into = n
		return nil
	}
	switch name {
	case "rate":
		if value == "max" {
			o.PerS = 0
			return nil
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || !(v > 0 && v <= rateMost) {
			return fmt.Errorf("give events a second, up to %d, or max", int(rateMost))
		}
		o.PerS = v
	case "size":
		return number(&o.Size, sizeLeast, sizeMost)
	case "queue":
		return number(&o.Queue, 1, queueMost)
	case "await":
		return number(&o.Await, 0, awaitMost)
	case "count":
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil {
			return fmt.Errorf("give a number of events")
		}
		o.Count = n
	case "slow":
		if value != Drop && value != Block {
			return fmt.Errorf("give %s or %s", Drop, Block)
		}
		o.Slow = value
	default:
		return fmt.Errorf("unknown option")
	}
	return nil
}

// Status is the counts since the start.
type Status struct {
	Subscribers int `json:"subscribers"` // now
	// Published counts events, Offered their subscribers. Offered is the sum of Delivered
	// (written and flushed), Dropped (the queue was full), Lost (queued for a subscriber who
	// left) and the events now queued.
	Published uint64 `json:"published"`
	Offered   uint64 `json:"offered"`
	Delivered uint64 `json:"delivered"`
	Dropped   uint64 `json:"dropped"`
	Lost      uint64 `json:"lost"`
	// BlockedNs is how long the publisher has waited for subscribers with full queues.
	BlockedNs int64 `json:"blocked_ns"`
	// Received and Sent count WebSocket messages.
	Received uint64 `json:"messages_received"`
	Sent     uint64 `json:"messages_sent"`
}

// Hub is one publisher with its subscribers.
type Hub struct {
	options Options
	boot    string
	ctx     context.Context
	end     context.CancelFunc
	ended   chan struct{} // the publisher has returned

	mu          sync.Mutex
	subscribers map[*subscriber]struct{}
	joined      chan struct{} // signalled on each subscription

	published, offered, delivered, dropped, lost, received, sent atomic.Uint64
	blockedNs                                                    atomic.Int64
}

// subscriber is one connection.
type subscriber struct {
	queue chan []byte
	gone  chan struct{}
}

// Start publishes until Close.
func Start(o Options) *Hub {
	h := &Hub{options: o, ended: make(chan struct{}), subscribers: map[*subscriber]struct{}{}, joined: make(chan struct{}, 1)}
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil && len(id) >= 8 {
		h.boot = string(id[:8])
	}
	h.ctx, h.end = context.WithCancel(context.Background())
	go h.publish()
	return h
}

// Context ends when the hub is closed.
func (h *Hub) Context() context.Context { return h.ctx }

// Closing closes a connection along with the hub, unless the returned function is called first.
func (h *Hub) Closing(connection func() error) (stop func() bool) {
	return context.AfterFunc(h.ctx, func() { _ = connection() }) // an error means that it is closed already
}

// Close ends publishing and every subscription.
func (h *Hub) Close() {
	h.end()
	<-h.ended
}

// publish creates the events when they are due. If it falls behind by more than catchUp, it skips
// what was due: the rate is then the maximum possible.
func (h *Hub) publish() {
	defer close(h.ended)
	for h.count() < max(h.options.Await, 1) { // nothing to publish for yet
		select {
		case <-h.joined:
		case <-h.ctx.Done():
			return
		}
	}
	var gap time.Duration
	if h.options.PerS > 0 {
		gap = time.Duration(float64(time.Second) / h.options.PerS)
	}
	var list []*subscriber
	next := time.Now()
	for n := uint64(1); h.options.Count == 0 || n <= h.options.Count; n++ {
		if next = next.Add(gap); time.Until(next) < -max(gap, catchUp) {
			next = time.Now()
		}
		if !h.sleep(time.Until(next)) {
			return
		}
		if list = h.list(list[:0]); len(list) == 0 && gap == 0 {
			if !h.sleep(time.Millisecond) {
				return
			}
			n--
			continue
		}
		event := h.event(n)
		h.published.Add(1)
		for _, s := range list {
			h.offer(s, event)
		}
	}
	<-h.ctx.Done()
}

// sleep reports whether the hub is still open afterwards.
func (h *Hub) sleep(d time.Duration) bool {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-h.ctx.Done():
		}
	}
	return h.ctx.Err() == nil
}

// event returns event number n with the current time.
func (h *Hub) event(n uint64) []byte {
	b := fmt.Appendf(make([]byte, 0, h.options.Size+200), "id: %d\ndata: {\"seq\":%d,\"unix_ns\":%d,\"monotonic_ns\":%d,\"boot\":%q", n, n,
		time.Now().UnixNano(), sys.MonotonicNs(), h.boot)
	const end = "}\n\n"
	if room := h.options.Size - len(b) - len(end) - len(`,"pad":""`); room > 0 {
		b = fmt.Appendf(b, ",\"pad\":%q", strings.Repeat("x", room))
	}
	return append(b, end...)
}

// offer puts an event into a subscriber's queue.
func (h *Hub) offer(s *subscriber, event []byte) {
	h.offered.Add(1)
	select {
	case s.queue <- event:
		h.notLeft(s)
		return
	default:
	}
	if h.options.Slow == Drop {
		h.dropped.Add(1)
		return
	}
	began := time.Now()
	select {
	case s.queue <- event:
		h.notLeft(s)
	case <-s.gone:
		h.lost.Add(1)
	case <-h.ctx.Done():
		h.lost.Add(1)
	}
	h.blockedNs.Add(int64(time.Since(began)))
}

func (h *Hub) list(into []*subscriber) []*subscriber {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subscribers {
		into = append(into, s)
	}
	return into
}

func (h *Hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subscribers)
}

// Serve writes every event to one subscriber until the hub or done is closed, or write fails.
func (h *Hub) Serve(done <-chan struct{}, write func(event []byte) error) {
	s := &subscriber{queue: make(chan []byte, h.options.Queue), gone: make(chan struct{})}
	h.mu.Lock()
	h.subscribers[s] = struct{}{}
	h.mu.Unlock()
	select {
	case h.joined <- struct{}{}:
	default: // the publisher will check anyway
	}
	defer h.leave(s)
	if write([]byte(greeting)) != nil {
		return
	}
	for {
		select {
		case event := <-s.queue:
			if write(event) != nil {
				h.lost.Add(1)
				return
			}
			h.delivered.Add(1)
		case <-done:
			return
		case <-h.ctx.Done():
			return
		}
	}
}

// leave removes a subscriber.
func (h *Hub) leave(s *subscriber) {
	close(s.gone)
	h.mu.Lock()
	delete(h.subscribers, s)
	h.mu.Unlock()
	h.empty(s)
}

// notLeft takes an event back from the queue of a subscriber who has just left, unless the
// subscriber empties it.
func (h *Hub) notLeft(s *subscriber) {
	select {
	case <-s.gone:
		h.empty(s)
	default:
	}
}

func (h *Hub) empty(s *subscriber) {
	for {
		select {
		case <-s.queue:
			h.lost.Add(1)
		default:
			return
		}
	}
}

// Received counts a received WebSocket message, Sent its response.
func (h *Hub) Received() { h.received.Add(1) }

// Sent counts a written message.
func (h *Hub) Sent() { h.sent.Add(1) }

// Status returns the counts so far.
func (h *Hub) Status() Status {
	return Status{
		Subscribers: h.count(), Published: h.published.Load(), Offered: h.offered.Load(), Delivered: h.delivered.Load(),
		Dropped: h.dropped.Load(), Lost: h.lost.Load(), BlockedNs: h.blockedNs.Load(), Received: h.received.Load(), Sent: h.sent.Load(),
	}
}

// StatusJSON is Status for a client.
func (h *Hub) StatusJSON() ([]byte, error) { return json.Marshal(h.Status()) }
