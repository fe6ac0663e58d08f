package verdict

import (
	"cmp"
	"slices"
	"strings"

	"ceiling/record"
)

// Where the server's threads sleep, in words. This is the weakest of the three sources: a
// runtime's idle threads wait for a lock as well.

// threadFacts is the server's thread states as mean numbers of threads, over the samples that
// have them.
type threadFacts struct {
	looks    int // of all processes
	all      float64
	disk     float64 // uninterruptible
	inDisk   int     // different threads seen in it, at least
	stopped  float64
	frozen   []int      // processes all of whose threads were stopped in most looks
	sleeping []sleepers // the informative ones first, then by descending number
}

// sleepers are the threads of one name in one kernel function.
type sleepers struct {
	wchan, comm string
	threads     float64
}

// tell reports whether a sleep shows what a request may wait for; idle pool threads are in the
// other sleeps too.
func (s *sleepers) tell(calls bool) bool {
	of := sleepOf(s.wchan)
	switch of.kind {
	case "lock", "time", "pipe":
		return false
	}
	return of.step && !s.forClients(calls) && s.threads >= sleepTells
}

// forClients reports whether the threads wait for the next request of a client: those of a server
// without connections to others that wait for data of TCP.
func (s *sleepers) forClients(calls bool) bool {
	return !calls && sleepOf(s.wchan).kind == "data" && !strings.HasPrefix(s.wchan, "unix_")
}

// some reports whether the server has connections to other services, or may have some.
func (p *peerFacts) some() bool { return p.samples == 0 || p.cut || len(p.list) > 0 }

// says names the threads, where they are and why.
func (s *sleepers) says() record.Statement {
	collector := false
	for _, prefix := range []string{"GC Thread", "G1 ", "VM Thread", "ZWorker", "Shenandoah"} {
		collector = collector || strings.HasPrefix(s.comm, prefix)
	}
	return say("sleepers", with{"threads": s.threads, "thread": s.comm, "function": s.wchan, "collector": collector,
		"for": say("sleep."+sleepOf(s.wchan).kind, nil)})
}

// sleepsOf collects what the server's threads wait in.
func sleepsOf(f *serverSide, series *record.Series) threadFacts {
	var t threadFacts
	looks := map[int]float64{}
	var rows []*record.ProcessRow
	for _, row := range observed(f.base, series.Observed.Processes) {
		s := &row.States
		if row.Role == record.RoleSubject && f.subject.known && row.Host == f.subject.host && s.Running+s.Sleeping+s.Disk+s.Other > 0 {
			rows = append(rows, row)
			looks[row.PID]++
		}
	}
	where, inDisk, frozen := map[sleepers]float64{}, map[[2]int]bool{}, map[int]float64{}
	for _, row := range rows {
		for _, one := range row.Busiest {
			if one.State == "D" {
				inDisk[[2]int{row.PID, one.TID}] = true
			}
		}
		n, s := looks[row.PID], &row.States
		t.all += (positive(float64(s.Running)) + positive(float64(s.Sleeping)) + positive(float64(s.Disk)) + positive(float64(s.Other))) / n
		t.disk += positive(float64(s.Disk)) / n
		t.stopped += positive(float64(s.Other)) / n
		if s.Other > 0 && s.Running+s.Sleeping+s.Disk == 0 {
			frozen[row.PID]++
		}
		for _, w := range row.Waits {
			where[sleepers{wchan: w.Wchan, comm: w.Comm}] += positive(float64(w.Threads)) / n
		}
	}
	t.looks, t.inDisk = len(rows), len(inDisk)
	for pid, n := range frozen {
		if n >= mostOf*looks[pid] {
			t.frozen = append(t.frozen, pid)
		}
	}
	slices.Sort(t.frozen)
	for s, n := range where {
		if s.wchan != "" && n > 0 {
			s.threads = n
			t.sleeping = append(t.sleeping, s)
		}
	}
	calls := f.peers.some()
	slices.SortFunc(t.sleeping, func(a, b sleepers) int {
		if x, y := a.tell(calls), b.tell(calls); x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.threads, a.threads), cmp.Compare(a.wchan, b.wchan), cmp.Compare(a.comm, b.comm))
	})
	return t
}

// sleep is what a thread in a kernel function waits for.
type sleep struct {
	parts []string // of the function's name
	kind  string   // what a thread in it waits for: the suffix of its code
	step  bool     // it calls for a next step if most threads wait in it
}

// sleeps lists them in matching order. The names are those of kernels since 3.10 (get_wchan
// leaves out the scheduler's own functions).
func sleeps() []sleep {
	return []sleep{
		{[]string{"futex"}, "lock", true},
		{[]string{"ep_poll", "epoll", "poll_schedule", "do_poll", "do_sys_poll", "do_select"}, "events", false},
		{[]string{"io_cqring_wait", "io_uring"}, "completions", false},
		{[]string{"sk_wait_data", "tcp_recvmsg", "wait_woken", "inet_wait", "skb_wait", "skb_recv", "unix_stream_read", "unix_stream_data_wait",
			"recv_datagram"}, "data", true},
		{[]string{"csk_accept", "unix_accept", "skb_recv_accept"}, "connections", false},
		{[]string{"sk_stream_wait", "sock_alloc_send", "unix_wait_for_peer"}, "room", true},
		{[]string{"pipe_"}, "pipe", true},
		{[]string{"nanosleep"}, "time", true},
		{[]string{"flock", "locks_lock", "setlk", "lock_file_wait"}, "file-lock", true},
		{[]string{"nfs", "rpc_wait", "fuse", "request_wait_answer", "ceph"}, "network-files", true},
		{[]string{"folio_wait", "wait_on_page", "io_schedule", "jbd2", "ext4", "xfs", "btrfs", "blk_", "blkdev", "submit_bio", "fsync",
			"sync_inode", "wait_on_buffer", "writeback"}, "disk", true},
		{[]string{"do_wait", "wait4", "waitid"}, "child", false},
		{[]string{"sigtimedwait", "sigsuspend", "pause"}, "signal", false},
		{[]string{"signal_stop", "ptrace"}, "stopped", false},
	}
}

// sleepOf returns what a kernel function waits for.
func sleepOf(wchan string) sleep {
	for _, s := range sleeps() {
		for _, part := range s.parts {
			if strings.Contains(wchan, part) {
				return s
			}
		}
	}
	return sleep{kind: "other"}
}

// threadClue says where the server's threads sleep.
func (f *serverSide) threadClue() hint {
	var c hint
	t := &f.sleeps
	if t.looks == 0 || t.all <= 0 {
		return c
	}
	if t.stopped >= threadStopped*t.all {
		c.says = append(c.says, record.NewEvidence("series.process.states.other", t.stopped, "threads",
			say("threads.stopped", with{"threads": t.stopped, "of": t.all})))
		c.next = just("unblock.stopped", nil)
	}
	if t.disk >= threadDisk {
		c.says = append(c.says, record.NewEvidence("series.process.states.disk", t.disk, "threads",
			say("threads.disk", with{"threads": t.disk, "of": t.all})))
		if c.next == nil {
			c.next = just("threads.disk.next", nil)
		}
	}
	if len(t.sleeping) == 0 {
		return c
	}
	var where []record.Statement
	for _, s := range t.sleeping[:min(len(t.sleeping), sleepsSaid)] {
		where = append(where, s.says())
	}
	c.says = append(c.says, record.NewEvidence("series.process.waits", t.sleeping[0].threads, "threads",
		say("threads.sleep", with{"of": t.all, "where": where})))
	if s := t.strongest(f.peers.some()); s != nil && c.next == nil && len(f.tellingWaits()) == 0 { // stacks name it better
		c.next = f.sleepStep(s)
	}
	return c
}

// strongest returns the sleep that calls for a step: one that tells what requests wait for, or that of
// most threads; nil if there is none.
func (t *threadFacts) strongest(calls bool) *sleepers {
	for i := range t.sleeping {
		s := &t.sleeping[i]
		if !s.forClients(calls) && (s.tell(calls) || s.threads >= mostOf*t.all) {
			return s
		}
	}
	return nil
}

// sleepStep says what to do about a place where threads sleep; empty if it calls for nothing.
func (f *serverSide) sleepStep(s *sleepers) []record.Statement {
	of := sleepOf(s.wchan)
	if name, _ := f.serverRuntime(); !of.step || of.kind == "lock" && name == "node" { // libuv's threads wait for work
		return nil
	}
	tool := f.waitTool()
	return []record.Statement{say("sleep-next."+of.kind, with{"threads": s.threads, "of": f.sleeps.all, "thread": s.comm,
		"function": s.wchan, "tool": tool})}
}
