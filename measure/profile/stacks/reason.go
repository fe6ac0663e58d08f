//go:build linux

package stacks

import (
	"slices"
	"strings"

	"ceiling/measure/profile/symbol"
	"ceiling/record"
)

// reasons are tried in this order, by substrings of the names of kernel functions, from 5.8 to
// 6.18. The more telling comes first: a read of a file that waits for the journal waits for the
// disk.
func reasons() []struct{ parts, reason string } {
	return []struct{ parts, reason string }{
		{"do_swap_page swap_readpage swap_read_folio", record.WaitSwap},
		{"fuse_dev_do_read", record.WaitEvents}, // the server of such a file system, without a request
		{"fsync sync_file jbd2_log_wait_commit jbd2_complete_transaction blkdev_issue_flush syncfs fdatawait", record.WaitSync},
		{"nfs_ rpc_wait fuse_ request_wait_answer ceph_", record.WaitNetworkFile},
		{"flock locks_lock posix_lock fcntl_setlk", record.WaitFileLock},
		{"folio_wait io_schedule wait_on_page wait_on_buffer submit_bio_wait blk_mq_get_tag rq_qos_wait balance_dirty_pages jbd2_ start_this_handle", record.WaitDisk},
		{"futex_", record.WaitLock},
		{"ep_poll do_epoll_wait", record.WaitEvents},
		{"io_cqring_wait", record.WaitEvents},
		{"do_sys_poll do_poll do_select poll_schedule", record.WaitPoll},
		{"csk_accept unix_accept", record.WaitAccept},
		{"inet_wait_for_connect inet_stream_connect unix_stream_connect unix_wait_for_peer", record.WaitConnect},
		{"stream_wait_memory sock_alloc_send sock_wait_for_wmem", record.WaitSend},
		{"tcp_recvmsg sk_wait_data skb_wait_for_more skb_recv unix_stream_read unix_stream_data_wait recvmsg", record.WaitReceive},
		{"pipe_read pipe_wait_readable wait_for_partner", record.WaitPipe},
		{"pipe_write pipe_wait_writable", record.WaitPipeFull},
		{"nanosleep", record.WaitSleep},
		{"do_wait kernel_wait", record.WaitChild},
		{"sigtimedwait sigsuspend sys_pause", record.WaitSignal},
		{"signal_stop ptrace_stop", record.WaitStopped},
		{"rwsem_ __mutex_lock __down", record.WaitKernelLock},
	}
}

// reasonOf returns what a thread waits for, from the kernel's frames.
func reasonOf(kernel []symbol.Frame) string {
	for _, r := range reasons() {
		for part := range strings.SplitSeq(r.parts, " ") {
			if slices.ContainsFunc(kernel, func(f symbol.Frame) bool { return strings.Contains(f.Name, part) }) {
				return r.reason
			}
		}
	}
	return record.WaitOther
}

// State of an off-CPU thread, and the operation of a futex (linux/futex.h).
const (
	runnable  = 0
	stateBits = 8
	futexWait = 0 // used by a mutex; a condition waits for a bit set (9)
	futexPI   = 6 // FUTEX_LOCK_PI, used by a priority-inheritance mutex
)

// futexReason distinguishes a lock from an idle thread. variable is the variable that contains the
// futex, if it has a name.
func futexReason(b *blocked, user []symbol.Frame, variable string) string {
	calls := func(parts ...string) bool {
		return slices.ContainsFunc(user, func(f symbol.Frame) bool {
			return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(f.Name, part) })
		})
	}
	switch b.space.Runtime {
	case symbol.Go:
		return record.WaitCondition // what its goroutines wait for is not visible from outside
	case symbol.Python:
		// The lock is part of the interpreter's state, which is one variable.
		if calls("take_gil") || variable == "_PyRuntime" {
			return record.WaitInterpreterLock
		}
	case symbol.Ruby:
		if calls("gvl_acquire", "thread_sched_to_running", "thread_sched_wait_running") {
			return record.WaitInterpreterLock
		}
	}
	operation := b.state >> stateBits
	switch {
	case calls("mutex_lock", "lll_lock_wait", "ObjectMonitor::enter", "rwlock_rdlock", "rwlock_wrlock", "lock_contended"):
		return record.WaitLock
	case calls("cond_wait", "cond_timedwait", "cond_clockwait", "sem_wait", "Unsafe_Park", "ObjectMonitor::wait"):
		return record.WaitCondition
	case b.space.Runtime != symbol.Java && (operation == futexWait || operation == futexPI):
		return record.WaitLock
	}
	return record.WaitCondition
}

// reason returns what a wait is for, and whether the thread is merely idle.
func (b *blocked) reason(kernel, user []symbol.Frame, variable string, served func(uint16) bool) (reason string, idle bool) {
	if b.state&(1<<stateBits-1) == runnable {
		return record.WaitCPU, false
	}
	o := &b.object
	switch reason = reasonOf(kernel); reason {
	case record.WaitPoll:
		// On one descriptor it is a receive with a timeout.
		reason = record.WaitEvents
		if o.kind == "tcp" && o.remote.IsValid() || o.kind == "unix" && o.pid != 0 {
			reason = record.WaitReceive
		}
	case record.WaitLock:
		reason = futexReason(b, user, variable)
	}
	switch reason {
	case record.WaitEvents, record.WaitAccept, record.WaitChild, record.WaitSignal, record.WaitCondition, record.WaitPipe, record.WaitOther:
		return reason, true
	case record.WaitReceive, record.WaitSend:
		// On the load's own connections they wait for the load.
		return reason, o.kind != "tcp" && o.kind != "unix" || o.accepted || o.kind == "tcp" && (!o.remote.IsValid() || served(o.local.Port()))
	case record.WaitSleep:
		return reason, b.space.Runtime == symbol.Go // sysmon's; a sleeping goroutine has no thread
	}
	return reason, housekeeper(b.thread, user) != ""
}
