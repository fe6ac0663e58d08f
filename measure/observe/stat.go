//go:build linux

package observe

import (
	"fmt"

	"ceiling/internal/sys"
	"ceiling/record"
)

// exclusive is how many categories add up to the elapsed time: others include the guests'.
const exclusive = sys.TicksSteal + 1

func categoryName(c int) string {
	return [sys.TickCategories]string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"}[c]
}

// coreDelta is what one CPU did between two readings widthNs apart. It marks an inconsistent row,
// and keeps its numbers as read: a category went backwards (iowait does: its owner CPU may change
// during a request), the sum exceeds the elapsed time by more than a tick per category, which is what
// rounding them down to whole ticks can lose, or more than half of the time is missing. Stolen time may
// exceed it as well: what a woken CPU waits for its host counts as idle and as stolen (kernel/sched/cputime.c
// measures idle time from clock to clock, and takes stolen time from the hypervisor).
//
// Less of it may be: a kernel with NO_HZ and TICK_CPU_ACCOUNTING measures how long a CPU is idle, and
// charges the rest by the tick, which a CPU that wakes up for 20 µs at a time seldom sees. Of a server
// behind a shaper of 15k packets/s, a third of the time was charged to nothing.
func coreDelta(prev, cur *sys.CPUTicks, widthNs int64) record.CoreTicks {
	var d [sys.TickCategories]int64
	backwards := -1
	for i := range d {
		d[i] = int64(cur.Ticks[i] - prev.Ticks[i])
		if d[i] < 0 && backwards < 0 {
			backwards = i
		}
	}
	row := record.CoreTicks{
		CPU: cur.CPU, User: d[sys.TicksUser], Nice: d[sys.TicksNice], System: d[sys.TicksSystem], Idle: d[sys.TicksIdle],
		IOWait: d[sys.TicksIOWait],
		IRQ:    d[sys.TicksIRQ], SoftIRQ: d[sys.TicksSoftIRQ], Steal: d[sys.TicksSteal],
		Guest:     d[sys.TicksGuest],
		GuestNice: d[sys.TicksGuestNice],
	}
	const tickNs = 1e9 / record.TicksPerSecond
	elapsed := (widthNs + tickNs/2) / tickNs
	row.Missing = elapsed - row.Accounted()
	switch {
	case backwards >= 0:
		row.Bad = fmt.Sprintf("%s went backwards by %d ticks", categoryName(backwards), -d[backwards])
	case row.Missing > max(exclusive, elapsed/2) || row.Missing < -exclusive-row.Steal:
		row.Bad = fmt.Sprintf("categories add to %d ticks of %d elapsed", row.Accounted(), elapsed)
	}
	return row
}

// statDelta returns the difference of two readings, without a head; it matches CPUs by number, since one may
// have gone offline or come back in between.
func statDelta(prev, cur *sys.Stat, widthNs int64) *record.CPURow {
	row := &record.CPURow{
		Cores: make([]record.CoreTicks, 0, len(cur.CPUs)), ContextSwitches: cur.ContextSwitches - prev.ContextSwitches,
		Forks: cur.Forks - prev.Forks, Running: int(cur.Running),
	}
	i, j := 0, 0
	for i < len(prev.CPUs) || j < len(cur.CPUs) {
		switch {
		case j == len(cur.CPUs) || i < len(prev.CPUs) && prev.CPUs[i].CPU < cur.CPUs[j].CPU:
			row.Went = append(row.Went, prev.CPUs[i].CPU)
			i++
		case i == len(prev.CPUs) || cur.CPUs[j].CPU < prev.CPUs[i].CPU:
			row.Came = append(row.Came, cur.CPUs[j].CPU)
			j++
		default:
			row.Cores = append(row.Cores, coreDelta(&prev.CPUs[i], &cur.CPUs[j], widthNs))
			i++
			j++
		}
	}
	return row
}

// statSampler samples /proc/stat.
type statSampler struct {
	r         *reader
	fd        int
	prev, cur sys.Stat
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
	if err := sys.ParseStat(text, &s.cur); err != nil {
		return err
	}
	if at.first() {
		return nil
	}
	row := statDelta(&s.prev, &s.cur, at.widthNs)
	row.ObservedHead = at.head(record.KindCPU)
	emit(row)
	return nil
}

func (s *statSampler) close() { closeFile(&s.fd) }
