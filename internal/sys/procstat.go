package sys

import (
	"errors"
	"os"
)

// /proc/stat (fs/proc/stat.c, show_stat): one "cpu" line of sums, one "cpuN"
// line per CPU that is online, in ticks since boot, then counters.

// TickNs is the unit of /proc/stat and /proc/PID/stat, nanoseconds: USER_HZ is 100 on
// every architecture that Go runs on.
const TickNs = 1e9 / 100

// The categories of a cpu line, in its order.
const (
	TicksUser = iota
	TicksNice
	TicksSystem
	TicksIdle
	TicksIOWait
	TicksIRQ
	TicksSoftIRQ
	TicksSteal
	TicksGuest     // contained in user
	TicksGuestNice // contained in nice
	TickCategories
)

// Stat is one reading of /proc/stat.
type Stat struct {
	Total           CPUTicks   // the sums, including offline CPUs
	CPUs            []CPUTicks // by ascending number, without offline CPUs
	ContextSwitches uint64     // since boot
	Forks           uint64     // since boot
	Running         uint64     // runnable now
}

// CPUTicks is what one CPU did since boot.
type CPUTicks struct {
	CPU   int
	Ticks [TickCategories]uint64
}

// BusyNs returns the time spent not idle, in nanoseconds. It excludes stolen time, which is not the
// host's.
func (c *CPUTicks) BusyNs() int64 {
	t := &c.Ticks
	return int64(t[TicksUser]+t[TicksNice]+t[TicksSystem]+t[TicksIRQ]+t[TicksSoftIRQ]) * TickNs
}

// StealNs returns the time that the hypervisor took, in nanoseconds.
func (c *CPUTicks) StealNs() int64 { return int64(c.Ticks[TicksSteal]) * TickNs }

var (
	errStatCPU     = errors.New("/proc/stat: a cpu line is not a number and ten categories")
	errStatOrder   = errors.New("/proc/stat: CPUs are not in ascending order")
	errStatCounter = errors.New("/proc/stat: ctxt, processes or procs_running is missing")
)

// ReadStat reads /proc/stat.
func ReadStat() (*Stat, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, err
	}
	s := &Stat{}
	return s, ParseStat(text, s)
}

// ParseStat reads the text of /proc/stat. It reuses the slice in s.
func ParseStat(text []byte, s *Stat) error {
	*s = Stat{CPUs: s.CPUs[:0]}
	var found int
	for c := (Cursor{Text: text}); ; {
		line, ok := c.Line()
		if !ok {
			break
		}
		l := Cursor{Text: line}
		name := l.Word()
		switch {
		case string(name) == "cpu":
			if !s.Total.parse(&l) {
				return errStatCPU
			}
		case len(name) > 3 && string(name[:3]) == "cpu":
			cpu := CPUTicks{}
			n, digits := LeadingDecimal(name[3:])
			if digits != len(name)-3 || n > 1<<20 || !cpu.parse(&l) {
				return errStatCPU
			}
			cpu.CPU = int(n)
			if n := len(s.CPUs); n > 0 && s.CPUs[n-1].CPU >= cpu.CPU {
				return errStatOrder
			}
			s.CPUs = append(s.CPUs, cpu)
		case string(name) == "ctxt":
			found += counter(line[l.At:], &s.ContextSwitches)
		case string(name) == "processes":
			found += counter(line[l.At:], &s.Forks)
		case string(name) == "procs_running":
			found += counter(line[l.At:], &s.Running)
		}
	}
	if found != 3 {
		return errStatCounter
	}
	if len(s.CPUs) == 0 {
		return errStatCPU
	}
	return nil
}

func (c *CPUTicks) parse(l *Cursor) (ok bool) {
	for i := range c.Ticks {
		if c.Ticks[i], ok = l.Uint(); !ok {
			return false
		}
	}
	return true
}

// HostBusyNs returns the CPU time that the whole host has spent not idle, in nanoseconds, by the
// tick.
func HostBusyNs() (int64, error) {
	s, err := ReadStat()
	if err != nil {
		return 0, err
	}
	return s.Total.BusyNs(), nil
}
