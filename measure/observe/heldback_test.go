//go:build linux

package observe

import (
	"encoding/binary"
	"testing"

	"ceiling/record"
)

// Nagle's algorithm holds back less than a segment while one is unacknowledged and the window has
// room; bytes that wait for a window, or for nothing, are not held back by it.
func TestHeldBack(t *testing.T) {
	for _, c := range []struct {
		name                 string
		unsent, flying, cwnd uint32
		held                 float64
	}{
		{"a small rest", 20, 1, 10, 1},
		{"all was sent", 0, 1, 10, 0},
		{"nothing unacknowledged", 20, 0, 10, 0},
		{"more than a segment", 90_000, 1, 10, 0},
		{"the congestion window is full", 20, 10, 10, 0},
	} {
		info := make([]byte, infoFlowEnd)
		for at, v := range map[int]uint32{infoSendMSS: 1448, infoUnacked: c.flying, infoCwnd: c.cwnd, infoNotSent: c.unsent} {
			binary.NativeEndian.PutUint32(info[at:], v)
		}
		binary.NativeEndian.PutUint64(info[infoBytesSent:], 100)
		server, client := flowOf(info), flow{known: true, received: 90}
		var way record.Transit
		transitOf(&way, &server, &client)
		way.Scale(2)
		if way.HeldBack != 2*c.held {
			t.Errorf("%s: %v held back", c.name, way.HeldBack)
		}
	}
}
