//go:build linux

package observe

import (
	"net/netip"
	"slices"
	"testing"

	"ceiling/record"
)

// A socket is held that has unsent bytes, and whose receiver closed its window for most of the time or took not a byte.
func TestHeld(t *testing.T) {
	socket := &inetSocket{cookie: 7, dst: netip.MustParseAddr("10.0.0.7"), dport: 4242}
	for name, c := range map[string]struct {
		unsent       uint32
		acked        uint64
		busyUs, rwnd uint64
		want         int64 // ns; 0 is not held
	}{
		"window closed most of the time": {1 << 20, 5000, 1e6, 9e5, 9e8},
		"window closed for a moment":     {1 << 20, 5000, 1e6, 1e5, 0},
		"not a byte was taken":           {1 << 20, 0, 1e6, 0, 1e9},
		"nothing is unsent":              {0, 5000, 1e6, 1e6, 0},
		"nothing was to be sent":         {0, 0, 0, 0, 0},
	} {
		var e endInfo
		for i := range 2 {
			e.begin()
			n := uint64(i)
			e.add(socket, &tcpInfo{notSent: c.unsent, counters: tcpCounts{acked: n * c.acked, busyUs: n * c.busyUs, rwndUs: n * c.rwnd}})
		}
		want := record.HeldSocket{Peer: "10.0.0.7:4242", UnsentBytes: int64(c.unsent), HeldNs: c.want}
		if held := e.row.Held; len(held) > 1 || (len(held) == 1) != (c.want > 0) || len(held) == 1 && held[0] != want {
			t.Errorf("%s: %+v", name, held)
		}
	}
}

// The pairs with the fullest send queues are followed, the least of them give way.
func TestFullest(t *testing.T) {
	r := new(socketTable)
	written := []uint32{fullFrom - 1, fullFrom, 9 << 20, 2 << 20, 3 << 20, 4 << 20}
	for j := range written {
		r.pairs = append(r.pairs, connection{})
		r.full(written, j)
	}
	for _, k := range []int{2, 3, 4, 5} {
		if !slices.Contains(r.fullest, k) {
			t.Errorf("pair %d is not among %v", k, r.fullest)
		}
	}
	if len(r.fullest) != fullestMost {
		t.Errorf("%v", r.fullest)
	}
}
