//go:build linux

package stacks

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/measure/profile/symbol"
	"ceiling/record"
)

// waitForever waits in four ways, each in a thread of its own: for the answers of a
// peer that takes its time, for a lock on a file that one of two keeps for 10 ms,
// and for a file to be synced.
func waitForever() {
	address, dir := os.Getenv("STACKS_PEER"), os.Getenv("STACKS_DIR")
	die := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	go func() {
		c, err := net.Dial("tcp", address)
		die(err)
		f, err := c.(*net.TCPConn).File() // its reads block the thread
		die(err)
		die(syscall.SetNonblock(int(f.Fd()), false))
		for b := []byte{0}; ; {
			_, err := syscall.Write(int(f.Fd()), b)
			die(err)
			_, err = syscall.Read(int(f.Fd()), b)
			die(err)
		}
	}()
	for range 2 {
		go func() {
			f, err := os.OpenFile(filepath.Join(dir, "locked"), os.O_CREATE|os.O_RDWR, 0o644)
			die(err)
			for {
				die(syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
				time.Sleep(10 * time.Millisecond)
				die(syscall.Flock(int(f.Fd()), syscall.LOCK_UN))
				runtime.Gosched()
			}
		}()
	}
	go func() {
		f, err := os.OpenFile(filepath.Join(dir, "synced"), os.O_CREATE|os.O_RDWR, 0o644)
		die(err)
		for {
			_, err := f.WriteAt([]byte{1}, 0)
			die(err)
			die(f.Sync())
		}
	}()
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the test ends
	os.Exit(0)
}

// slowPeer answers every byte after a time.
func slowPeer(t *testing.T, after time.Duration) string {
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
				for b := make([]byte, 1); ; {
					if _, err := io.ReadFull(c, b); err != nil {
						return
					}
					time.Sleep(after)
					if _, err := c.Write(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// offSamplerOf reads kernel events, which takes privileges and BTF.
func offSamplerOf(t *testing.T, served uint16) *OffSampler {
	t.Helper()
	needs.Root(t)
	o, err := NewOffSampler(NewTables(), served, 1)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// observed runs a sampler until it has seen some bursts.
func observed(t *testing.T, served uint16, pid int) *record.Stacks {
	t.Helper()
	o := offSamplerOf(t, served)
	o.Start(nil, []int{pid})
	time.Sleep(4 * time.Second) // eight bursts, fewer where the machine is busy
	o.Stop()
	s := Summarize(NewTables(), nil, o).Stacks
	if s.OffCPU.Bursts == 0 || o.err != nil {
		t.Fatalf("%d bursts, %v", s.OffCPU.Bursts, o.err)
	}
	t.Logf("%d bursts, %d switches, cost %d + %d ns", s.OffCPU.Bursts, s.OffCPU.Switches, s.OffCPU.CostNs, s.OffCPU.KernelNs)
	return s
}

// threadsIn sums the threads that are in a wait.
func threadsIn(s *record.Stacks, reason, object string) (threads float64, idle bool) {
	for _, w := range s.OffCPU.Waits {
		if w.Reason == reason && w.Object == object {
			threads += w.Threads
			idle = w.Idle
		}
	}
	return threads, idle
}

// TestPlantedWaits: a thread that does nothing but wait is in its wait all the time.
func TestPlantedWaits(t *testing.T) {
	needs.Quiet(t)
	peer := slowPeer(t, 20*time.Millisecond)
	dir, err := os.MkdirTemp(".", "planted") // on the disk that the source is on
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if dir, err = filepath.Abs(dir); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STACKS_PEER", peer)
	t.Setenv("STACKS_DIR", dir)
	pid, _ := plant(t, "wait")
	s := observed(t, 0, pid)
	// The rest of its time it is on the CPU, or wants to be.
	if got, idle := threadsIn(s, record.WaitReceive, peer); got < 0.7 || got > 1.05 || idle {
		t.Errorf("%.2f threads receive from %s (idle %v), planted is 1", got, peer, idle)
	}
	if got, _ := threadsIn(s, record.WaitFileLock, dir+"/locked"); got < 0.6 || got > 1.1 {
		t.Errorf("%.2f threads wait for the lock on a file, planted is 1: one of two has it", got)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	const tmpfs = 0x01021994 // whose syncs do nothing
	if got, _ := threadsIn(s, record.WaitSync, dir+"/synced"); st.Type != tmpfs && (got < 0.2 || got > 1.05) {
		t.Errorf("%.2f threads sync a file, planted is nearly 1", got)
	}
	for _, w := range s.OffCPU.Waits {
		if w.Reason == record.WaitLock || w.Reason == record.WaitInterpreterLock {
			t.Errorf("Go's idle threads are taken for %+v", w)
		}
	}
	if t.Failed() {
		for _, w := range s.OffCPU.Waits {
			t.Logf("%+v", w)
		}
	}
}

// TestInterpreterLock: of four Python threads that compute, one runs and three wait
// for their interpreter's lock, whether or not Python has frame pointers.
func TestInterpreterLock(t *testing.T) {
	needs.Program(t, "python3")
	cmd := exec.Command("python3", "-c", `
import sys, threading
def compute():
    x = 0
    while True:
        x = (x * 7 + 3) % 1000003
for i in range(4):
    threading.Thread(target=compute, daemon=True).start()
print("ready", flush=True)
sys.stdin.read(1)
`)
	pid := begin(t, cmd)
	s := observed(t, 0, pid)
	got, idle := 0.0, false
	for _, w := range s.OffCPU.Waits {
		if w.Reason == record.WaitInterpreterLock {
			got, idle = got+w.Threads, idle || w.Idle
		}
	}
	if got < 1.8 || got > 3.3 || idle || s.Processes[0].Runtime != symbol.Python {
		t.Errorf("%.2f threads wait for the interpreter's lock, planted are 3 (those that wake want a CPU too): %+v", got, s.OffCPU.Waits)
	}
}

// TestServedConnectionsAreIdle: who waits on a connection of the load waits for it.
func TestServedConnectionsAreIdle(t *testing.T) {
	b := &blocked{counted: counted{space: &symbol.Space{Runtime: symbol.Native}}, state: 1}
	kernel := []symbol.Frame{{Name: "sk_wait_data"}, {Name: "tcp_recvmsg"}}
	check := func(what string, o object, reason string, idle bool) {
		t.Helper()
		b.object = o
		if r, i := b.reason(kernel, nil, "", func(p uint16) bool { return p == 8080 }); r != reason || i != idle {
			t.Errorf("%s: %s, idle %v", what, r, i)
		}
	}
	local, other := addr(t, "127.0.0.1:8080"), addr(t, "127.0.0.1:40000")
	check("the load's", object{kind: "tcp", local: local, remote: other}, record.WaitReceive, true)
	check("a database's", object{kind: "tcp", local: other, remote: addr(t, "127.0.0.1:5432")}, record.WaitReceive, false)
	check("not known", object{}, record.WaitReceive, true)
	kernel = []symbol.Frame{{Name: "do_sys_poll"}}
	check("poll on one connection", object{kind: "tcp", local: other, remote: addr(t, "127.0.0.1:5432")}, record.WaitReceive, false)
	check("poll on many", object{}, record.WaitEvents, true)
	kernel = []symbol.Frame{{Name: "futex_do_wait"}, {Name: "__x64_sys_futex"}}
	check("a mutex", object{}, record.WaitLock, false)
	b.state = 9<<stateBits | 1
	check("a condition", object{}, record.WaitCondition, true)
	b.space.Runtime = symbol.Python
	if r, idle := b.reason(kernel, nil, "_PyRuntime", nil); r != record.WaitInterpreterLock || idle {
		t.Errorf("a lock in _PyRuntime: %s, %v", r, idle)
	}
	b.state = runnable
	check("preempted", object{}, record.WaitCPU, false)
}

// TestReasons: what the kernels from 5.8 to 6.18 call them.
func TestReasons(t *testing.T) {
	for frames, want := range map[string]string{
		"io_schedule_timeout submit_bio_wait blkdev_issue_flush ext4_sync_file do_fsync": record.WaitSync,
		"folio_wait_bit_common filemap_read ext4_file_read_iter":                         record.WaitDisk,
		"ep_poll do_epoll_wait __x64_sys_epoll_wait":                                     record.WaitEvents,
		"schedule_hrtimeout_range poll_schedule_timeout.constprop.0 do_sys_poll":         record.WaitPoll,
		"inet_csk_accept inet_accept":                                                    record.WaitAccept,
		"wait_woken sk_stream_wait_memory tcp_sendmsg_locked":                            record.WaitSend,
		"hrtimer_nanosleep common_nsleep":                                                record.WaitSleep,
		"locks_lock_inode_wait __do_sys_flock":                                           record.WaitFileLock,
		"anon_pipe_read vfs_read":                                                        record.WaitPipe,
		"rwsem_down_read_slowpath down_read exc_page_fault":                              record.WaitKernelLock,
		"io_schedule folio_wait_bit_common do_swap_page":                                 record.WaitSwap,
		"unix_stream_data_wait unix_stream_read_generic":                                 record.WaitReceive,
		"request_wait_answer fuse_simple_request fuse_fsync_common do_fsync":             record.WaitSync,
		"rpc_wait_bit_killable nfs_file_fsync do_fsync":                                  record.WaitSync,
		"request_wait_answer fuse_simple_request fuse_file_read_iter":                    record.WaitNetworkFile,
		"fuse_dev_do_read fuse_dev_read vfs_read":                                        record.WaitEvents,
		"kthread_worker_fn":                                                              record.WaitOther,
	} {
		var list []symbol.Frame
		for _, name := range strings.Fields(frames) {
			list = append(list, symbol.Frame{Name: name})
		}
		if got := reasonOf(list); got != want {
			t.Errorf("%s: %s, want %s", frames, got, want)
		}
	}
}

func TestParseSyscall(t *testing.T) {
	call, args, ok := parseSyscall([]byte("202 0x55d0 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f2e\n"))
	if want := [6]uint64{0x55d0, 0x189, 0, 0, 0, 0xffffffff}; !ok || call != 202 || args != want {
		t.Errorf("%d %x %v", call, args, ok)
	}
	for _, text := range []string{"running\n", "-1 0x7ffd 0x7f2e\n", "", "x 1 2 3 4 5 6"} {
		if _, _, ok := parseSyscall([]byte(text)); ok {
			t.Errorf("%q is a system call", text)
		}
	}
	got := parseKernelStack([]byte("[<0>] futex_do_wait+0x35/0x60\n[<0>] do_futex+0xc4/0x190\nnothing\n"))
	if want := []string{"futex_do_wait", "do_futex"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

func FuzzProcTexts(f *testing.F) {
	f.Add([]byte("202 0x55d0 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f2e\n"))
	f.Add([]byte("[<0>] futex_do_wait+0x35/0x60\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		parseSyscall(text)
		if n := parseKernelStack(text); len(n) > framesMax {
			t.Errorf("%d frames", len(n))
		}
	})
}

// TestNothingIsLeftOff: descriptors, of one that ran and of one that did not.
func TestNothingIsLeftOff(t *testing.T) {
	offSamplerOf(t, 0).Stop()
	before, tables := openFiles(t), NewTables()
	for range 2 {
		o := offSamplerOf(t, 0)
		o.Start(nil, []int{os.Getpid(), 1 << 30})
		time.Sleep(200 * time.Millisecond)
		o.Stop()
		Summarize(tables, nil, o)
	}
	tables.Close()
	if after := openFiles(t); after != before {
		t.Errorf("%d open files, %d before", after, before)
	}
}
