// Package websocket is the client side of RFC 6455 without I/O: the opening handshake, masked
// messages to send, and an incremental reader of a server's frames, in pieces of any size,
// without copying or allocating per message. It is as strict as section 5 requires of a client:
// if the server breaks the protocol, the connection ends with a named error.
//
// It offers no extensions, so it rejects a server that answers with one.
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

// MaxMessage is the largest accepted message, in bytes: a larger frame length is an error.
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
	closePrivate    = 3000 // registered and private codes from here on
	closeLastOfIETF = 1014
)

// ProtocolError is a server's protocol violation. After one the connection is unusable. Zero is
// no error.
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

// Error describes the cause in a few words.
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
		return "unrequested extension"
	case ErrSubprotocol:
		return "unrequested subprotocol"
	}
	return "WebSocket error"
}

// CloseCode is the close code sent to the peer for the error.
func (e ProtocolError) CloseCode() uint16 {
	switch e {
	case ErrText:
		return closeInvalid
	case ErrTooLarge:
		return closeTooBig
	}
	return closeProtocol
}
