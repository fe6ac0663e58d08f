package http2

import "encoding/binary"

// Setting is one parameter of a connection (section 6.5.2).
type Setting struct {
	ID    uint16
	Value uint32
}

// The parameters. Others are ignored.
const (
	HeaderTableSize      = 1
	EnablePush           = 2
	MaxConcurrentStreams = 3
	InitialWindowSize    = 4
	MaxFrameSize         = 5
	MaxHeaderListSize    = 6
	EnableConnect        = 8 // RFC 8441
)

// Settings are what a peer has announced.
type Settings struct {
	HeaderTableSize, MaxConcurrentStreams, InitialWindowSize, MaxFrameSize, MaxHeaderListSize uint32
	Push, Connect                                                                             bool
}

// DefaultSettings apply until others are announced.
func DefaultSettings() Settings {
	const none = 1<<32 - 1
	return Settings{
		HeaderTableSize: 4096, MaxConcurrentStreams: none, InitialWindowSize: DefaultWindow, MaxFrameSize: DefaultFrame,
		MaxHeaderListSize: none, Push: true,
	}
}

// Apply handles the payload of a SETTINGS frame, value by value in order.
func (s *Settings) Apply(payload []byte) *Error {
	for ; len(payload) >= 6; payload = payload[6:] {
		v := binary.BigEndian.Uint32(payload[2:])
		switch binary.BigEndian.Uint16(payload) {
		case HeaderTableSize:
			s.HeaderTableSize = v
		case EnablePush:
			if v > 1 {
				return fault(ProtocolError, "SETTINGS_ENABLE_PUSH over 1")
			}
			s.Push = v == 1
		case MaxConcurrentStreams:
			s.MaxConcurrentStreams = v
		case InitialWindowSize:
			if v > MaxWindow {
				return fault(FlowControlError, "SETTINGS_INITIAL_WINDOW_SIZE over 2^31-1")
			}
			s.InitialWindowSize = v
		case MaxFrameSize:
			if v < DefaultFrame || v > MaxFrame {
				return fault(ProtocolError, "SETTINGS_MAX_FRAME_SIZE out of range")
			}
			s.MaxFrameSize = v
		case MaxHeaderListSize:
			s.MaxHeaderListSize = v
		case EnableConnect:
			if v > 1 || s.Connect && v == 0 {
				return fault(ProtocolError, "SETTINGS_ENABLE_CONNECT_PROTOCOL out of range")
			}
			s.Connect = v == 1
		}
	}
	return nil
}

// AppendSettings appends a SETTINGS frame.
func AppendSettings(dst []byte, list ...Setting) []byte {
	dst = AppendHeader(dst, 6*len(list), SettingsFrame, 0, 0)
	for _, s := range list {
		dst = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(dst, s.ID), s.Value)
	}
	return dst
}

// AppendSettingsAck appends the acknowledgement of the peer's SETTINGS.
func AppendSettingsAck(dst []byte) []byte { return AppendHeader(dst, 0, SettingsFrame, Ack, 0) }

// AppendHeader appends a frame header.
func AppendHeader(dst []byte, length int, kind Type, flags uint8, stream uint32) []byte {
	return append(dst, byte(length>>16), byte(length>>8), byte(length), byte(kind), flags,
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

// AppendBlock appends the frames that carry a header block: HEADERS, and CONTINUATION if it exceeds
// a frame.
func AppendBlock(dst []byte, stream uint32, block []byte, end bool, frameMost int) []byte {
	kind, flags := Headers, uint8(0)
	if end {
		flags = EndStream
	}
	for {
		n := min(len(block), frameMost)
		if n == len(block) {
			flags |= EndHeaders
		}
		dst = append(AppendHeader(dst, n, kind, flags, stream), block[:n]...)
		if block = block[n:]; len(block) == 0 {
			return dst
		}
		kind, flags = Continuation, 0
	}
}

// AppendReset appends an RST_STREAM.
func AppendReset(dst []byte, stream uint32, code Code) []byte {
	return binary.BigEndian.AppendUint32(AppendHeader(dst, 4, ResetStream, 0, stream), uint32(code))
}

// AppendPing appends a PING, or the answer to one, with its eight bytes.
func AppendPing(dst, payload []byte, ack bool) []byte {
	flags := uint8(0)
	if ack {
		flags = Ack
	}
	return append(AppendHeader(dst, 8, Ping, flags, 0), payload[:8]...)
}

// AppendGoAway appends a GOAWAY: streams after last were not and will not be processed.
func AppendGoAway(dst []byte, last uint32, code Code) []byte {
	dst = binary.BigEndian.AppendUint32(AppendHeader(dst, 8, GoAway, 0, 0), last)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

// AppendWindowUpdate appends a WINDOW_UPDATE for a stream, or with 0 for the connection.
func AppendWindowUpdate(dst []byte, stream, increment uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendHeader(dst, 4, WindowUpdate, 0, stream), increment)
}
