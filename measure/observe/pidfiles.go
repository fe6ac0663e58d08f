package observe

import (
	"bytes"
	"errors"
	"math"

	"ceiling/record"
)

// The files of /proc/PID and /proc/PID/task/TID (fs/proc/array.c).

// pidStat is what is used of /proc/PID/stat: "PID (COMM) STATE PPID ...", 52
// fields in all. COMM may contain blanks and parentheses, so it ends at the
// last ")".
type pidStat struct {
	pid, ppid    int
	comm         []byte // points into the text
	state        byte
	utime, stime uint64 // ticks of 10 ms, threads that ended included
	threads      int
	startTicks   uint64 // ticks of 10 ms since boot
	rssPages     int64
}

// ended tells a process that only waits for its parent to notice. With more
// than one thread left it is but the first that has ended.
func (s *pidStat) ended() bool {
	return (s.state == 'Z' || s.state == 'X') && s.threads <= 1
}

// Fields of /proc/PID/stat, numbered as in proc_pid_stat(5).
const (
	fieldPPID      = 4
	fieldUtime     = 14
	fieldStime     = 15
	fieldThreads   = 20
	fieldStartTime = 22
	fieldRSS       = 24
	fieldProcessor = 39
)

var errPIDStat = errors.New("/proc/PID/stat: not a number, a name in parentheses, a state letter and the fields up to rss")

// parsePIDStat reads the text of /proc/PID/stat or /proc/PID/task/TID/stat.
func parsePIDStat(text []byte, s *pidStat) error {
	c := cursor{p: text}
	pid, ok := c.uint()
	open := bytes.IndexByte(text, '(')
	end := bytes.LastIndexByte(text, ')')
	if !ok || pid > 1<<31-1 || open < 0 || end < open {
		return errPIDStat
	}
	*s = pidStat{pid: int(pid), comm: text[open+1 : end]}
	c.i = end + 1
	state := c.word()
	if len(state) != 1 {
		return errPIDStat
	}
	s.state = state[0]
	for field := fieldPPID; field <= fieldRSS; field++ {
		w := c
		v, ok := c.int()
		if !ok {
			// Some fields (vsize, rsslim) may exceed 63 bits; none that is used does.
			c = w
			if _, ok = c.uint(); !ok {
				return errPIDStat
			}
			v = -1
		}
		switch field {
		case fieldPPID:
			s.ppid = int(v)
		case fieldUtime:
			s.utime = uint64(v)
		case fieldStime:
			s.stime = uint64(v)
		case fieldThreads:
			s.threads = int(v)
		case fieldStartTime:
			s.startTicks = uint64(v)
		case fieldRSS:
			s.rssPages = v
		}
		if v < 0 && (field == fieldPPID || field == fieldUtime || field == fieldStime || field == fieldThreads || field == fieldStartTime) {
			return errPIDStat
		}
	}
	return nil
}

// lastCPU is the CPU that a process ran on last, field 39 of /proc/PID/stat; -1
// where the line is shorter.
func lastCPU(text []byte) int {
	c := cursor{p: text, i: bytes.LastIndexByte(text, ')') + 1}
	c.skip(fieldProcessor - 3) // from the state on
	v, ok := c.uint()
	if !ok || v > 1<<16 {
		return -1
	}
	return int(v)
}

// schedstat is /proc/PID/task/TID/schedstat (fs/proc/base.c,
// proc_pid_schedstat): time on a CPU and time runnable without one, ns, since
// the thread began.
type schedstat struct {
	runNs, queueNs uint64
}

var errSchedstat = errors.New("schedstat: not three numbers")

func parseSchedstat(text []byte, s *schedstat) error {
	c := cursor{p: text}
	run, ok1 := c.uint()
	queue, ok2 := c.uint()
	_, ok3 := c.uint()
	if !ok1 || !ok2 || !ok3 {
		return errSchedstat
	}
	s.runNs, s.queueNs = run, queue
	return nil
}

// pidStatus is what is used of /proc/PID/status and /proc/PID/task/TID/status.
type pidStatus struct {
	uid                    int    // real
	cpusAllowed            []byte // Cpus_allowed_list, points into the text
	voluntary, involuntary uint64 // context switches of this one thread
}

var errPIDStatus = errors.New("/proc/PID/status: Uid, Cpus_allowed_list or the context switches are missing")

func parsePIDStatus(text []byte, s *pidStatus) error {
	*s = pidStatus{}
	found := 0
	c := cursor{p: text}
	for {
		line, ok := c.line()
		if !ok {
			break
		}
		l := cursor{p: line}
		switch {
		case hasPrefix(line, "Uid:"):
			var uid uint64
			found += l.counter(&uid)
			s.uid = int(uid)
		case hasPrefix(line, "Cpus_allowed_list:"):
			l.word()
			s.cpusAllowed = l.word()
			found++
		case hasPrefix(line, "voluntary_ctxt_switches:"):
			found += l.counter(&s.voluntary)
		case hasPrefix(line, "nonvoluntary_ctxt_switches:"):
			found += l.counter(&s.involuntary)
		}
	}
	if found != 4 {
		return errPIDStatus
	}
	return nil
}

// pidIO is what is used of /proc/PID/io: bytes that went from block devices and to
// them, those taken back before they were written left out.
type pidIO struct{ read, written uint64 }

var errPIDIO = errors.New("/proc/PID/io: read_bytes or write_bytes is missing")

func parsePIDIO(text []byte, s *pidIO) error {
	*s = pidIO{}
	var cancelled uint64
	found := 0
	c := cursor{p: text}
	for {
		line, ok := c.line()
		if !ok {
			break
		}
		l := cursor{p: line}
		switch {
		case hasPrefix(line, "read_bytes:"):
			found += l.counter(&s.read)
		case hasPrefix(line, "write_bytes:"):
			found += l.counter(&s.written)
		case hasPrefix(line, "cancelled_write_bytes:"):
			l.counter(&cancelled)
		}
	}
	if found != 2 {
		return errPIDIO
	}
	s.written -= min(cancelled, s.written)
	return nil
}

// parseOpenFilesLimit reads the soft limit on open files from /proc/PID/limits:
// "Max open files    1024    4096    files". It is -1 for "unlimited" and 0 where
// there is no such line.
func parseOpenFilesLimit(text []byte) int64 {
	const name = "Max open files"
	c := cursor{p: text}
	for {
		line, ok := c.line()
		if !ok {
			return 0
		}
		if !hasPrefix(line, name) {
			continue
		}
		l := cursor{p: line[len(name):]}
		w := l.word()
		if string(w) == "unlimited" {
			return -1
		}
		v, n := leadingDecimal(w)
		if n == 0 || n != len(w) || v > math.MaxInt64 {
			return 0
		}
		return int64(v)
	}
}

// countState counts a thread by its state letter.
func countState(state byte, n *record.ThreadCount) {
	switch state {
	case 'R':
		n.Running++
	case 'S', 'I':
		n.Sleeping++
	case 'D':
		n.Disk++
	default:
		n.Other++
	}
}

// parseSocketLink reads the target of a link in /proc/PID/fd, "socket:[INODE]".
func parseSocketLink(link []byte) (inode uint64, ok bool) {
	const prefix = "socket:["
	if !hasPrefix(link, prefix) {
		return 0, false
	}
	v, n := leadingDecimal(link[len(prefix):])
	rest := link[len(prefix)+n:]
	return v, n > 0 && len(rest) == 1 && rest[0] == ']'
}
