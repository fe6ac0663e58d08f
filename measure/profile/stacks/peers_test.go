//go:build linux

package stacks

import (
	"net"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/measure/profile/symbol"
	"ceiling/record"
)

// TestPeersAreApart: what another server runs and waits for is not the server's, and
// its children belong to it.
func TestPeersAreApart(t *testing.T) {
	needs.Quiet(t)
	needs.Root(t)
	dir, err := os.MkdirTemp(".", "planted")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if dir, err = filepath.Abs(dir); err != nil {
		t.Fatal(err)
	}
	asked := slowPeer(t, 20*time.Millisecond)
	t.Setenv("STACKS_PEER", asked)
	t.Setenv("STACKS_DIR", dir)
	database, _ := plant(t, "wait")
	server, _ := plant(t, "burn")

	cpu, err := NewCPUSampler([]int{server}, 1)
	if err != nil {
		t.Fatal(err)
	}
	off := offSamplerOf(t, 0)
	if err := cpu.Start(); err != nil {
		t.Fatal(err)
	}
	off.Start(cpu, []int{server})
	cpu.WatchPeer(database, 1)
	cpu.Answers(database, "127.0.0.1:5432")
	time.Sleep(2500 * time.Millisecond)
	off.Stop()
	cpu.Stop()
	s := Summarize(NewTables(), cpu, off).Stacks
	if off.err != nil || cpu.err != nil || s.OffCPU.Bursts == 0 {
		t.Fatal(off.err, cpu.err)
	}
	if len(s.Peers) != 1 || s.Peers[0].PID != database || s.Peers[0].Runtime != symbol.Go {
		t.Fatalf("peers %+v", s.Peers)
	}
	if len(s.Processes) != 1 || s.Processes[0].PID != server {
		t.Errorf("the server's processes are %+v", s.Processes)
	}
	for _, w := range s.OffCPU.Waits {
		if w.PID != server {
			t.Errorf("a wait of process %d counts as the server's: %+v", w.PID, w)
		}
	}
	peer := &record.Stacks{OffCPU: &record.OffCPUStacks{Waits: s.Peers[0].Waits}}
	if got, idle := threadsIn(peer, record.WaitReceive, asked); got < 0.6 || got > 1.05 || idle {
		t.Errorf("%.2f threads of the peer receive (idle %v), planted is 1", got, idle)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	const tmpfs = 0x01021994
	if got, _ := threadsIn(peer, record.WaitSync, dir+"/synced"); st.Type != tmpfs && (got < 0.2 || got > 1.05) {
		t.Errorf("%.2f threads of the peer sync a file, planted is nearly 1", got)
	}
	// The server computes all the time; its peer hardly.
	all := 0.0
	for _, p := range s.CPU.Packages {
		all += p.Share
	}
	if all < 0.99 || all > 1.01 || s.CPU.Samples == 0 || s.Peers[0].Samples > s.CPU.Samples {
		t.Errorf("shares of the server's %d samples sum up to %.2f, its peer has %d", s.CPU.Samples, all, s.Peers[0].Samples)
	}
}

// TestAcceptedConnectionsAreIdle: a server waits for the next question on a connection
// that it accepted, and for an answer on one that it made.
func TestAcceptedConnectionsAreIdle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	made, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	for c, want := range map[net.Conn]bool{made: false, accepted: true} {
		raw, err := c.(*net.UnixConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			if o := objectOf(os.Getpid(), int(fd)); o.accepted != want || o.name != path || o.pid != os.Getpid() {
				t.Errorf("%+v, want accepted %v", o, want)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	b := &blocked{counted: counted{space: &symbol.Space{Runtime: symbol.Native}}, state: 1}
	kernel := []symbol.Frame{{Name: "unix_stream_data_wait"}, {Name: "unix_stream_read_generic"}}
	none := func(uint16) bool { return false }
	for _, accepted := range []bool{true, false} {
		b.object = object{kind: "unix", name: path, accepted: accepted, pid: 7}
		if r, idle := b.reason(kernel, nil, "", none); r != record.WaitReceive || idle != accepted {
			t.Errorf("accepted %v: %s, idle %v", accepted, r, idle)
		}
	}
}

// TestWhoseProcessesAre: a peer's children are its own, and the server's never become
// a peer's.
func TestWhoseProcessesAre(t *testing.T) {
	m := newMembers()
	m.watch(10)
	m.watchPeer(20, 1)
	m.watchPeer(21, 20)
	m.watchPeer(10, 20)
	m.answers(20, "127.0.0.1:5432")
	m.answers(99, "127.0.0.1:1")
	m.forked(22, 21)
	m.forked(11, 10)
	for pid, root := range map[int]int{10: 0, 11: 0, 20: 20, 21: 20, 22: 20} {
		got := 0
		if p := m.peerOf(pid); p != nil {
			got = p.root
		}
		if got != root {
			t.Errorf("process %d belongs to %d, want %d", pid, got, root)
		}
	}
	if got, want := m.pids(), []int{10, 11, 20, 21, 22}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if p := m.peerOf(22); !p.ports[5432] || p.ports[1] {
		t.Errorf("it answers on %v", p.ports)
	}
	m.spaces[20].Comm = "postgres"
	w := record.StackWait{Object: "127.0.0.1:5432"}
	if m.nameOther(&w); w.Process != "postgres" || w.ProcessPID != 20 {
		t.Errorf("%+v", w)
	}
	m.forked(20, 1) // the number is another's now
	if m.peerOf(20) != nil || m.of(20) != nil {
		t.Error("a new process has an old one's place")
	}
}
