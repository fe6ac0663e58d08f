//go:build linux

package ring

import (
	"bytes"
	"testing"
)

// TestDiscard: as many bytes are gone as was asked for, no more, and those behind
// them are received.
func TestDiscard(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		fd, peer := pair(t)
		tag := MakeTag(3, 1)
		const gone = 3 << 20
		want := pattern(gone+1000, 5)
		written := make(chan error, 1)
		go func() {
			_, err := peer.Write(want)
			peer.Close()
			written <- err
		}()
		left := gone
		r.Discard(fd, left, tag)
		drive(t, r, func(ev Event) {
			if ev.Kind != Discarded || ev.N <= 0 || ev.N > left || ev.Err != 0 || ev.Data != nil {
				t.Fatalf("event %+v with %d left", ev, left)
			}
			if left -= ev.N; left > 0 {
				r.Discard(fd, left, tag)
			}
		}, func() bool { return left == 0 })
		var got []byte
		ended := false
		r.Receive(fd, tag)
		drive(t, r, func(ev Event) {
			got = append(got, ev.Data...)
			ended = ended || len(ev.Data) == 0
		}, func() bool { return ended })
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want[gone:]) {
			t.Errorf("%d bytes behind those that were discarded, or wrong ones", len(got))
		}
		r.Close(fd, tag)
		quiet(t, r)
	})
}

// TestDiscardEnds: by the peer's close, and by ours without holding the socket.
func TestDiscardEnds(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		fd, peer := pair(t)
		tag := MakeTag(3, 1)
		r.Discard(fd, 1000, tag)
		if events := wait(t, r, Patience{}); len(events) != 0 {
			t.Fatalf("%+v of nothing", events)
		}
		peer.Close()
		ended := false
		drive(t, r, func(ev Event) {
			ended = ev.Kind == Discarded && ev.N == 0 && ev.Err == 0
		}, func() bool { return ended })
		r.Close(fd, tag)
		quiet(t, r)

		fd, peer = pair(t)
		tag = MakeTag(3, 2)
		r.Discard(fd, 1000, tag)
		wait(t, r, Patience{})
		r.Close(fd, tag)
		wait(t, r, Patience{})
		if _, err := peer.Read(make([]byte, 1)); err == nil {
			t.Error("the socket is open")
		}
		peer.Close()
		quiet(t, r)
	})
}
