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
