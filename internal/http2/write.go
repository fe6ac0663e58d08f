package http2

import "encoding/binary"

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
