//go:build linux

package events

import "encoding/binary"

// Kind is what happened to a socket.
type Kind uint8

const (
	Arrived Kind = iota + 1 // bytes were queued for the program to read
	Taken                   // the program has read bytes
	Sending                 // the program is about to write bytes
	Closing                 // a client's end: no longer established
)

func (k Kind) short() string {
	return [...]string{Arrived: "arrived", Taken: "taken", Sending: "sending", Closing: "closing"}[k]
}

// End is the side of a connection that a socket is on.
type End uint8

const (
	Client End = iota
	Server
)

// An Event is one event of one socket, with its sequence numbers at that time.
type Event struct {
	Ns      int64  // CLOCK_MONOTONIC
	Socket  uint64 // identity, as long as the socket lives
	Port    uint16 // the client's
	Address uint32 // the client's, or its last four bytes
	End     End
	Kind    Kind
	// Written is the sequence number after the last byte that the program has written; Left is how
	// many more a Sending event is about to write.
	Written, Left uint32
	// Arrived is the number after the last byte received, Taken the number after the last byte that
	// the program has read.
	Arrived, Taken uint32
	Fresh          bool // nothing has been received on the socket yet
	PeerClosed     bool // Closing only: the other end closed first
}

// parse decodes one record of the ring buffer.
func parse(b []byte, e *Event) bool {
	if len(b) != recordSize {
		return false
	}
	u32 := binary.NativeEndian.Uint32
	*e = Event{
		Ns: int64(binary.NativeEndian.Uint64(b[atTime:])), Socket: binary.NativeEndian.Uint64(b[atSocket:]),
		Port: binary.NativeEndian.Uint16(b[atPort:]), Address: u32(b[atAddress:]), End: End(b[atEnd] &^ freshBit), Kind: Kind(b[atKind]),
		Written: u32(b[atWriteSeq:]), Left: u32(b[atLeft:]), Arrived: u32(b[atRcvNxt:]), Taken: u32(b[atCopiedSeq:]),
		Fresh: b[atEnd]&freshBit != 0,
	}
	if e.Kind == Closing {
		e.PeerClosed, e.Left = e.Left == closeWait, 0
	}
	return e.End <= Server && e.Kind >= Arrived && e.Kind <= Closing
}
