//go:build linux

package ring

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ceiling/internal/needs"
)

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
