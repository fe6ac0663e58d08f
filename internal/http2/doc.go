// Package http2 is the framing of HTTP/2 (RFC 9113) without I/O, for either end: received bytes go
// in, events come out, and frames to send are appended to the caller's buffer. It only allocates
// for a header block that arrives in pieces. Package hpack decodes fields; the meaning of a stream
// is up to its owner.
package http2

import "fmt"

// Type of a frame (section 6).
type Type uint8

// The types. Others are ignored (section 4.1).
const (
	Data Type = iota
	Headers
	Priority
	ResetStream
	SettingsFrame
	PushPromise
	Ping
	GoAway
	WindowUpdate
	Continuation
	Types // their number
)

// Flags of a frame. The section of each type lists its flags.
const (
	EndStream  = 0x1
	Ack        = 0x1
	EndHeaders = 0x4
	Padded     = 0x8
	Prioritied = 0x20
)

const (
	// HeaderBytes is the length of a frame's header.
	HeaderBytes = 9
	// Preface is what a client sends first (section 3.4).
	Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	// DefaultWindow is the initial flow-control window, MaxWindow the largest.
	DefaultWindow = 1<<16 - 1
	MaxWindow     = 1<<31 - 1
	// DefaultFrame is the longest frame that every peer accepts, MaxFrame the longest that can be
	// allowed.
	DefaultFrame = 1 << 14
	MaxFrame     = 1<<24 - 1
	// MaxStream is the largest stream identifier.
	MaxStream = 1<<31 - 1
)

// Code of an error (section 7).
type Code uint32

// The codes.
const (
	NoError Code = iota
	ProtocolError
	InternalError
	FlowControlError
	SettingsTimeout
	StreamClosed
	FrameSizeError
	RefusedStream
	Cancel
	CompressionError
	ConnectError
	EnhanceYourCalm
	InadequateSecurity
	HTTP11Required
)

var codeNames = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
	"REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
} // read-only

// String returns the code's name in the RFC. All others share one name.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "an unknown HTTP/2 error code"
}

// Error is a protocol error of the peer. With a Stream it ends only that stream; with Stream 0 it
// ends the connection (section 5.4).
type Error struct {
	Code   Code
	Stream uint32
	Reason string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s (%s)", e.Code, e.Reason) }

// fault returns a connection error.
func fault(code Code, reason string) *Error { return &Error{Code: code, Reason: reason} }
