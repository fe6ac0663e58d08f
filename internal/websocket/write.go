package websocket

import (
	"encoding/binary"
	"unicode/utf8"
)

// Mask is a masking key. Section 5.3 requires an unpredictable one per frame.
type Mask [4]byte

// AppendMessage appends a masked message of one frame to dst: text if the payload is UTF-8, else
// binary.
func AppendMessage(dst, payload []byte, mask Mask) []byte {
	if utf8.Valid(payload) {
		return appendFrame(dst, opText, payload, mask)
	}
	return appendFrame(dst, opBinary, payload, mask)
}

// AppendClose appends a close frame.
func AppendClose(dst []byte, code uint16, mask Mask) []byte {
	return appendFrame(dst, opClose, binary.BigEndian.AppendUint16(nil, code), mask)
}

// AppendPong appends the response to a ping, with its payload (section 5.5.3).
func AppendPong(dst, payload []byte, mask Mask) []byte {
	return appendFrame(dst, opPong, payload, mask)
}

func appendFrame(dst []byte, op byte, payload []byte, mask Mask) []byte {
	dst = append(dst, 0x80|op) // the final frame of its message
	switch n := len(payload); {
	case n < 126:
		dst = append(dst, 0x80|byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0x80|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, 0x80|127), uint64(n))
	}
	dst = append(dst, mask[:]...)
	for i, c := range payload {
		dst = append(dst, c^mask[i&3])
	}
	return dst
}
