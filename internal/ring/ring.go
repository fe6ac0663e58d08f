// Package ring moves bytes over many sockets from one thread: operations are queued, Wait submits
// them all and returns a batch of events. One API covers io_uring (uring.go), epoll (epoll.go), and
// goroutines over package net for other systems than Linux (portable.go).
//
// A Ring belongs to the OS thread that opened it: io_uring's SINGLE_ISSUER refuses any other, and
// nothing here is locked. Callers hold the thread with runtime.LockOSThread.
package ring

// Ring is a queue of operations and of their completions.
type Ring struct {
	engine
	opener
	about
	kernel kernelEngine // the same engine; nil: Portable
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
		return overNet(c, "requested"), nil
	}
	return openKernel(c)
}

// IsPortable reports whether an Engine of a Config is Portable here.
func IsPortable(engine string) bool { return OnlyPortable || engine == Portable }

func overNet(c Config, why string) *Ring {
	p := openPortable(c)
	return &Ring{engine: p, opener: p, about: about{name: Portable, why: why}}
}

// Engine returns Uring, Epoll or Portable: the engine that Open chose.
func (r *Ring) Engine() string { return r.name }

// Why returns in a few words why this engine was chosen.
func (r *Ring) Why() string { return r.why }

// Features lists what the kernel granted, by the kernel's names.
func (r *Ring) Features() []string { return r.features }

// CanGather reports whether Wait can wait for several completions at once.
func (r *Ring) CanGather() bool { return r.gathers }

// Dial opens a socket, binds it to the local address from unless that is nil, and connects it; a
// Connected event follows. TCP sockets have Nagle's algorithm off. The addresses must stay
// unchanged until the next Wait has returned.
func (r *Ring) Dial(to, from *Sockaddr, t Tag) (fd int, err error) { return r.dial(to, from, t) }

// SelfConnected reports whether a TCP socket is connected to itself. For a connect to a free port of
// this host the kernel picks the local port from the range that port is in, so one attempt in
// 28,000 to reach a dead server connects to itself (simultaneous open, RFC 9293 section 3.5),
// echoes its own requests, and keeps the server from coming back.
func (r *Ring) SelfConnected(fd int) bool { return r.selfConnected(fd) }

// Bell makes one whose events have the tag.
func (r *Ring) Bell(t Tag) (*Bell, error) { return r.bell(t) }

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

// Wait submits what is queued and returns the ready events, waiting for the first if there is none.
// The events and their Data are valid until the next call. A signal, or a completion internal to
// the ring, may end the wait early, without events.
func (r *Ring) Wait(p Patience) ([]Event, error) { return r.wait(p) }

// Shut does what is queued, without waiting for it, and frees the ring. Sockets that were not
// closed stay open, and belong to the caller alone when it returns; Portable closes them. It must be
// called on the ring's thread; a second Shut does nothing.
func (r *Ring) Shut() error { return r.shut() }
