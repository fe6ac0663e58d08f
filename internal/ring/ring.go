// Package ring moves bytes over many sockets from one thread: operations are queued, Wait submits
// them all and returns a batch of events. One API covers io_uring (uring.go), epoll (epoll.go), and
// goroutines over package net for other systems than Linux (portable.go).
//
// A Ring belongs to the OS thread that opened it: io_uring's SINGLE_ISSUER refuses any other, and
// nothing here is locked. Callers hold the thread with runtime.LockOSThread.
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

// Ring is a queue of operations and of their completions.
type Ring struct {
	engine
	kernel kernelEngine // the same engine; nil: Portable
	why    string
}

// engine does the operations of a Ring; the methods of Ring say what each is.
type engine interface {
	name() string
	features() []string
	canGather() bool
	dial(to, from *Sockaddr, t Tag) (fd int, err error)
	selfConnected(fd int) bool
	bell(t Tag) (*Bell, error)
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

// Open makes a ring for the calling OS thread. With Engine Auto it falls back to epoll if the
// kernel refuses io_uring; Why has the reason.
func Open(c Config) (*Ring, error) {
	if c.Buffers == 0 {
		c.Buffers = 128
	}
	if c.BufferBytes == 0 {
		c.BufferBytes = 16 << 10
	}
	if c.Engine == Portable {
		return &Ring{engine: openPortable(c), why: "requested"}, nil
	}
	return openKernel(c)
}

// Engine returns Uring, Epoll or Portable: the engine that Open chose.
func (r *Ring) Engine() string { return r.name() }

// Why returns in a few words why this engine was chosen.
func (r *Ring) Why() string { return r.why }

// Features lists what the kernel granted, by the kernel's names.
func (r *Ring) Features() []string { return r.features() }

// CanGather reports whether Wait can wait for several completions at once.
func (r *Ring) CanGather() bool { return r.canGather() }

// Dial opens a socket, binds it to the local address from unless that is nil, and connects it; a
// Connected event follows. TCP sockets have Nagle's algorithm off. The addresses must stay
// unchanged until the next Wait has returned.
func (r *Ring) Dial(to, from *Sockaddr, t Tag) (fd int, err error) { return r.dial(to, from, t) }

// SelfConnected reports whether a TCP socket is connected to itself. For a connect to a free port of
// this host the kernel picks the local port from the range that port is in, so one attempt in
// 28,000 to reach a dead server connects to itself (simultaneous open, RFC 9293 section 3.5),
// echoes its own requests, and keeps the server from coming back.
func (r *Ring) SelfConnected(fd int) bool { return r.selfConnected(fd) }

// Bell wakes a ring's Wait from other threads, with a Received event without meaning.
type Bell struct {
	ring  func()
	close func() error
}

// Bell makes one whose events have the tag.
func (r *Ring) Bell(t Tag) (*Bell, error) { return r.bell(t) }

// Ring may be called by any goroutine, until Close.
func (b *Bell) Ring() { b.ring() }

// Close takes the bell from the ring.
func (b *Bell) Close() error { return b.close() }

// Receive reads from fd until the peer closes or Close is called, with a Received event for each
// piece.
func (r *Ring) Receive(fd int, t Tag) { r.receive(fd, t) }

// ReceiveOnce is a Receive that ends with its first event: for a source that may send more than its
// sink takes, since a Receive delivers all that its socket holds. Call Receive or ReceiveOnce to
// continue.
func (r *Ring) ReceiveOnce(fd int, t Tag) { r.receiveOnce(fd, t) }

// Discard takes up to n bytes of a TCP connection, on Linux without copying any of them to this
// process (MSG_TRUNC, net/ipv4/tcp.c tcp_recvmsg_locked). One Discarded event follows, with the
// number of bytes. A Receive must not be active at the same time; unix sockets do not support it.
func (r *Ring) Discard(fd, n int, t Tag) { r.discard(fd, min(n, discardMost), t) }

// discardMost bounds one call, whose result is a signed 32-bit number.
const discardMost = 1 << 30

// Send queues b to leave whole with the next Wait, in the order of the sends to the same socket.
// Two to the same socket in one batch cost one system call more than a single one. b must stay
// unchanged until it has left, which is after that Wait unless Unsent says otherwise then.
func (r *Ring) Send(fd int, b []byte, t Tag) {
	if len(b) > 0 {
		r.send(fd, outgoing{b: b}, t)
	}
}

// SendNotify is a Send followed by a Sent or a SendFailed event. The event ends a Wait, unlike a
// Send that finds room, and so costs a system call.
func (r *Ring) SendNotify(fd int, b []byte, t Tag) { r.send(fd, outgoing{b, true}, t) }

// Unsent returns the number of bytes of sends that found no room in the socket's buffer by the last
// Wait, and of those queued after them. The ring holds the callers' memory and makes no copies; a
// caller that answers a peer that does not read must limit its sends by this.
func (r *Ring) Unsent(t Tag) int { return r.unsent(t) }

// Pause ends an Accept or a Receive, so that what the peer sends stays in the kernel and finally
// with the peer. Events may still come until the second Wait from here. A new Accept or Receive
// resumes.
func (r *Ring) Pause(t Tag) { r.pause(t) }

// Close ends every operation on fd and closes it, with the next Wait, after one attempt at the
// unsent data. Pending events of the tag may still come. Closing a descriptor that is not open is
// an error of Wait.
func (r *Ring) Close(fd int, t Tag) { r.engine.close(fd, t) }

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

// Wait submits what is queued and returns the ready events, waiting for the first if there is none.
// The events and their Data are valid until the next call. A signal, or a completion internal to
// the ring, may end the wait early, without events.
func (r *Ring) Wait(p Patience) ([]Event, error) { return r.wait(p) }

// Shut does what is queued, without waiting for it, and frees the ring. Sockets that were not
// closed stay open, and belong to the caller alone when it returns; Portable closes them. It must be
// called on the ring's thread; a second Shut does nothing.
func (r *Ring) Shut() error { return r.shut() }
