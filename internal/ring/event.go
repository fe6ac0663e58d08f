package ring

import (
	"syscall"
	"time"
)

// Kind is what an Event reports.
type Kind uint8

const (
	// Accepted: FD is a new connection of a listener.
	Accepted Kind = iota + 1
	// Connected: a Connect ended; Err is its result.
	Connected
	// Received: Data arrived; without Data and Err the peer has closed.
	Received
	// SendFailed: a Send was not fully sent, and those queued after it not at all. Successful sends
	// are not reported.
	SendFailed
	// Sent: a SendNotify has been fully sent; its memory is the caller's again.
	Sent
	// Readable and Writable are the events that the methods of that name request.
	Readable
	Writable
	// Discarded: a Discard has dropped N bytes. Without N and Err the peer has closed.
	Discarded
)

// Event is one completion.
type Event struct {
	// Tag as given with the operation.
	Tag Tag
	// Data is a view of a receive buffer, valid until the next Wait.
	Data []byte
	// FD of an Accepted connection.
	FD int
	// N is the number of bytes of a Discarded.
	N    int
	Err  syscall.Errno
	Kind Kind
}

// Tag names a connection: a small dense index, by which the ring keeps its
// own state, and a generation, by which a caller drops completions of an
// earlier connection under the same index.
//
//	bits 0–31   index
//	bits 32–55  generation
//	bits 56–63  zero (the ring keeps the operation there)
type Tag uint64

// MakeTag packs an index and a generation; the generation wraps at 24 bits.
func MakeTag(index, generation uint32) Tag {
	return Tag(uint64(index) | uint64(generation&0xffffff)<<32)
}

// Index of the connection.
func (t Tag) Index() uint32 { return uint32(t) }

// Generation of the connection under its index, 24 bits.
func (t Tag) Generation() uint32 { return uint32(t>>32) & 0xffffff }

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
