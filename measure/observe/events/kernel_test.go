//go:build linux

package events

import (
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/sys"
)

// A server that reads at once, sleeps and answers, and one that lets requests
// lie unread as long: the kernel's events say where the time went.
func TestPlantedPlaces(t *testing.T) {
	needs.Quiet(t)
	if os.Geteuid() != 0 {
		t.Fatal("BPF programs take root: run this test as root")
	}
	const planted = 20 * time.Millisecond
	cases := []struct {
		name          string
		unread, sleep time.Duration // at the server
		idle          time.Duration // answers lie unread at the client
		where         Place
	}{
		{"in the server", 0, planted, 0, InServer},
		{"unread at the server", planted, 0, 0, AtServer},
		{"unread at the client", 0, 0, planted, AtClient},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			target := serve(t, c.unread, c.sleep)
			var own clientTimes
			stop := loadFrom(t, target, 16, c.idle, &own)
			got := watchFor(t, target, 2*time.Second)
			stop()
			if got.Requests < enough || got.Connections == 0 {
				t.Fatalf("%d requests on %d connections", got.Requests, got.Connections)
			}
			all := int64(0)
			for p := range Generator {
				all += got.Ns[p]
			}
			share := float64(got.Ns[c.where]) / float64(all)
			// The client knows how long an exchange took; what was not planted is the rest.
			mean := own.mean()
			least := float64(planted)/float64(mean) - 0.05
			if share < least || share > 1 {
				t.Errorf("%.1f%% %s; planted at least %v of a mean of %v", 100*share, c.name, planted, mean)
			}
			// The events are of a tenth of a second, in bursts, and the client's mean is of all its time: one stall of the machine
			// in a burst of 48 requests made it 1.153. A wrong unit or a place counted twice is far outside of these.
			if per := float64(all) / float64(got.Requests) / float64(mean); per < 0.75 || per > 1.33 {
				t.Errorf("a request takes %.0f ns by the events, %d by the client's own clock", float64(all)/float64(got.Requests), mean)
			}
		})
	}
}

// clientTimes is how long the exchanges took, by the clients' own clock.
type clientTimes struct {
	sync.Mutex
	n   int64
	sum time.Duration
}

func (c *clientTimes) add(d time.Duration) {
	c.Lock()
	defer c.Unlock()
	c.n, c.sum = c.n+1, c.sum+d
}

func (c *clientTimes) mean() time.Duration {
	c.Lock()
	defer c.Unlock()
	return c.sum / time.Duration(max(c.n, 1))
}

const message = 100 // bytes

// enough requests to tell where they were.
const enough = 50

// serve answers every message after it has lain unread, and has been read.
func serve(t *testing.T, unread, sleep time.Duration) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, message)
				for {
					// Wait for the first byte without taking it, then let it lie.
					if err := readable(c); err != nil {
						return
					}
					time.Sleep(unread)
					if _, err := io.ReadFull(c, b); err != nil {
						return
					}
					time.Sleep(sleep)
					if _, err := c.Write(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

// readable waits until there is something to read, by a look that takes
// nothing (MSG_PEEK).
func readable(c net.Conn) error {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		failed = peek(int(fd))
		return failed != errAgain
	})
	if err != nil {
		return err
	}
	return failed
}

// loadFrom keeps one message under way on each connection.
func loadFrom(t *testing.T, target netip.AddrPort, connections int, idle time.Duration, times *clientTimes) (stop func()) {
	t.Helper()
	var wait sync.WaitGroup
	done := make(chan struct{})
	for range connections {
		c, err := net.Dial("tcp", target.String())
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			defer c.Close()
			b := make([]byte, message)
			for {
				select {
				case <-done:
					return
				default:
				}
				began := time.Now()
				if _, err := c.Write(b); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(idle)
				if _, err := io.ReadFull(c, b); err != nil {
					t.Error(err)
					return
				}
				times.add(time.Since(began))
			}
		})
	}
	return sync.OnceFunc(func() { close(done); wait.Wait() })
}

// sums of bursts.
type sums struct {
	Connections, Dropped int
	Requests             int64
	Ns                   [Places]int64
	BPFNs, OwnNs         int64
	WidthNs              int64
}

// watchFor sums the bursts of a while.
func watchFor(t *testing.T, target netip.AddrPort, long time.Duration) (s sums) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w, err := Open(target, false, 1, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	// Bursts pause by what they cost: on a slow host there are few in that time.
	for begin := sys.MonotonicNs(); ; {
		if took := sys.MonotonicNs() - begin; took >= int64(long) && s.Requests >= enough || took >= int64(20*time.Second) {
			break
		}
		b, next, err := w.Step()
		if err != nil {
			t.Fatal(err)
		}
		if b != nil {
			t.Logf("burst %v of %.3f: %d connections, %d dropped, %d requests, %d events, %d+%d µs, next %v", time.Duration(b.ToNs-b.FromNs),
				b.Share, b.Connections, b.Dropped, b.Requests, b.Events, b.BPFNs/1000, b.OwnNs/1000, next)
			s.Connections = max(s.Connections, b.Connections)
			s.Requests, s.Dropped = s.Requests+b.Requests, s.Dropped+b.Dropped
			s.BPFNs, s.OwnNs, s.WidthNs = s.BPFNs+b.BPFNs, s.OwnNs+b.OwnNs, s.WidthNs+b.ToNs-b.FromNs
			for p := range b.Ns {
				s.Ns[p] += b.Ns[p]
			}
		}
		time.Sleep(next)
	}
	return s
}

const errAgain = syscall.EAGAIN

// peek looks at the first byte of a socket without taking it.
func peek(fd int) error {
	var b [1]byte
	_, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err
}
