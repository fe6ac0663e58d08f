// Package websocket is the client's side of RFC 6455 without I/O: the opening
// handshake, masked messages to send, and a reader that takes what a server sends
// apart as it comes, in pieces of any size, without copying or allocating for a
// message. It is as strict as section 5 wants a client to be: a connection whose
// server breaks the protocol ends with a named error.
//
// Extensions are not asked for, so a server that answers with one is refused.
package websocket

// Opcodes, RFC 6455, section 5.2.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xa
)

// MaxMessage is the largest message that is taken, in bytes: what a server says of
// a frame's length is not believed beyond it.
const MaxMessage = 64 << 20

// maxControl is the longest payload of a control frame (section 5.5).
const maxControl = 125

// Close codes, section 7.4.1.
const (
	CloseNormal     = 1000
	CloseGoingAway  = 1001
	closeProtocol   = 1002
	closeNoStatus   = 1005
	closeInvalid    = 1007
	closeTooBig     = 1009
	closeLeast      = 1000
	closeMost       = 4999
	closePrivate    = 3000 // from here on registered and private codes
	closeLastOfIETF = 1014
)

// ProtocolError says how a server broke the protocol. After one the connection is
// useless. Zero is no error.
type ProtocolError uint8

// Causes.
const (
	ErrMasked ProtocolError = iota + 1
	ErrReserved
	ErrOpcode
	ErrLength
	ErrTooLarge
	ErrControlFragment
	ErrControlLength
	ErrContinuation
	ErrInterleaved
	ErrText
	ErrClosePayload
	ErrCloseCode

	ErrStatus
	ErrUpgrade
	ErrConnection
	ErrAccept
	ErrExtension
	ErrSubprotocol
)

// Error is the cause in a few words.
func (e ProtocolError) Error() string {
	switch e {
	case ErrMasked:
		return "masked frame from the server"
	case ErrReserved:
		return "reserved bit in a frame"
	case ErrOpcode:
		return "unknown opcode"
	case ErrLength:
		return "frame length not in its shortest form, or negative"
	case ErrTooLarge:
		return "message over 64 MiB"
	case ErrControlFragment:
		return "fragmented control frame"
	case ErrControlLength:
		return "control frame over 125 bytes"
	case ErrContinuation:
		return "continuation of no message"
	case ErrInterleaved:
		return "new message within a fragmented one"
	case ErrText:
		return "text message that is not UTF-8"
	case ErrClosePayload:
		return "malformed close frame"
	case ErrCloseCode:
		return "close code that may not be sent"
	case ErrStatus:
		return "status is not 101"
	case ErrUpgrade:
		return "no Upgrade: websocket in the answer"
	case ErrConnection:
		return "no Connection: Upgrade in the answer"
	case ErrAccept:
		return "wrong Sec-WebSocket-Accept"
	case ErrExtension:
		return "extension that was not asked for"
	case ErrSubprotocol:
		return "subprotocol that was not asked for"
	}
	return "WebSocket error"
}

// CloseCode is what the peer is told of the error.
func (e ProtocolError) CloseCode() uint16 {
	switch e {
	case ErrText:
		return closeInvalid
	case ErrTooLarge:
		return closeTooBig
	}
	return closeProtocol
}
