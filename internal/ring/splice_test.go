//go:build linux

package ring

import (
	"bytes"
	"io"
	"syscall"
	"testing"
)

// TestSplice: what one socket receives goes to another, whole, through a pipe that
// is smaller; Readable and Writable come when they are due; the end is told.
func TestSplice(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		from, source := pair(t)
		to, sink := pair(t)
		defer sink.Close()
		in, out := MakeTag(1, 1), MakeTag(2, 1)
		if err := syscall.SetsockoptInt(to, syscall.SOL_SOCKET, syscall.SO_SNDBUF, 64<<10); err != nil {
			t.Fatal(err)
		}
		p, err := OpenPipe(128 << 10)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		r.Receive(from, in)
		want := pattern(6<<20, 3)
		go func() { _, _ = source.Write(want); source.Close() }()
		var got []byte // what came before it was quiet
		r.Pause(in)
		drive(t, r, func(ev Event) { got = append(got, ev.Data...) }, func() bool { return r.Quiet(in) })
		rest := make(chan []byte, 1)
		held, over, waits := 0, false, [2]int{}
		step := func() {
			for {
				for held > 0 {
					n, no := r.Drain(p, to, held)
					if no == syscall.EAGAIN {
						waits[1]++
						if waits[1] == 1 { // only now does anybody read
							go func() { b, _ := io.ReadAll(sink); rest <- b }()
						}
						r.Writable(to, out)
						return
					}
					if no != 0 {
						t.Fatal(no)
					}
					held -= n
				}
				n, no := r.Fill(p, from, in, 1<<20)
				switch {
				case no == syscall.EAGAIN:
					waits[0]++
					r.Readable(from, in)
					r.Readable(from, in) // twice is once
					return
				case no != 0:
					t.Fatal(no)
				case n == 0:
					over = true
					return
				}
				held = n
			}
		}
		step()
		drive(t, r, func(ev Event) {
			if ev.Kind == Readable && held == 0 && !over || ev.Kind == Writable && held > 0 {
				step()
			}
		}, func() bool { return over })
		r.Close(from, in)
		r.Close(to, out)
		quiet(t, r)
		got = append(got, <-rest...)
		if !bytes.Equal(got, want) || waits[1] == 0 {
			t.Errorf("%d bytes of %d, or wrong ones; waited %v times", len(got), len(want), waits)
		}
	})
}

// TestPollsEnd: a connection that is closed while something is asked for leaves
// nothing, and its place is another's.
func TestPollsEnd(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		for i := range 3 {
			fd, peer := pair(t)
			tag := MakeTag(1, uint32(i))
			r.Readable(fd, tag)
			r.Writable(fd, tag)
			for range 3 {
				wait(t, r, Patience{})
			}
			r.Readable(fd, tag)
			r.Close(fd, tag)
			quiet(t, r)
			if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Fatalf("the socket is held open: %d %v", n, err)
			}
			if u, is := r.engine.(*uring); is && len(u.polls) != 0 {
				t.Fatalf("%v", u.polls)
			}
			peer.Close()
		}
	})
}
