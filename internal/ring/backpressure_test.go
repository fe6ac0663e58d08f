//go:build linux

package ring

import (
	"io"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// TestSendFailed: a peer that is gone makes one failure of what is sent to it.
func TestSendFailed(t *testing.T) {
	check := func(name string, size int) {
		t.Run(name, func(t *testing.T) {
			each(t, Config{}, func(t *testing.T, r *Ring) {
				fd, peer := pair(t)
				tag := MakeTag(4, 9)
				b := make([]byte, size)
				r.Send(fd, b, tag) // size > the buffers: it waits, and fails while it waits
				quiet(t, r)
				if waits := r.Unsent(tag) > 0; waits != (size > 1<<20) {
					t.Errorf("%d bytes unsent", r.Unsent(tag))
				}
				if err := peer.SetLinger(0); err != nil {
					t.Fatal(err)
				}
				peer.Close()
				var failed []Event
				for deadline := time.Now().Add(patience); len(failed) == 0 && time.Now().Before(deadline); {
					if size < 1<<20 {
						r.Send(fd, b, tag)
					}
					failed = append(failed, wait(t, r, Patience{Timeout: 10 * time.Millisecond})...)
				}
				if len(failed) != 1 || failed[0].Kind != SendFailed || failed[0].Tag != tag ||
					failed[0].Err != syscall.EPIPE && failed[0].Err != syscall.ECONNRESET {
					t.Errorf("events %+v", failed)
				}
				if n := r.Unsent(tag); n != 0 {
					t.Errorf("%d bytes unsent after the failure", n)
				}
				r.Close(fd, tag)
				quiet(t, r)
			})
		})
	}
	check("small", 10)
	check("large", 20<<20)
}

// TestNotify: a Sent for each SendNotify, in order with what it means: the
// bytes are with the kernel.
func TestNotify(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		fd, peer := pair(t)
		defer peer.Close()
		tag := MakeTag(1, 1)
		sent := 0
		count := func(ev Event) {
			if ev.Kind != Sent || ev.Tag != tag || ev.Err != 0 || ev.Data != nil {
				t.Errorf("event %+v", ev)
			}
			sent++
		}
		small := []byte("small")
		r.SendNotify(fd, small, tag)
		r.Send(fd, small, tag)
		r.SendNotify(fd, nil, tag)
		drive(t, r, count, func() bool { return sent >= 2 })
		if n := r.Unsent(tag); n != 0 {
			t.Errorf("%d bytes unsent", n)
		}
		large := pattern(20<<20, 3)
		r.SendNotify(fd, large, tag)
		r.SendNotify(fd, small, tag)
		for range 100 {
			for _, ev := range wait(t, r, Patience{}) {
				count(ev)
			}
		}
		if sent != 2 {
			t.Fatalf("%d sent while the peer reads nothing", sent)
		}
		if n := r.Unsent(tag); n <= 0 || n > len(large)+len(small) {
			t.Errorf("%d bytes unsent", n)
		}
		read := make(chan error, 1)
		go func() {
			_, err := io.CopyN(io.Discard, peer, int64(len(large)+3*len(small)))
			read <- err
		}()
		drive(t, r, count, func() bool { return sent >= 4 })
		if err := <-read; err != nil {
			t.Error(err)
		}
		quiet(t, r)
		if n := r.Unsent(tag); sent != 4 || n != 0 {
			t.Errorf("%d sent, %d bytes unsent", sent, n)
		}
		r.Close(fd, tag)
		quiet(t, r)
	})
}

// TestCloseAfterSends: what was sent before a Close in the same batch is tried.
func TestCloseAfterSends(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		fd, peer := pair(t)
		defer peer.Close()
		tag := MakeTag(1, 1)
		r.Receive(fd, tag)
		for _, b := range []string{"one ", "two ", "three"} {
			r.Send(fd, []byte(b), tag)
		}
		r.Close(fd, tag)
		wait(t, r, Patience{})
		if b, err := io.ReadAll(peer); string(b) != "one two three" || err != nil {
			t.Errorf("the peer reads %q and %v", b, err)
		}
	})
}

// TestCloseWhileUnsent: a send that waits does not keep its socket open.
func TestCloseWhileUnsent(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		fd, peer := pair(t)
		defer peer.Close()
		tag := MakeTag(1, 1)
		r.Receive(fd, tag)
		r.Send(fd, make([]byte, 20<<20), tag)
		r.Send(fd, make([]byte, 20<<20), tag)
		quiet(t, r)
		if r.Unsent(tag) == 0 {
			t.Fatal("40 MB found room in a socket's buffer")
		}
		r.Close(fd, tag)
		quiet(t, r)
		if n, err := io.Copy(io.Discard, peer); n == 0 || n >= 40<<20 || err != nil {
			t.Errorf("the peer reads %d bytes and %v", n, err)
		}
	})
}

// TestPause: a paused receive leaves the bytes with the peer in the end, and
// nothing is lost when it resumes.
func TestPause(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		fd, peer := pair(t)
		defer peer.Close()
		tag := MakeTag(1, 1)
		whole := pattern(30<<20, 4)
		wrote := make(chan error, 1)
		go func() {
			_, err := peer.Write(whole)
			wrote <- err
		}()
		got := 0
		take := func(ev Event) {
			if ev.Kind != Received || ev.Err != 0 {
				t.Fatalf("event %+v", ev)
			}
			if string(ev.Data) != string(whole[got:got+len(ev.Data)]) {
				t.Fatalf("other bytes after %d", got)
			}
			got += len(ev.Data)
		}
		for _, stop := range []int{1, 1 << 20, 5 << 20} {
			r.Receive(fd, tag)
			drive(t, r, take, func() bool { return got >= stop })
			r.Pause(tag)
			for range 2 { // what was under way
				for _, ev := range wait(t, r, Patience{}) {
					take(ev)
				}
			}
			for range 50 {
				if events := wait(t, r, Patience{}); len(events) != 0 {
					t.Fatalf("%d events while paused, the first %v with %d bytes", len(events), events[0].Kind, len(events[0].Data))
				}
			}
		}
		select {
		case err := <-wrote:
			t.Fatalf("the peer is done writing, %v, although only %d bytes were read", err, got)
		default:
		}
		// Resumed in the same batch it never stops.
		r.Receive(fd, tag)
		quietly := wait(t, r, Patience{})
		for _, ev := range quietly {
			take(ev)
		}
		r.Pause(tag)
		r.Receive(fd, tag)
		drive(t, r, take, func() bool { return got == len(whole) })
		if err := <-wrote; err != nil {
			t.Error(err)
		}
		r.Close(fd, tag)
		quiet(t, r)
	})
}

// TestGenerations: events under way when a connection was closed carry its
// tag, and do nothing to the next one with its index and its descriptor.
func TestGenerations(t *testing.T) {
	each(t, Config{Buffers: 1, BufferBytes: 64}, func(t *testing.T, r *Ring) {
		reused, old := 0, -1
		for generation := range uint32(200) {
			tag := MakeTag(0, generation)
			ours, theirs := sockets(t)
			if ours == old {
				reused++
			}
			old = ours
			// With one small buffer the multishot ends all the time and stands to be
			// armed again when the connection is closed.
			text := pattern(200, generation)
			write(t, theirs, text)
			r.Receive(ours, tag)
			var got []byte
			drive(t, r, func(ev Event) {
				if ev.Tag.Generation() != generation {
					return // of an earlier connection; it must not reach this one's
				}
				if ev.Kind != Received || ev.Err != 0 {
					t.Fatalf("generation %d: event %+v", generation, ev)
				}
				got = append(got, ev.Data...)
			}, func() bool { return len(got) >= 200 || generation%2 == 1 && len(got) > 0 })
			if string(got) != string(text[:len(got)]) {
				t.Fatalf("generation %d: armed twice, or another's bytes", generation)
			}
			r.Close(ours, tag)
			wait(t, r, Patience{}) // the descriptor is free from here on
			if err := syscall.Close(theirs); err != nil {
				t.Fatal(err)
			}
		}
		if reused == 0 {
			t.Error("no descriptor was used again: the test tests nothing")
		}
		quiet(t, r)
	})
}

// TestOutOfDescriptors: a listener that cannot accept says so, rests, does not
// fill a core meanwhile, and goes on when there are descriptors again.
func TestOutOfDescriptors(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		ln, bound, err := ListenTCP(netip.MustParseAddrPort("127.0.0.1:0"), 16, false)
		if err != nil {
			t.Fatal(err)
		}
		tag := MakeTag(0, 1)
		to := TCPAddr(bound)
		client, err := to.Socket()
		if err != nil {
			t.Fatal(err)
		}
		var old syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
		low := syscall.Rlimit{Cur: 1, Max: old.Max} // no new descriptor is below it
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
				t.Error(err)
			}
		}()
		r.Accept(ln, tag) // an accept goes by the limit of when it was armed
		r.Connect(client, &to, MakeTag(1, 1))
		refused, accepted, waits := 0, -1, 0
		on := func(ev Event) {
			switch {
			case ev.Kind != Accepted:
			case ev.Err == syscall.EMFILE:
				refused++
			case ev.Err == 0:
				accepted = ev.FD
			default:
				t.Fatalf("event %+v", ev)
			}
		}
		begin := time.Now()
		drive(t, r, on, func() bool { waits++; return refused >= 4 })
		if took := time.Since(begin); took < 3*restFor {
			t.Errorf("four refusals in %v: the listener did not rest", took)
		}
		if waits > 1000 {
			t.Errorf("%d waits", waits)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
		drive(t, r, on, func() bool { return accepted >= 0 })
		r.Close(ln, tag)
		r.Close(client, MakeTag(1, 1))
		r.Close(accepted, MakeTag(2, 1))
		quiet(t, r)
	})
}

// TestCloseTwice: closing what is not open is the caller's error, and a grave
// one: the number may be another's by then.
func TestCloseTwice(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		ours, theirs := sockets(t)
		r.Close(ours, MakeTag(0, 1))
		r.Close(theirs, MakeTag(1, 1))
		quiet(t, r)
		r.Close(ours, MakeTag(0, 1))
		_, first := r.Wait(Patience{})
		_, second := r.Wait(Patience{})
		if first == nil && second == nil {
			t.Error("nothing was said")
		}
		switch e := r.engine.(type) {
		case *uring:
			e.broken = nil
		case *epoll:
			e.broken = nil
		}
	})
}
