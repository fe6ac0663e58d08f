//go:build linux

package ring

import (
	"bytes"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ceiling/internal/needs"
)

// TestNoneStarves: of sockets that always have something to read, each is
// served as often as any other, although the buffers reach for a few only.
func TestNoneStarves(t *testing.T) {
	const (
		n      = 3000
		pieces = 4
		piece  = 512
	)
	each(t, Config{Buffers: 64, BufferBytes: piece}, func(t *testing.T, r *Ring) {
		ours, theirs := make([]int, n), make([]int, n)
		for i := range n {
			ours[i], theirs[i] = sockets(t)
			write(t, theirs[i], make([]byte, pieces*piece))
			r.Receive(ours[i], MakeTag(uint32(i), 1))
		}
		got := make([]int, n)
		total := 0
		for round := 0; total < n*pieces*piece; round++ {
			events, err := r.Wait(Patience{Timeout: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range events {
				if ev.Kind != Received || ev.Err != 0 {
					t.Fatalf("event %+v", ev)
				}
				got[ev.Tag.Index()] += len(ev.Data)
				total += len(ev.Data)
				// It always has more, until each has had its share.
				write(t, theirs[ev.Tag.Index()], ev.Data)
			}
			if least := minimum(got); least > 0 && got[0] > 0 && total/n > 3*least+4*pieces*piece {
				t.Fatalf("one socket had %d bytes when the mean had %d", least, total/n)
			}
			if round > 100*n {
				t.Fatal("nothing more comes")
			}
		}
		// By now every socket could have been served pieces times.
		if least := minimum(got); least == 0 {
			t.Error("a socket that always had something to read was never served")
		}
		for i := range n {
			r.Close(ours[i], MakeTag(uint32(i), 1))
			if err := syscall.Close(theirs[i]); err != nil {
				t.Fatal(err)
			}
		}
		quiet(t, r)
	})
}

func minimum(list []int) int {
	least := list[0]
	for _, v := range list {
		least = min(least, v)
	}
	return least
}

// TestFewBuffers: with two buffers for 200 sockets everything arrives, in order.
func TestFewBuffers(t *testing.T) {
	const n, size = 200, 20_000
	each(t, Config{Buffers: 2, BufferBytes: 4096}, func(t *testing.T, r *Ring) {
		ours, theirs := make([]int, n), make([]int, n)
		got := make([][]byte, n)
		for i := range n {
			ours[i], theirs[i] = sockets(t)
			write(t, theirs[i], pattern(size, uint32(i)))
			r.Receive(ours[i], MakeTag(uint32(i), 1))
		}
		total := 0
		drive(t, r, func(ev Event) {
			if ev.Kind != Received || ev.Err != 0 {
				t.Fatalf("event %+v", ev)
			}
			got[ev.Tag.Index()] = append(got[ev.Tag.Index()], ev.Data...)
			total += len(ev.Data)
		}, func() bool { return total >= n*size })
		for i := range n {
			if !bytes.Equal(got[i], pattern(size, uint32(i))) {
				t.Errorf("socket %d: other bytes than were sent", i)
			}
			r.Close(ours[i], MakeTag(uint32(i), 1))
			if err := syscall.Close(theirs[i]); err != nil {
				t.Fatal(err)
			}
		}
		quiet(t, r)
	})
}

// TestLargeSends: 10 MB through a reader that is slower than the sender, as one
// send, and as sends queued behind one another in one batch and over several.
func TestLargeSends(t *testing.T) {
	const size = 10 << 20
	whole := pattern(size, 5)
	check := func(name string, pieces []int, waitBetween bool) {
		t.Run(name, func(t *testing.T) {
			each(t, Config{}, func(t *testing.T, r *Ring) {
				fd, peer := pair(t)
				defer peer.Close()
				tag := MakeTag(2, 2)
				done := make(chan error, 1)
				go func() { done <- readSlowly(peer, whole) }()
				at := 0
				for _, n := range pieces {
					r.Send(fd, whole[at:at+n], tag)
					at += n
					if waitBetween {
						if _, err := r.Wait(Patience{}); err != nil {
							t.Fatal(err)
						}
					}
				}
				if at != size {
					t.Fatalf("the pieces sum to %d", at)
				}
				finished := false
				drive(t, r, func(ev Event) { t.Errorf("event %+v", ev) }, func() bool {
					select {
					case err := <-done:
						finished = true
						if err != nil {
							t.Error(err)
						}
					default:
					}
					return finished
				})
				r.Close(fd, tag)
				quiet(t, r)
			})
		})
	}
	many := make([]int, 160)
	for i := range many {
		many[i] = 64 << 10
	}
	check("one", []int{size}, false)
	check("two in one batch", []int{size - 5, 5}, false)
	check("two in two batches", []int{size - 70_000, 70_000}, true)
	check("many in one batch", many, false)
	check("many batches", many, true)
}

// readSlowly reads in pieces of all sizes, with a rest now and then that lets
// the sender's buffer run full, and compares.
func readSlowly(conn *net.TCPConn, want []byte) error {
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	b := make([]byte, 256<<10)
	for at, turn := 0, 0; at < len(want); turn++ {
		n, err := conn.Read(b[:1+(turn*7919)%len(b)])
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", at, err)
		}
		if !bytes.Equal(b[:n], want[at:at+n]) {
			return fmt.Errorf("the bytes from %d to %d differ", at, at+n)
		}
		at += n
		if turn%16 == 0 {
			time.Sleep(time.Millisecond) // the reader is slow: this is the subject, not a synchronisation
		}
	}
	return nil
}

// TestLongSend: one send of more bytes than 32 bits count arrives whole, and what is sent behind it
// follows it.
func TestLongSend(t *testing.T) {
	needs.Time(t) // 4 GiB
	const size = 4<<30 + 12345
	// Never written, so that all pages are one of zeros: it takes no memory.
	long, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(long); err != nil {
			t.Error(err)
		}
	})
	each(t, Config{}, func(t *testing.T, r *Ring) {
		fd, peer := pair(t)
		tag := MakeTag(3, 1)
		type arrival struct {
			bytes int
			last  byte
			err   error
		}
		arrived := make(chan arrival, 1)
		if err := peer.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer peer.Close()
			var a arrival
			b := make([]byte, 1<<20)
			for {
				n, err := peer.Read(b)
				if a.bytes += n; n > 0 {
					a.last = b[n-1]
				}
				if err != nil {
					a.err = err
					arrived <- a
					return
				}
			}
		}()
		r.Send(fd, long, tag)
		r.SendNotify(fd, []byte("!"), tag)
		left := false
		drive(t, r, func(ev Event) { left = left || ev.Kind == Sent }, func() bool { return left })
		if err := syscall.Shutdown(fd, syscall.SHUT_WR); err != nil {
			t.Fatal(err)
		}
		if a := <-arrived; a.bytes != size+1 || a.last != '!' {
			t.Errorf("%d bytes of %d arrived, the last %q: %v", a.bytes, size+1, a.last, a.err)
		}
		r.Close(fd, tag)
		quiet(t, r)
	})
}
