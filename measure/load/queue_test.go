//go:build linux

package load

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"ceiling/internal/ring"
)

// modelled is a request as the simple model of a connection's queue sees it.
type modelled struct {
	due    int64
	sent   int64 // 0: not since it was last put back
	again  bool
	target uint32
}

// TestConnectionQueue holds the queue of a connection, and the books beside it,
// against lists of requests: one on the wire, one that waits.
func TestConnectionQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.IntRange(1, 9).Draw(t, "pipelining")
		mix := []Request{{Bytes: []byte("a"), Weight: 3}, {Bytes: []byte("bb"), Weight: 2}}
		s, err := newScript(mix, p, 5)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ring.Open(ring.Config{Engine: ring.Epoll})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Shut()
		w := &worker{
			shared:     &shared{Config: Config{Mix: mix, Pipelining: p, Expect: Expect{Unexpected: errorStatuses()}}, script: s},
			pipelining: p, ring: r,
			conns: make([]conn, 1), flights: make([]flight, p), tally: newTally(2), quota: 0,
			phase: measuring, dialNs: maxTime, now: 1, gathering: gathering{trial: trial{untilNs: maxTime}},
		}
		c := &w.conns[0]
		c.fd, c.generation, c.state = -1, 1, open
		var wire, waiting []modelled
		var completed, failed, sent, resent, lags uint64
		next := uint32(0) // script position of the next new request
		check := func() {
			t.Helper()
			var flat []modelled
			at := c.oldest
			for k := range c.entries {
				f := w.queue(0)[int(c.head+k)%p]
				for range f.n {
					flat = append(flat, modelled{f.due, f.sent, f.again, s.target[at]})
					at = s.step(at, 1)
				}
			}
			if want := slices.Concat(wire, waiting); !slices.Equal(flat, want) {
				t.Fatalf("queue %v, want %v", flat, want)
			}
			again := countAgain(waiting)
			if int(c.onWire) != len(wire) || int(c.waiting) != len(waiting) || int(c.resend) != again || c.next != s.step(c.oldest, len(wire)) {
				t.Fatalf("on the wire %d, waiting %d, to be sent again %d, want %d, %d, %d", c.onWire, c.waiting, c.resend, len(wire), len(waiting),
					again)
			}
			k := w.tally
			if k.Completed != completed || k.Failed != failed || k.Sent != sent || k.Resent != resent || k.Lag.Count()+w.lagN != lags ||
				sent != completed+failed+uint64(w.inFlight) {
				t.Fatalf("completed %d, failed %d, sent %d, again %d, lags %d, want %d, %d, %d, %d, %d; %d in flight", k.Completed, k.Failed, k.Sent,
					k.Resent, k.Lag.Count()+w.lagN, completed, failed, sent, resent, lags, w.inFlight)
			}
			if k.ByTarget[0].Completed+k.ByTarget[1].Completed != completed || k.ByTarget[0].Failed+k.ByTarget[1].Failed != failed {
				t.Fatal("the targets' books do not add up")
			}
		}
		leave := func(now int64) { // all that was stamped is dated
			for i := range wire {
				if wire[i].sent == 0 {
					wire[i].sent = now
					if !wire[i].again {
						lags++
					}
				}
			}
		}
		drop := func(of *[]modelled, n int) { *of = slices.Delete(*of, 0, n) }
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { check() },
			"enqueue": func(t *rapid.T) {
				room := p - len(wire) - len(waiting)
				if room == 0 {
					t.Skip()
				}
				n := rapid.IntRange(1, room).Draw(t, "n")
				w.now += int64(rapid.IntRange(0, 1).Draw(t, "later"))
				w.enqueue(0, c, w.now, int32(n))
				for range n {
					waiting = append(waiting, modelled{due: w.now, target: s.target[next]})
					next = s.step(next, 1)
				}
			},
			"stamp": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip()
				}
				n := rapid.IntRange(1, len(waiting)).Draw(t, "n")
				_, got, at := s.stretch(c.next, n)
				c.next = at
				w.stamp(0, c, int32(got))
				for _, k := range waiting[:got] {
					if k.again {
						resent++
					} else {
						sent++
					}
				}
				wire = append(wire, waiting[:got]...)
				drop(&waiting, got)
			},
			"fill": func(t *rapid.T) {
				w.now += int64(rapid.IntRange(0, 1).Draw(t, "later"))
				w.fill(w.now)
				leave(w.now)
			},
			"complete": func(t *rapid.T) {
				gone := len(wire)
				for gone > 0 && wire[gone-1].sent == 0 {
					gone--
				}
				if gone == 0 {
					t.Skip()
				}
				n := rapid.IntRange(1, gone).Draw(t, "n")
				w.complete(0, c, int32(n), 200)
				drop(&wire, n)
				completed += uint64(n)
			},
			"fail": func(t *rapid.T) {
				w.now += int64(rapid.IntRange(0, 1).Draw(t, "later"))
				leave(w.now)
				again := countAgain(waiting)
				w.fail(0, c, PhaseResponse, "first", "others")
				failed += uint64(len(wire) + again)
				wire = nil
				drop(&waiting, again)
				c.state = open // as after another connect
				next = s.step(c.oldest, len(waiting))
			},
			"lost": func(t *rapid.T) {
				if c.served == 0 {
					c.served = 1
				}
				w.now += int64(rapid.IntRange(0, 1).Draw(t, "later"))
				leave(w.now)
				w.lost(0, c)
				for i := range wire {
					wire[i].sent, wire[i].again = 0, true
				}
				waiting = slices.Concat(wire, waiting)
				wire = nil
				c.state = open
			},
		})
	})
}

// TestOneSendTooMany: towards a peer that does not read but answers, one send is
// queued behind the one that found no room, and then nothing more.
func TestOneSendTooMany(t *testing.T) {
	under(t, func(t *testing.T, engine string) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		mix := []Request{{Bytes: make([]byte, 1<<20), Weight: 1}}
		s, err := newScript(mix, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ring.Open(ring.Config{Engine: engine})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Shut()
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fds[1])
		defer syscall.Close(fds[0])
		w := &worker{shared: &shared{Config: Config{Mix: mix, Pipelining: 1, Expect: Expect{Unexpected: errorStatuses()}}, script: s},
			pipelining: 1, ring: r,
			conns: make([]conn, 1), flights: make([]flight, 1), tally: newTally(1), quota: -1}
		c := &w.conns[0]
		c.fd, c.generation, c.state = int32(fds[0]), 1, open
		for range 20 {
			if c.waiting == 0 {
				w.enqueue(0, c, w.now, 1)
			}
			w.transmit(0, c)
			if _, err := r.Wait(ring.Patience{}); err != nil {
				t.Fatal(err)
			}
			w.now++
			w.fill(w.now)
			if c.onWire > 0 {
				w.complete(0, c, 1, 200)
			}
		}
		if unsent := r.Unsent(c.tag(0)); w.tally.Sent != 2 || !c.sending || unsent < 1<<20 || unsent > 2<<20 {
			t.Fatalf("sent %d, %d bytes wait, sending: %v", w.tally.Sent, unsent, c.sending)
		}
		// The peer reads; the Sent event lets the next one out.
		b := make([]byte, 1<<20)
		for got := 0; got < 3<<20; {
			n, err := syscall.Read(fds[1], b)
			if err != nil && err != syscall.EAGAIN {
				t.Fatal(err)
			}
			got += max(n, 0)
			events, err := r.Wait(ring.Patience{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range events {
				w.handle(&events[i])
			}
			w.fill(w.now)
		}
	}, ring.Uring, ring.Epoll)
}

// countAgain is how many of a list were on the wire before.
func countAgain(list []modelled) (n int) {
	for _, k := range list {
		if k.again {
			n++
		}
	}
	return n
}

// TestSlotQueue is first in, first out.
func TestSlotQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 7).Draw(t, "size")
		q := slotQueue{of: make([]uint32, size)}
		var want []uint32
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				if len(want) == size {
					t.Skip()
				}
				i := rapid.Uint32().Draw(t, "i")
				q.push(i)
				want = append(want, i)
			},
			"pop": func(t *rapid.T) {
				if len(want) == 0 {
					t.Skip()
				}
				if got := q.pop(); got != want[0] || q.count != len(want)-1 {
					t.Fatalf("popped %d, want %d; %d left", got, want[0], q.count)
				}
				want = want[1:]
			},
		})
	})
}

// TestScript: the loop is made of the requests, every weight is exact over every
// round of it, and stretches of it are what they say.
func TestScript(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mix := make([]Request, rapid.IntRange(1, 5).Draw(t, "targets"))
		scale := rapid.IntRange(1, 1000).Draw(t, "scale") // only ratios count
		round := 0
		for i := range mix {
			weight := rapid.IntRange(1, 6).Draw(t, "weight")
			mix[i] = Request{Bytes: fmt.Appendf(nil, "<%d%s>", i, bytes.Repeat([]byte("x"), rapid.IntRange(0, 9).Draw(t, "size"))),
				Weight: weight * scale, NoBody: i%2 == 1}
			round += weight
		}
		p := rapid.IntRange(1, 50).Draw(t, "pipelining")
		s, err := newScript(mix, p, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		divisor := weightDivisor(mix)
		round = round * scale / divisor
		if len(s.target)%round != 0 || len(s.target) < 4*p || s.runs != (len(mix) == 1) {
			t.Fatalf("a loop of %d with rounds of %d", len(s.target), round)
		}
		for from := 0; from < len(s.target); from += round {
			count := make([]int, len(mix))
			for _, k := range s.target[from : from+round] {
				count[k]++
			}
			for i := range mix {
				if count[i] != mix[i].Weight/divisor {
					t.Fatalf("target %d stands %d times in a round, its weight is %d of %d", i, count[i], mix[i].Weight, divisor)
				}
			}
		}
		at := rapid.Uint32Range(0, uint32(len(s.target)-1)).Draw(t, "at")
		n := rapid.IntRange(1, p).Draw(t, "n")
		b, got, next := s.stretch(at, n)
		var want []byte
		for k := range got {
			want = append(want, mix[s.target[(int(at)+k)%len(s.target)]].Bytes...)
		}
		if !bytes.Equal(b, want) || got != n || next != s.step(at, n) {
			t.Fatalf("a stretch of %d from %d: %q, %d, %d", n, at, b, got, next)
		}
	})
}

// TestNewBehindLost: a new request does not join those that are to be sent again,
// though they came due at the same time; it would be counted as one of them.
func TestNewBehindLost(t *testing.T) {
	onThread(t, func(t *testing.T, w *worker, c *conn) {
		w.pipelining, w.flights = 2, make([]flight, 2)
		w.flights[0] = c.one[0]
		c.served = 1
		w.lost(0, c)
		w.enqueue(0, c, w.flights[0].due, 1)
		if c.entries != 2 || c.resend != 1 || c.waiting != 2 || w.flights[1].again {
			t.Errorf("%d flights %+v, %d of %d to be sent again", c.entries, w.flights, c.resend, c.waiting)
		}
	})
}
