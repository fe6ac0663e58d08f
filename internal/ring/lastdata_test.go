//go:build linux

package ring

import (
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

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
