package proxy

import (
	"runtime"
	"testing"
)

// TestSessionHeld: what a connection holds of its streams' answers is counted until it is
// sent, and bounds what each takes at a time.
func TestSessionHeld(t *testing.T) {
	l := &loop{}
	s := &session{connection: &client{conn: conn{loop: l}}}
	st := &stream{session: s}
	st.client.conn.loop, st.client.conn.stream = l, st
	p := &peer{state: peerBody, client: &st.client}
	p.conn = conn{loop: l, owner: p, intake: intakePiece}
	write := func(n int) {
		st.client.conn.out = l.parcels.get()
		st.client.conn.out.b = st.client.conn.out.b[:n]
		st.enqueue()
	}
	write(0)
	if len(st.queue) != 0 {
		t.Error("an empty parcel stays in the queue")
	}
	st.queue = append(st.queue, piece{b: make([]byte, 2*heldMost)}) // lent
	st.held = 2 * heldMost
	for n := 0; n < heldMost; n += parcelBytes {
		if !p.conn.tastes() {
			t.Fatalf("%d bytes are too many", s.held)
		}
		write(parcelBytes)
	}
	if p.conn.tastes() {
		t.Errorf("%d bytes are few", s.held)
	}
	for st.held > 0 {
		st.pass(min(1000, len(st.queue[st.first].b)))
	}
	if s.held != 0 || !p.conn.tastes() {
		t.Errorf("%d bytes are left", s.held)
	}
}

// TestCollectionsAreFarApart: while a proxy runs, the ballast is part of the live heap.
func TestCollectionsAreFarApart(t *testing.T) {
	run(t, "", to("http://127.0.0.1:1")).snapshot()
	runtime.GC()
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.HeapAlloc < ballastBytes {
		t.Errorf("%d bytes are live, less than the ballast of %d", m.HeapAlloc, ballastBytes)
	}
}
