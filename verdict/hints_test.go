package verdict

import (
	"math"
	"testing"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// TestSleepInWords: names of kernels from 3.10 to 6.18.
func TestSleepInWords(t *testing.T) {
	for wchan, want := range map[string]string{
		"futex_wait_queue_me": "a lock, or work to do", "futex_wait_queue": "a lock, or work to do", "futex_do_wait": "a lock, or work to do",
		"ep_poll": "events on their sockets", "do_epoll_wait": "events on their sockets",
		"poll_schedule_timeout.constprop.0": "events on their sockets",
		"io_cqring_wait":                    "completions of io_uring", "wait_woken": "data from a socket", "sk_wait_data": "data from a socket",
		"__skb_wait_for_more_packets": "data from a socket", "unix_stream_read_generic": "data from a socket",
		"inet_csk_accept": "new connections", "sk_stream_wait_memory": "send buffer space",
		"anon_pipe_read": "a pipe", "pipe_wait": "a pipe", "hrtimer_nanosleep": "a timer", "do_nanosleep": "a timer",
		"locks_lock_inode_wait": "a lock on a file", "rpc_wait_bit_killable": "a network file system",
		"request_wait_answer":  "a network file system",
		"jbd2_log_wait_commit": "the disk", "folio_wait_bit_common": "the disk", "blkdev_issue_flush": "the disk", "ext4_sync_file": "the disk",
		"do_wait": "a child process", "do_sigtimedwait": "a signal", "do_signal_stop": "to be resumed (stopped)",
		"kthread_worker_fn": "something",
	} {
		if got := prose.Text(say("sleep."+sleepOf(wchan).kind, nil)); got != want {
			t.Errorf("%s: %q, want %q", wchan, got, want)
		}
	}
}

// TestThrough: what the runtime of Go calls the ways to wait.
func TestThrough(t *testing.T) {
	for name, want := range map[string]string{
		"sync.(*Mutex).Lock": "for a lock", "internal/sync.(*Mutex).lockSlow": "for a lock", "sync.(*RWMutex).RLock": "for a lock",
		"runtime.chanrecv1": "to receive from a channel", "runtime.chansend1": "to send to a channel", "runtime.selectgo": "in a select",
		"sync.(*Cond).Wait": "for a sync.Cond signal", "sync.(*WaitGroup).Wait": "for goroutines it started", "": "directly",
		"runtime.gopark": "in runtime.gopark",
	} {
		if got := prose.Text(through(name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestGain(t *testing.T) {
	upcoming := &record.NextBottleneck{Bottleneck: record.ServerCPU, Times: 3}
	for _, c := range []struct {
		times    float64
		upcoming *record.NextBottleneck
		want     string
	}{
		{1.066, nil, "at most 1.07× this rate"}, {2, upcoming, "at most 2× this rate"}, {12.3, nil, "at most 12× this rate"},
		{12, upcoming, "at most 3× this rate, where the next bottleneck limits (server CPU)"},
		{1e6, upcoming, "at most 3× this rate, where the next bottleneck limits (server CPU)"},
		{1e6, nil, "more than 100× this rate, if nothing else limits"},
	} {
		if got := prose.Text(gain(c.times, c.upcoming)); got != c.want {
			t.Errorf("%g: %q, want %q", c.times, got, c.want)
		}
	}
}

// TestTimesWithoutAWait: R/(R−w), and finite where nothing remains.
func TestTimesWithoutAWait(t *testing.T) {
	for _, c := range []struct{ w, mean, want float64 }{{0, 100, 1}, {50, 100, 2}, {90, 100, 10}, {100, 100, 1e6}, {104, 100, 1e6}} {
		if got := (&waited{ns: c.w}).times(c.mean); math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("%g of %g: %g, want %g", c.w, c.mean, got, c.want)
		}
	}
}

// TestWaitInAnOpenLoop: there the rate is what is asked for; a wait costs time.
func TestWaitInAnOpenLoop(t *testing.T) {
	run := openRun()
	run.Profiles = []record.Profile{{Kind: record.ProfileMutex, TotalNs: 100e9,
		Frames: []record.Frame{{Function: "main.f", Ns: 100e9, Share: 1}}}}
	f := newFacts(run, nil)
	c := f.cpu.server.profileClue(nil)
	if len(c.says) == 0 || prose.Text(c.says[0].Says) != "mutex profile: main.f holds a lock that others wait for: 500 µs of each request's 640 µs, 78% of it; without that wait responses at most 500 µs faster, and 140 µs per request remain" {
		t.Errorf("%+v", c.says)
	}
	if want := "hold the lock of main.f for a shorter time, or split it into several locks: responses at most 500 µs faster"; prose.Sentence(c.next) != want {
		t.Errorf("next %q, want %q", prose.Sentence(c.next), want)
	}
}
