//go:build linux

package ring

import (
	"bytes"
	"io"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// TestReceiveOnce: one event each time it is asked for, however much there is, and
// no byte is lost when a Receive follows.
func TestReceiveOnce(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		fd, peer := pair(t)
		tag := MakeTag(3, 1)
		want := pattern(300<<10, 5)
		written := make(chan error, 1)
		go func() {
			_, err := peer.Write(want)
			peer.Close()
			written <- err
		}()
		var got []byte
		for range 4 {
			r.ReceiveOnce(fd, tag)
			events := 0
			for end := time.Now().Add(patience); events == 0 && time.Now().Before(end); {
				for _, ev := range wait(t, r, Patience{Timeout: 10 * time.Millisecond}) {
					if ev.Kind != Received || len(ev.Data) == 0 || len(ev.Data) > 16<<10 {
						t.Fatalf("event %+v", ev)
					}
					got = append(got, ev.Data...)
					events++
				}
			}
			for range 3 { // and no more
				events += len(wait(t, r, Patience{}))
			}
			if events != 1 {
				t.Fatalf("%d events", events)
			}
		}
		r.ReceiveOnce(fd, tag)
		r.Pause(tag) // one that has not come yet can be taken back
		for range 3 {
			for _, ev := range wait(t, r, Patience{}) {
				got = append(got, ev.Data...)
			}
		}
		r.Receive(fd, tag)
		ended := false
		drive(t, r, func(ev Event) {
			got = append(got, ev.Data...)
			ended = ended || len(ev.Data) == 0
		}, func() bool { return ended })
		if err := <-written; err != nil && err != io.ErrClosedPipe {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes of %d, or wrong ones", len(got), len(want))
		}
		r.Close(fd, tag)
		quiet(t, r)
	})
}

// TestRelease: a socket of which a piece was received is another's, who gets the rest and
// can send; the ring says nothing more about it.
func TestRelease(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		fd, peer := pair(t)
		tag := MakeTag(3, 1)
		r.ReceiveOnce(fd, tag)
		if _, err := peer.Write([]byte("first")); err != nil {
			t.Fatal(err)
		}
		got := ""
		drive(t, r, func(ev Event) { got += string(ev.Data) }, func() bool { return got == "first" })
		r.Release(fd, tag)
		if _, err := peer.Write([]byte("second")); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if events := wait(t, r, Patience{Timeout: 10 * time.Millisecond}); len(events) > 0 {
				t.Errorf("%+v of a socket that was let go", events)
			}
		}
		b := make([]byte, 100)
		if n, err := syscall.Read(fd, b); string(b[:max(n, 0)]) != "second" || err != nil {
			t.Errorf("%q, %v", b[:max(n, 0)], err)
		}
		r.Close(fd, tag) // it can come back
		peer.Close()
		quiet(t, r)
	})
}

// TestEndBehindData: the end of a stream is told also where it comes right behind
// the last of many small pieces. A kernel that forgets it does so once in some
// hundred streams.
func TestEndBehindData(t *testing.T) {
	needs.Time(t)
	each(t, Config{}, func(t *testing.T, r *Ring) {
		for i := range uint32(300) {
			ours, theirs := sockets(t)
			if err := syscall.SetNonblock(theirs, false); err != nil {
				t.Fatal(err)
			}
			tag := MakeTag(1, i+1)
			r.Receive(ours, tag)
			const pieces = 1000
			sent := make(chan error, 1)
			go func() {
				for range pieces {
					if _, err := syscall.Write(theirs, []byte("ab")); err != nil {
						sent <- err
						return
					}
				}
				sent <- syscall.Close(theirs)
			}()
			bytes, ended := 0, false
			for until := time.Now().Add(patience); !ended && time.Now().Before(until); {
				for _, ev := range wait(t, r, Patience{Timeout: 100 * time.Millisecond}) {
					bytes += len(ev.Data)
					ended = ended || len(ev.Data) == 0
				}
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			if bytes != 2*pieces || !ended {
				t.Fatalf("stream %d: %d bytes of %d, the end was told: %v", i, bytes, 2*pieces, ended)
			}
			r.Close(ours, tag)
			wait(t, r, Patience{})
		}
	})
}
