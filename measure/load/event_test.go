//go:build linux

package load

import (
	"net/netip"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"ceiling/internal/faultserver"
	"ceiling/internal/ring"
)

// onThread gives body a worker with one connection that has one request on the
// wire, on a pair of sockets, as if the load had begun.
func onThread(t *testing.T, body func(t *testing.T, w *worker, c *conn)) {
	t.Helper()
	under(t, func(t *testing.T, engine string) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		s, err := newScript(get(), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ring.Open(ring.Config{Engine: engine})
		if err != nil {
			t.Fatal(err)
		}
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fds[1])
		w := &worker{
			shared: &shared{Config: Config{
				To: To(ring.TCPAddr(netip.AddrPort{})), Mix: get(), Pipelining: 1, Timeout: 1e9, Expect: Expect{Unexpected: errorStatuses()},
			}, script: s},
			pipelining: 1, ring: r,
			learned: s.learned(),
			conns:   make([]conn, 1), flights: make([]flight, 1), tally: newTally(1), quota: -1, phase: measuring, dialNs: maxTime, now: 1,
			gathering: gathering{trial: trial{untilNs: maxTime}},
		}
		c := &w.conns[0]
		c.fd, c.generation, c.state = int32(fds[0]), 1, open
		w.connected = 1
		w.enqueue(0, c, w.now, 1)
		w.transmit(0, c)
		w.fill(2)
		body(t, w, c)
		if err := w.shut(); err != nil {
			t.Error(err)
		}
	}, ring.Uring, ring.Epoll)
}

// TestAnswerAfterFailedSend: what a server answered before it closed counts,
// though the send that failed is heard of first.
func TestAnswerAfterFailedSend(t *testing.T) {
	onThread(t, func(t *testing.T, w *worker, c *conn) {
		tag := c.tag(0)
		w.handle(&ring.Event{Kind: ring.SendFailed, Tag: tag, Err: syscall.EPIPE})
		w.handle(&ring.Event{Kind: ring.Received, Tag: tag, Data: []byte(faultserver.Response("413 Too Large", "Connection: close\r\n", ""))})
		if w.tally.Statuses[413] != 1 || w.tally.Failed != 0 || c.state != closed {
			t.Errorf("413: %d, failed %d, state %d", w.tally.Statuses[413], w.tally.Failed, c.state)
		}
	})
	onThread(t, func(t *testing.T, w *worker, c *conn) { // without an answer the send's error is the cause
		tag := c.tag(0)
		w.handle(&ring.Event{Kind: ring.SendFailed, Tag: tag, Err: syscall.ECONNRESET})
		w.handle(&ring.Event{Kind: ring.Received, Tag: tag})
		if w.tally.Faults[Fault{PhaseSend, "ECONNRESET"}] != 1 || w.tally.Failed != 1 {
			t.Errorf("failed %d: %v", w.tally.Failed, w.tally.Faults)
		}
	})
}

// TestStaleEvents: events of an earlier connection change nothing, though the
// generation is near its end.
func TestStaleEvents(t *testing.T) {
	onThread(t, func(t *testing.T, w *worker, c *conn) {
		c.generation = 1<<24 + 5 // the tag's 24 bits have wrapped
		for _, stale := range []uint32{4, 1<<24 - 1, 0} {
			for _, kind := range []ring.Kind{ring.Received, ring.SendFailed, ring.Connected, ring.Sent, ring.Discarded} {
				w.handle(&ring.Event{Kind: kind, Tag: ring.MakeTag(0, stale), Err: syscall.ECONNRESET})
			}
		}
		if w.tally.Failed != 0 || len(w.tally.Faults) != 0 || c.state != open || c.sending {
			t.Errorf("failed %d: %v, state %d", w.tally.Failed, w.tally.Faults, c.state)
		}
		w.handle(&ring.Event{Kind: ring.Received, Tag: ring.MakeTag(0, 5), Err: syscall.ECONNRESET})
		if w.tally.Failed != 1 {
			t.Errorf("the event of this connection was dropped")
		}
	})
}

// TestIdleConnectionIsWoken: what another connection gave back to the number
// asked for goes to one that had run out of it.
func TestIdleConnectionIsWoken(t *testing.T) {
	onThread(t, func(t *testing.T, w *worker, c *conn) {
		w.quota = 0
		w.handle(&ring.Event{Kind: ring.Received, Tag: c.tag(0), Data: []byte(faultserver.OK("x"))})
		if c.parked != 1 || w.tally.Sent != 1 {
			t.Fatalf("parked %d, sent %d", c.parked, w.tally.Sent)
		}
		w.quota = 3
		w.expire()
		if c.parked != 0 || w.tally.Sent != 2 || w.quota != 2 {
			t.Errorf("parked %d, sent %d, %d left", c.parked, w.tally.Sent, w.quota)
		}
	})
}

// TestMeetsItself: a connect that met itself is a failed one.
func TestMeetsItself(t *testing.T) {
	onThread(t, func(t *testing.T, w *worker, c *conn) {
		fd := selfConnected(t)
		syscall.Close(int(c.fd))
		c.fd, c.state, c.generation = int32(fd), connecting, 7
		w.connected, w.pending = 0, 1
		w.handle(&ring.Event{Kind: ring.Connected, Tag: c.tag(0)})
		if c.state != closed || w.tally.Faults[Fault{PhaseConnect, causeItself}] != 1 || w.pending != 0 || w.connected != 0 {
			t.Errorf("state %d, faults %v, pending %d, connected %d", c.state, w.tally.Faults, w.pending, w.connected)
		}
	})
}

// TestOneSendForABatch: what several events of a batch have freed leaves with one send.
func TestOneSendForABatch(t *testing.T) {
	onThread(t, func(t *testing.T, w *worker, _ *conn) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0) // a record is what one send has sent
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(fds[1])
		w.pipelining, w.flights = 4, make([]flight, 8)
		if w.shared.script, err = newScript(get(), 4, 1); err != nil {
			t.Fatal(err)
		}
		w.conns = append(w.conns, conn{fd: int32(fds[0]), generation: 1, state: open})
		w.connected++
		c := &w.conns[1]
		sent := func(requests int) {
			t.Helper()
			w.fill(3)
			_, failed := w.ring.Wait(ring.Patience{})
			b := make([]byte, 4096)
			n, err := syscall.Read(fds[1], b)
			if want := requests * int(w.shared.script.begin[1]); failed != nil || err != nil || n != want {
				t.Errorf("one send of %d bytes, want %d, of %d requests: %v, %v", n, want, requests, failed, err)
			}
		}
		w.enqueue(1, c, w.now, 4)
		w.transmit(1, c)
		w.transmitAll()
		sent(4)
		answer := ring.Event{Kind: ring.Received, Tag: c.tag(1), Data: []byte(faultserver.OK("x"))}
		w.work([]ring.Event{answer, answer, answer})
		sent(3)
	})
}

// TestAsManyTargetsAsThereMayBe: each of 100,000 targets is in the loop once.
func TestAsManyTargetsAsThereMayBe(t *testing.T) {
	mix := make([]Request, 100_000)
	for i := range mix {
		mix[i] = Request{Bytes: []byte{byte(i), byte(i >> 8), byte(i >> 16)}, Weight: 1}
	}
	s, err := newScript(mix, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := make([]int, len(mix))
	for i, target := range s.target {
		seen[target]++
		at := s.bytes[s.begin[i]:s.begin[i+1]]
		if n := int(at[0]) | int(at[1])<<8 | int(at[2])<<16; n != int(target) {
			t.Fatalf("request %d is of target %d and has the bytes of %d", i, target, n)
		}
	}
	if i := slices.IndexFunc(seen, func(n int) bool { return n != 1 }); i >= 0 {
		t.Errorf("target %d: %d times", i, seen[i])
	}
}
