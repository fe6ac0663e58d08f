//go:build linux

package ring

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

func wait(t *testing.T, r *Ring, p Patience) []Event {
	t.Helper()
	events, err := r.Wait(p)
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return events
}

// TestTimeout: a wait without events takes its timeout. The runtime sends its
// threads signals, which may end a wait early: of many, some are whole.
func TestTimeout(t *testing.T) {
	needs.Time(t)
	each(t, Config{}, func(t *testing.T, r *Ring) {
		for _, timeout := range []time.Duration{500 * time.Microsecond, 2 * time.Millisecond} {
			const turns = 50
			whole := 0
			for range turns {
				begin := time.Now()
				if events := wait(t, r, Patience{Timeout: timeout}); len(events) != 0 {
					t.Fatalf("events %+v", events)
				}
				took := time.Since(begin)
				if took >= timeout {
					whole++
				}
				if took > timeout+5*time.Second {
					t.Errorf("a wait for %v took %v", timeout, took)
				}
			}
			if whole == 0 {
				t.Errorf("none of %d waits took the %v it was given", turns, timeout)
			}
		}
	})
}

func TestLook(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		for _, timeout := range []time.Duration{0, -1, -time.Hour} {
			begin := time.Now()
			const turns = 1000
			for range turns {
				if events := wait(t, r, Patience{Timeout: timeout, Gather: 8, GatherFor: time.Hour}); len(events) != 0 {
					t.Fatalf("events %+v", events)
				}
			}
			if took := time.Since(begin); took > turns*10*time.Millisecond { // a machine that is busy
				t.Errorf("%d looks took %v", turns, took)
			}
		}
	})
}

// TestGather: with one byte every 2 ms a wait for 1,000 completions ends after
// GatherFor with those that came, and a wait whose GatherFor passes without
// any ends with the first.
func TestGather(t *testing.T) {
	needs.Time(t)
	each(t, Config{}, func(t *testing.T, r *Ring) {
		if !r.CanGather() {
			if r.Engine() == Uring {
				t.Skip("the kernel has no minimum timeout (Linux 6.12)")
			}
			return
		}
		ours, theirs := sockets(t)
		tag := MakeTag(0, 1)
		r.Receive(ours, tag)
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					if _, err := syscall.Write(theirs, []byte{1}); err != nil {
						t.Error(err)
					}
				}
			}
		}()
		full, turns := 0, 20
		for range turns {
			const gatherFor = 6 * time.Millisecond
			begin := time.Now()
			events := wait(t, r, Patience{Timeout: patience, Gather: 1000, GatherFor: gatherFor})
			took := time.Since(begin)
			if took > patience/2 {
				t.Fatalf("a wait took %v", took)
			}
			if took >= gatherFor && len(events) >= 1 {
				full++
			}
		}
		if full == 0 {
			t.Errorf("none of %d waits gathered for as long as it was told and had events then", turns)
		}
		events := 0
		begin := time.Now()
		for events == 0 && time.Since(begin) < patience {
			events = len(wait(t, r, Patience{Timeout: patience, Gather: 1000, GatherFor: 50 * time.Microsecond}))
		}
		if events == 0 || time.Since(begin) > patience/2 {
			t.Errorf("after GatherFor the first completion did not end the wait: %d events after %v", events, time.Since(begin))
		}
		// Without a time to gather for it is an ordinary wait, which the first ends.
		// The runtime's signals end others after 10 or 20 ms, with as many bytes as
		// were written meanwhile, in one event.
		alone := 0
		for range turns {
			bytes := 0
			for _, ev := range wait(t, r, Patience{Timeout: patience, Gather: 1000}) {
				bytes += len(ev.Data)
			}
			if bytes <= 2 {
				alone++
			}
		}
		if alone == 0 {
			t.Errorf("none of %d waits ended with the first completions: one that gathered would have a thousand", turns)
		}
		close(stop)
		<-stopped
		r.Close(ours, tag)
		if err := syscall.Close(theirs); err != nil {
			t.Fatal(err)
		}
		quiet(t, r)
	})
}

// TestSignals: signals all the time, and everything still arrives once. SIGURG
// is the runtime's own; it takes one too many as a spurious preemption.
func TestSignals(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		fd, peer := pair(t)
		defer peer.Close()
		tag := MakeTag(0, 1)
		r.Receive(fd, tag)
		pid, tid := syscall.Getpid(), syscall.Gettid()
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, _, e := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(pid), uintptr(tid), uintptr(syscall.SIGURG)); e != 0 {
					t.Errorf("tgkill: %v", e)
				}
				runtime.Gosched()
			}
		}()
		const size = 4 << 20
		whole := pattern(size, 9)
		echoed := make(chan error, 1)
		go func() { echoed <- readSlowly(peer, whole) }()
		go func() { _, _ = peer.Write(whole[:size/2]) }() // what comes is counted
		r.Send(fd, whole, tag)
		got, finished := 0, false
		drive(t, r, func(ev Event) {
			if ev.Kind != Received || ev.Err != 0 {
				t.Fatalf("event %+v", ev)
			}
			if string(ev.Data) != string(whole[got:got+len(ev.Data)]) {
				t.Fatalf("other bytes after %d", got)
			}
			got += len(ev.Data)
		}, func() bool {
			select {
			case err := <-echoed:
				finished = true
				if err != nil {
					t.Error(err)
				}
			default:
			}
			return finished && got == size/2
		})
		close(stop)
		<-stopped
		r.Close(fd, tag)
		quiet(t, r)
	})
}

// TestManySends: more sends before one Wait than the submission queue has
// places, over many sockets and all over one.
func TestManySends(t *testing.T) {
	check := func(name string, pairs, sends int) {
		t.Run(name, func(t *testing.T) {
			each(t, Config{}, func(t *testing.T, r *Ring) {
				ours, theirs := make([]int, pairs), make([]int, pairs)
				got := make([]int, pairs)
				for i := range pairs {
					ours[i], theirs[i] = sockets(t)
					r.Receive(theirs[i], MakeTag(uint32(pairs+i), 1))
				}
				b := make([]byte, sends)
				for i := range b {
					b[i] = byte(i / pairs)
				}
				for i := range sends {
					r.Send(ours[i%pairs], b[i:i+1], MakeTag(uint32(i%pairs), 1))
				}
				total := 0
				drive(t, r, func(ev Event) {
					i := int(ev.Tag.Index()) - pairs
					if ev.Kind != Received || ev.Err != 0 || i < 0 {
						t.Fatalf("event %+v", ev)
					}
					for _, v := range ev.Data {
						if v != byte(got[i]) {
							t.Fatalf("socket %d: byte %d is %d", i, got[i], v)
						}
						got[i]++
					}
					total += len(ev.Data)
				}, func() bool { return total == sends })
				for i := range pairs {
					r.Close(ours[i], MakeTag(uint32(i), 1))
					r.Close(theirs[i], MakeTag(uint32(pairs+i), 1))
				}
				quiet(t, r)
			})
		})
	}
	check("over 1000 sockets", 1000, 9000)
	check("over one socket", 1, 9000)
}

// TestManyCompletions: more completions than the completion queue has places,
// 32,768, are all delivered, and those that did not fit are not taken for
// sends that went well.
func TestManyCompletions(t *testing.T) {
	each(t, Config{Buffers: 256, BufferBytes: 256}, func(t *testing.T, r *Ring) {
		const n = 40_000
		ours, theirs := sockets(t)
		if err := syscall.Close(theirs); err != nil {
			t.Fatal(err)
		}
		// One connection per index would need as many descriptors; the ring only
		// knows the tags.
		b := []byte("x")
		for i := range uint32(n) {
			r.Send(ours, b, MakeTag(i, 1))
		}
		// The completion of this one finds the queue full.
		fd, peer := pair(t)
		defer peer.Close()
		late := MakeTag(n, 1)
		r.Send(fd, make([]byte, 20<<20), late)
		failed := make([]int, n)
		total := 0
		on := func(ev Event) {
			if ev.Kind != SendFailed || ev.Err != syscall.EPIPE {
				t.Fatalf("event %+v", ev)
			}
			failed[ev.Tag.Index()]++
			total++
		}
		for _, ev := range wait(t, r, Patience{}) {
			on(ev)
		}
		if r.Unsent(late) == 0 {
			t.Error("20 MB found room in a socket's buffer: their completion was missed")
		}
		drive(t, r, on, func() bool { return total >= n })
		for i, times := range failed {
			if times != 1 {
				t.Fatalf("send %d failed %d times", i, times)
			}
		}
		r.Close(fd, late)
		r.Close(ours, MakeTag(0, 1))
		quiet(t, r)
	})
}

// TestAllocations: a ping-pong between two sockets of the ring allocates nothing.
func TestAllocations(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Ring) {
		a, b := sockets(t)
		tags := [2]Tag{MakeTag(0, 1), MakeTag(1, 1)}
		fds := [2]int{a, b}
		r.Receive(a, tags[0])
		r.Receive(b, tags[1])
		ball := []byte("ball")
		r.Send(a, ball, tags[0])
		turns := 0
		play := func() {
			events, err := r.Wait(Patience{Timeout: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			for i := range events {
				if events[i].Kind == Received && len(events[i].Data) == len(ball) {
					at := events[i].Tag.Index()
					r.Send(fds[at], ball, tags[at])
					turns++
				}
			}
		}
		for range 100 {
			play()
		}
		turns = 0
		if n := testing.AllocsPerRun(2000, play); n != 0 {
			t.Errorf("%v allocations per Wait", n)
		}
		if turns < 1000 {
			t.Errorf("only %d turns", turns)
		}
		r.Close(a, tags[0])
		r.Close(b, tags[1])
		quiet(t, r)
	})
}
