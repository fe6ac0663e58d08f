package observe

import (
	"errors"
	"fmt"

	"ceiling/record"
)

// /proc/stat (fs/proc/stat.c, show_stat): one "cpu" line of sums, one "cpuN"
// line per CPU that is online, in ticks of 10 ms since boot, then counters.

// categories of a cpu line, in its order.
const (
	catUser = iota
	catNice
	catSystem
	catIdle
	catIOWait
	catIRQ
	catSoftIRQ
	catSteal
	catGuest     // contained in user
	catGuestNice // contained in nice
	categories

	// exclusive is how many of them add up to the elapsed time.
	exclusive = catSteal + 1
)

func categoryName(c int) string {
	return [categories]string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"}[c]
}

// statSample is one reading of /proc/stat.
type statSample struct {
	cpus      []cpuTicks // by ascending number; CPUs that are offline are missing
	ctxt      uint64     // context switches since boot
	processes uint64     // forks since boot
	running   uint64     // runnable now
}

type cpuTicks struct {
	cpu   int
	ticks [categories]uint64
}

var (
	errStatCPU     = errors.New("/proc/stat: a cpu line is not a number and ten categories")
	errStatOrder   = errors.New("/proc/stat: CPUs are not in ascending order")
	errStatCounter = errors.New("/proc/stat: ctxt, processes or procs_running is missing")
)

// parseStat reads the text of /proc/stat. It reuses the slice in s.
func parseStat(text []byte, s *statSample) error {
	s.cpus = s.cpus[:0]
	var found int
	c := cursor{p: text}
	for {
		line, ok := c.line()
		if !ok {
			break
		}
		l := cursor{p: line}
		switch {
		case hasPrefix(line, "cpu "):
			// The sums say nothing that the CPUs do not, and hide that one of them came or went.
		case hasPrefix(line, "cpu"):
			var cpu cpuTicks
			if !parseCPULine(line, &cpu) {
				return errStatCPU
			}
			if n := len(s.cpus); n > 0 && s.cpus[n-1].cpu >= cpu.cpu {
				return errStatOrder
			}
			s.cpus = append(s.cpus, cpu)
		case hasPrefix(line, "ctxt "):
			found += l.counter(&s.ctxt)
		case hasPrefix(line, "processes "):
			found += l.counter(&s.processes)
		case hasPrefix(line, "procs_running "):
			found += l.counter(&s.running)
		}
	}
	if found != 3 {
		return errStatCounter
	}
	if len(s.cpus) == 0 {
		return errStatCPU
	}
	return nil
}

// counter reads "name value" and returns 1, or 0 when it is not that.
func (c *cursor) counter(v *uint64) int {
	c.word()
	n, ok := c.uint()
	if !ok {
		return 0
	}
	*v = n
	return 1
}

func parseCPULine(line []byte, cpu *cpuTicks) bool {
	c := cursor{p: line, i: len("cpu")}
	n, ok := c.uint()
	if !ok || n > 1<<20 {
		return false
	}
	cpu.cpu = int(n)
	for i := range cpu.ticks {
		if cpu.ticks[i], ok = c.uint(); !ok {
			return false
		}
	}
	return true
}

// coreDelta is what one CPU did between two readings widthNs apart. A row that
// proves nothing is marked, with its numbers as they were read: a category
// that went backwards (iowait does: its owner CPU may change while a request
// is out), or a sum further from the elapsed time than a tick for each
// category, which is what cutting them all down to whole ticks can lose.
func coreDelta(prev, cur *cpuTicks, widthNs int64) record.CoreTicks {
	var d [categories]int64
	backwards := -1
	for i := range d {
		d[i] = int64(cur.ticks[i] - prev.ticks[i])
		if d[i] < 0 && backwards < 0 {
			backwards = i
		}
	}
	row := record.CoreTicks{
		CPU: cur.cpu, User: d[catUser], Nice: d[catNice], System: d[catSystem], Idle: d[catIdle], IOWait: d[catIOWait],
		IRQ: d[catIRQ], SoftIRQ: d[catSoftIRQ], Steal: d[catSteal], Guest: d[catGuest], GuestNice: d[catGuestNice],
	}
	const tickNs = 1e9 / record.TicksPerSecond
	elapsed := (widthNs + tickNs/2) / tickNs
	row.Missing = elapsed - row.Accounted()
	switch {
	case backwards >= 0:
		row.Bad = fmt.Sprintf("%s went backwards by %d ticks", categoryName(backwards), -d[backwards])
	case row.Missing > exclusive || row.Missing < -exclusive:
		row.Bad = fmt.Sprintf("categories add to %d ticks of %d elapsed", row.Accounted(), elapsed)
	}
	return row
}

// statDelta fills row with the difference of two readings; CPUs are matched by
// their number, since one may have gone offline or come back in between.
func statDelta(prev, cur *statSample, widthNs int64, row *record.CPURow) {
	row.Cores, row.Came, row.Went = row.Cores[:0], row.Came[:0], row.Went[:0]
	row.ContextSwitches = cur.ctxt - prev.ctxt
	row.Forks = cur.processes - prev.processes
	row.Running = int(cur.running)
	i, j := 0, 0
	for i < len(prev.cpus) || j < len(cur.cpus) {
		switch {
		case j == len(cur.cpus) || i < len(prev.cpus) && prev.cpus[i].cpu < cur.cpus[j].cpu:
			row.Went = append(row.Went, prev.cpus[i].cpu)
			i++
		case i == len(prev.cpus) || cur.cpus[j].cpu < prev.cpus[i].cpu:
			row.Came = append(row.Came, cur.cpus[j].cpu)
			j++
		default:
			row.Cores = append(row.Cores, coreDelta(&prev.cpus[i], &cur.cpus[j], widthNs))
			i++
			j++
		}
	}
}

// statSampler samples /proc/stat.
type statSampler struct {
	r         *reader
	fd        int
	prev, cur statSample
	row       record.CPURow
}

func newStatSampler(r *reader, proc string) (*statSampler, error) {
	fd, err := openFile(proc + "/stat")
	if err != nil {
		return nil, err
	}
	return &statSampler{r: r, fd: fd}, nil
}

func (s *statSampler) sample(at tick, emit Emit) error {
	text, err := s.r.single(s.fd)
	if err != nil {
		return fmt.Errorf("read /proc/stat: %w", err)
	}
	s.prev, s.cur = s.cur, s.prev
	if err := parseStat(text, &s.cur); err != nil {
		return err
	}
	if at.first() {
		return nil
	}
	s.row.ObservedHead = at.head(record.KindCPU)
	statDelta(&s.prev, &s.cur, at.widthNs, &s.row)
	emit(&s.row)
	return nil
}

func (s *statSampler) close() { closeFile(&s.fd) }
