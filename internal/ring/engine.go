package ring

import "time"

// Engines.
const (
	Auto     = "auto"
	Uring    = "uring"
	Epoll    = "epoll"
	Portable = "portable"
)

// Config of a Ring.
type Config struct {
	// Engine is Auto, Uring, Epoll or Portable; "" is Auto. On other systems than Linux there is
	// Portable alone.
	Engine string
	// Buffers is the number of receive buffers, a power of two up to 32768, BufferBytes the size of
	// each. 0: 128 of 16 KiB, which fit a core's L2.
	Buffers     int
	BufferBytes int
}

// Patience is how long a Wait may take.
type Patience struct {
	// Timeout after which Wait returns without events; 0 or less: it only polls.
	Timeout time.Duration
	// Gather waits for this many completions if fewer are ready, but for at most GatherFor, rounded
	// down to microseconds, once it waits; after that the first one ends the wait. 0 or 1 returns
	// with the first.
	Gather    int
	GatherFor time.Duration
}

// engine does the operations of a Ring; the methods of Ring say what each is.
type engine interface {
	receive(fd int, t Tag)
	receiveOnce(fd int, t Tag)
	discard(fd, n int, t Tag)
	send(fd int, o outgoing, t Tag)
	unsent(t Tag) int
	pause(t Tag)
	close(fd int, t Tag)
	wait(p Patience) ([]Event, error)
	shut() error
}

// opener opens what an engine reads and writes.
type opener interface {
	dial(to, from *Sockaddr, t Tag) (fd int, err error)
	selfConnected(fd int) bool
	bell(t Tag) (*Bell, error)
}

// about says which engine it is.
type about struct {
	name, why string
	features  []string
	gathers   bool
}

// Bell wakes a ring's Wait from other threads, with a Received event without meaning.
type Bell struct {
	ring  func()
	close func() error
}

// Ring may be called by any goroutine, until Close.
func (b *Bell) Ring() { b.ring() }

// Close takes the bell from the ring.
func (b *Bell) Close() error { return b.close() }
