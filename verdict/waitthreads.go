package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ceiling/record"
)

// Where the server's threads sleep, in words. It says least of the three: a
// runtime's idle threads wait for a lock as well.

// threadFacts is what the server's threads did in the samples that looked, as
// mean numbers of threads.
type threadFacts struct {
	looks    int // of all processes
	all      float64
	disk     float64 // uninterruptible
	stopped  float64
	sleeping []sleepers // those that tell before the others, most first
}

// sleepers are the threads of one name in one kernel function.
type sleepers struct {
	wchan, comm string
	threads     float64
}

// tell tells a sleep that says what a request may wait for, from one in which the
// idle threads of a pool are as well.
func (s *sleepers) tell() bool {
	switch of := sleepOf(s.wchan); of.says {
	case "a lock, or work to do", "time to pass", "a pipe":
		return false
	default:
		return of.step != "" && s.threads >= sleepTells
	}
}

// says names the threads, where they are and why.
func (s *sleepers) says() string {
	why := "for " + sleepOf(s.wchan).says
	for _, prefix := range []string{"GC Thread", "G1 ", "VM Thread", "ZWorker", "Shenandoah"} {
		if strings.HasPrefix(s.comm, prefix) {
			why = "of the garbage collector"
		}
	}
	if s.comm != "" {
		return fmt.Sprintf("%.3g %s in %s (%s)", s.threads, s.comm, s.wchan, why)
	}
	return fmt.Sprintf("%.3g in %s (%s)", s.threads, s.wchan, why)
}

// sleepsOf gathers what the server's threads wait in.
func sleepsOf(f *facts, series *record.Series) threadFacts {
	var t threadFacts
	looks := map[int]float64{}
	var rows []*record.ProcessRow
	for _, row := range observed(f, series.Observed.Processes) {
		s := &row.States
		if row.Role == record.RoleSubject && f.subject.known && row.Host == f.subject.host && s.Running+s.Sleeping+s.Disk+s.Other > 0 {
			rows = append(rows, row)
			looks[row.PID]++
		}
	}
	where := map[sleepers]float64{}
	for _, row := range rows {
		n, s := looks[row.PID], &row.States
		t.all += (positive(float64(s.Running)) + positive(float64(s.Sleeping)) + positive(float64(s.Disk)) + positive(float64(s.Other))) / n
		t.disk += positive(float64(s.Disk)) / n
		t.stopped += positive(float64(s.Other)) / n
		for _, w := range row.Waits {
			where[sleepers{wchan: w.Wchan, comm: w.Comm}] += positive(float64(w.Threads)) / n
		}
	}
	t.looks = len(rows)
	for s, n := range where {
		if s.wchan != "" && n > 0 {
			s.threads = n
			t.sleeping = append(t.sleeping, s)
		}
	}
	slices.SortFunc(t.sleeping, func(a, b sleepers) int {
		if x, y := a.tell(), b.tell(); x != y {
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
	says  string
	step  string // what it asks for, where most threads wait for it; "" nothing
}

// sleeps in the order in which they are tried. The names are those of kernels
// since 3.10 (get_wchan leaves out the scheduler's own functions).
func sleeps() []sleep {
	return []sleep{
		{[]string{"futex"}, "a lock, or work to do", "see which lock, or what work is waited for"},
		{[]string{"ep_poll", "epoll", "poll_schedule", "do_poll", "do_sys_poll", "do_select"}, "events on their sockets", ""},
		{[]string{"io_cqring_wait", "io_uring"}, "completions of io_uring", ""},
		{[]string{"sk_wait_data", "tcp_recvmsg", "wait_woken", "inet_wait", "skb_wait", "skb_recv", "unix_stream_read", "unix_stream_data_wait",
			"recv_datagram"}, "data from a socket", "see which service its threads wait for: one request at a time each"},
		{[]string{"csk_accept", "unix_accept", "skb_recv_accept"}, "new connections", ""},
		{[]string{"sk_stream_wait", "sock_alloc_send", "unix_wait_for_peer"}, "room to send", "see which peer does not read what it sends"},
		{[]string{"pipe_"}, "a pipe", "see what writes into the pipe that its threads wait for"},
		{[]string{"nanosleep"}, "time to pass", "see why its threads sleep: a pause, or trying again"},
		{[]string{"flock", "locks_lock", "setlk", "lock_file_wait"}, "a lock on a file", "see what else locks that file"},
		{[]string{"nfs", "rpc_wait", "fuse", "request_wait_answer", "ceph"}, "a network file system", "see what its threads read or write there"},
		{[]string{"folio_wait", "wait_on_page", "io_schedule", "jbd2", "ext4", "xfs", "btrfs", "blk_", "blkdev", "submit_bio", "fsync",
			"sync_inode", "wait_on_buffer", "writeback"}, "the disk", "see what its threads read or write, and how often they sync"},
		{[]string{"do_wait", "wait4", "waitid"}, "a child process", ""},
		{[]string{"sigtimedwait", "sigsuspend", "pause"}, "a signal", ""},
		{[]string{"signal_stop", "ptrace"}, "to be resumed (stopped)", ""},
	}
}

// sleepOf puts a kernel function into words.
func sleepOf(wchan string) sleep {
	for _, s := range sleeps() {
		for _, part := range s.parts {
			if strings.Contains(wchan, part) {
				return s
			}
		}
	}
	return sleep{says: "something"}
}

// threadClue says where the server's threads sleep.
func (f *facts) threadClue() clue {
	var c clue
	t := &f.sleeps
	if t.looks == 0 || t.all <= 0 {
		return c
	}
	if t.stopped >= threadStopped*t.all {
		c.says = append(c.says, record.NewEvidence("series.process.states.other", t.stopped, "threads",
			"%.3g of its %.3g threads were stopped on average, by a signal or a debugger", t.stopped, t.all))
		c.next = "find what stopped its threads: a signal (SIGSTOP, SIGTSTP), a debugger, a frozen cgroup"
	}
	if t.disk >= threadDisk {
		c.says = append(c.says, record.NewEvidence("series.process.states.disk", t.disk, "threads",
			"%.3g of its %.3g threads waited for the disk or the like (state D) on average", t.disk, t.all))
		c.next = join(c.next, "see what its threads read or write, and how often they sync: some wait for the disk (state D)")
	}
	if len(t.sleeping) == 0 {
		return c
	}
	var parts []string
	for _, s := range t.sleeping[:min(len(t.sleeping), sleepsSaid)] {
		parts = append(parts, s.says())
	}
	c.says = append(c.says, record.NewEvidence("series.process.waits", t.sleeping[0].threads, "threads", "where its threads sleep, of %.3g: %s", t.all,
		strings.Join(parts, ", ")))
	if top := t.sleeping[0]; c.next == "" && (top.tell() || top.threads >= mostOf*t.all) {
		s := sleepOf(top.wchan)
		if s.step != "" {
			threads := "threads"
			if top.comm != "" {
				threads += ", " + top.comm + ","
			}
			c.next = fmt.Sprintf("%s (%.3g of %.3g %s in %s)", s.step, top.threads, t.all, threads, top.wchan)
			if strings.Contains(top.wchan, "futex") {
				c.next += ": " + f.waitTool()
			}
		}
	}
	return c
}
