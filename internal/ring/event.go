package ring

import (
	"syscall"
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
