package sys

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// The files of /proc/PID and /proc/PID/task/TID (fs/proc/array.c).

// PIDStat has the fields in use of /proc/PID/stat: "PID (COMM) STATE PPID ...", 52 fields in all.
// COMM may contain blanks and parentheses, so it ends at the last ")".
type PIDStat struct {
	PID, Parent, Group     int
	Comm                   []byte // points into the text
	State                  byte
	UserTicks, SystemTicks uint64 // of 10 ms, including ended threads
	ReapedTicks            uint64 // of children that ended and were waited for, user and system
	Threads                int
	StartTicks             uint64 // since boot: with the PID a process's identity
	RSSPages               int64
}

// Ended reports whether a process is a zombie. If it has other threads, only its first one has
// ended.
func (s *PIDStat) Ended() bool {
	return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1
}

// Fields of /proc/PID/stat, numbered as in proc_pid_stat(5).
const (
	fieldPPID      = 4
	fieldGroup     = 5
	fieldUtime     = 14
	fieldStime     = 15
	fieldCutime    = 16
	fieldCstime    = 17
	fieldThreads   = 20
	fieldStartTime = 22
	fieldRSS       = 24
	fieldProcessor = 39
)

var errPIDStat = errors.New("/proc/PID/stat: not a number, a name in parentheses, a state letter and the fields up to rss")

// ReadPIDStat reads /proc/PID/stat.
func ReadPIDStat(pid int) (*PIDStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	s := &PIDStat{}
	return s, ParsePIDStat(text, s)
}

// Gone reports whether an error means that a process ended while its files were read.
func Gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// Processes reads /proc/PID/stat of all processes, by PID; it leaves out those that end in the
// meantime or may not be read.
func Processes() (map[int]*PIDStat, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := map[int]*PIDStat{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // not a process
		}
		one, err := ReadPIDStat(pid)
		switch {
		case Gone(err), errors.Is(err, fs.ErrPermission):
		case err != nil:
			return nil, err
		default:
			all[pid] = one
		}
	}
	return all, nil
}

// ParsePIDStat parses /proc/PID/stat or /proc/PID/task/TID/stat.
func ParsePIDStat(text []byte, s *PIDStat) error {
	c := Cursor{Text: text}
	pid, ok := c.Uint()
	open := bytes.IndexByte(text, '(')
	end := bytes.LastIndexByte(text, ')')
	if !ok || pid > 1<<31-1 || open < 0 || end < open {
		return errPIDStat
	}
	*s = PIDStat{PID: int(pid), Comm: text[open+1 : end]}
	c.At = end + 1
	state := c.Word()
	if len(state) != 1 {
		return errPIDStat
	}
	s.State = state[0]
	for field := fieldPPID; field <= fieldRSS; field++ {
		w := c
		v, ok := c.Int()
		if !ok {
			// Some fields (vsize, rsslim) may exceed 63 bits; none of those in use does.
			c = w
			if _, ok = c.Uint(); !ok {
				return errPIDStat
			}
			v = -1
		}
		if !s.set(field, v) {
			return errPIDStat
		}
	}
	return nil
}

// set stores a field, if it is in use; false: it cannot be negative.
func (s *PIDStat) set(field int, v int64) bool {
	switch field {
	case fieldPPID:
		s.Parent = int(v)
	case fieldGroup:
		s.Group = int(v)
	case fieldUtime:
		s.UserTicks = uint64(v)
	case fieldStime:
		s.SystemTicks = uint64(v)
	case fieldCutime, fieldCstime:
		s.ReapedTicks += uint64(v)
	case fieldThreads:
		s.Threads = int(v)
	case fieldStartTime:
		s.StartTicks = uint64(v)
	case fieldRSS:
		s.RSSPages = v
		return true
	default:
		return true
	}
	return v >= 0
}

// LastCPU returns the CPU that a process last ran on, field 39 of /proc/PID/stat; -1 if the line is
// shorter.
func LastCPU(text []byte) int {
	c := Cursor{Text: text, At: bytes.LastIndexByte(text, ')') + 1}
	c.Skip(fieldProcessor - 3) // from the state on
	v, ok := c.Uint()
	if !ok || v > 1<<16 {
		return -1
	}
	return int(v)
}

// Schedstat is /proc/PID/task/TID/schedstat (fs/proc/base.c,
// proc_pid_schedstat): time on a CPU and time runnable without one, ns, since
// the thread began.
type Schedstat struct {
	RunNs, QueueNs uint64
}

var errSchedstat = errors.New("schedstat: not three numbers")

// ParseSchedstat reads the text of a schedstat.
func ParseSchedstat(text []byte, s *Schedstat) error {
	c := Cursor{Text: text}
	run, ok1 := c.Uint()
	queue, ok2 := c.Uint()
	_, ok3 := c.Uint()
	if !ok1 || !ok2 || !ok3 {
		return errSchedstat
	}
	s.RunNs, s.QueueNs = run, queue
	return nil
}

// PIDStatus has the fields in use of /proc/PID/status and /proc/PID/task/TID/status.
type PIDStatus struct {
	UID                    int    // real
	CPUsAllowed            []byte // Cpus_allowed_list, points into the text
	Voluntary, Involuntary uint64 // context switches of this one thread
}

var errPIDStatus = errors.New("/proc/PID/status: Uid, Cpus_allowed_list or the context switches are missing")

// ParsePIDStatus reads the text of a status.
func ParsePIDStatus(text []byte, s *PIDStatus) error {
	*s = PIDStatus{}
	found := 0
	for name, value := range Fields(text) {
		switch string(name) {
		case "Uid":
			var uid uint64
			found += counter(value, &uid)
			s.UID = int(uid)
		case "Cpus_allowed_list":
			s.CPUsAllowed = value
			found++
		case "voluntary_ctxt_switches":
			found += counter(value, &s.Voluntary)
		case "nonvoluntary_ctxt_switches":
			found += counter(value, &s.Involuntary)
		}
	}
	if found != 4 {
		return errPIDStatus
	}
	return nil
}

// PIDIO has the fields in use of /proc/PID/io, bytes since the process began. Read and Written
// count block device I/O, without what was truncated before write-back.
type PIDIO struct{ Read, Written uint64 }

var errPIDIO = errors.New("/proc/PID/io: read_bytes or write_bytes is missing")

// ParsePIDIO reads the text of /proc/PID/io.
func ParsePIDIO(text []byte, s *PIDIO) error {
	*s = PIDIO{}
	var cancelled uint64
	found := 0
	for name, value := range Fields(text) {
		switch string(name) {
		case "read_bytes":
			found += counter(value, &s.Read)
		case "write_bytes":
			found += counter(value, &s.Written)
		case "cancelled_write_bytes":
			counter(value, &cancelled)
		}
	}
	if found != 2 {
		return errPIDIO
	}
	s.Written -= min(cancelled, s.Written)
	return nil
}
