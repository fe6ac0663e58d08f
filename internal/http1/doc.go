// Package http1 frames HTTP/1.1 messages (RFC 9112) without copying or
// allocating: the responses a load generator receives, the requests a server
// receives, and the bytes of a request to send.
//
// Framing finds where a message ends, checks that its head is well formed, and
// reads the few fields that decide both; bodies are skipped by their length and
// never looked at. It is strict where leniency lets two parties disagree about
// where a message ends (RFC 9112, section 11): lines end in CRLF, Content-Length
// is at most 18 plain digits, Content-Length with Transfer-Encoding is an error,
// chunk sizes are bare hexadecimal digits, folded lines are refused. Where it
// must choose it accepts only what net/http accepts too; fuzz tests hold it to
// that. Two leniencies, both harmless: a status line may end after its three
// digits without the space, and a response may repeat an identical
// Content-Length. A Reader takes three more, and names them (Reader.Tolerated);
// Lines.ParseResponse has more, for a proxy.
package http1

// Limits on what a hostile or broken peer can make us hold.
const (
	// MaxHead is the largest head in bytes, first line and final empty line
	// included: eight times what common servers accept.
	MaxHead = 64 << 10
	// MaxTrailer is the largest trailer section of a chunked body in bytes.
	MaxTrailer = 16 << 10
	// MaxChunkLine is the longest chunk-size line, extensions and CRLF included.
	MaxChunkLine = 4 << 10
	// MaxInterim is how many 1xx responses may precede a final one.
	MaxInterim = 16
)

// FramingError says why bytes are not an HTTP/1.1 message, or not a whole one. The connection is
// then unusable: there is no telling where the next message begins. Zero is no error.
type FramingError uint8

// Causes, in the order in which a message meets them.
const (
	ErrStatusLine FramingError = iota + 1
	ErrRequestLine
	ErrHeader
	ErrHeaderTooLarge
	ErrContentLength
	ErrContentLengths
	ErrLengthAndEncoding
	ErrTransferEncoding
	ErrTransferEncodingOld
	ErrHost
	ErrInterim
	ErrChunk
	ErrTrailer
	ErrTrailerTooLarge
	ErrClosedInHead
	ErrShortBody
	ErrConnection

	// FramingErrors is one more than the largest FramingError, for tallies
	// indexed by cause.
	FramingErrors
)

// Error is the cause in a few words, without the bytes that led to it.
func (e FramingError) Error() string {
	switch e {
	case ErrStatusLine:
		return "malformed status line"
	case ErrRequestLine:
		return "malformed request line"
	case ErrHeader:
		return "malformed header"
	case ErrHeaderTooLarge:
		return "header too large"
	case ErrContentLength:
		return "invalid content-length"
	case ErrContentLengths:
		return "conflicting content-length"
	case ErrLengthAndEncoding:
		return "content-length with transfer-encoding"
	case ErrTransferEncoding:
		return "unsupported transfer-encoding"
	case ErrTransferEncodingOld:
		return "transfer-encoding in HTTP/1.0"
	case ErrHost:
		return "missing, repeated or invalid host"
	case ErrInterim:
		return "too many 1xx responses"
	case ErrChunk:
		return "malformed chunk"
	case ErrTrailer:
		return "malformed trailer"
	case ErrTrailerTooLarge:
		return "trailer too large"
	case ErrClosedInHead:
		return "connection closed in head"
	case ErrShortBody:
		return "short body"
	case ErrConnection:
		return "connection option that names no hop's field"
	}
	return "unknown framing error"
}
