package record

import "slices"

// CPUTime is time of a CPU by category, as in /proc/stat: user, nice, system, irq, softirq, steal,
// iowait and idle. The kernel includes guest time in user and nice.
type CPUTime [8]float64

// Categories of CPUTime. Those before CPUSteal are work done on this host.
const (
	CPUUser = iota
	CPUNice
	CPUSystem
	CPUIRQ
	CPUSoftIRQ
	CPUSteal
	CPUIOWait
	CPUIdle
)

// CPUCategories are the names of the categories.
func CPUCategories() []string {
	return []string{"user", "nice", "system", "irq", "softirq", "steal", "iowait", "idle"}
}

// Total returns the sum of all categories.
func (t *CPUTime) Total() float64 { return sumOf(t[:]) }

// Busy returns the time of work done on this host.
func (t *CPUTime) Busy() float64 { return sumOf(t[:CPUSteal]) }

// Free returns the idle time, iowait included.
func (t *CPUTime) Free() float64 { return t[CPUIOWait] + t[CPUIdle] }

// Shares returns each category's share of the total; nil if the total is 0.
func (t *CPUTime) Shares() []float64 {
	total := t.Total()
	if !(total > 0) {
		return nil
	}
	list := make([]float64, len(t))
	for i, v := range t {
		list[i] = v / total
	}
	return list
}

func sumOf(list []float64) (sum float64) {
	for _, v := range list {
		sum += v
	}
	return sum
}

// CPUSum sums the rows of one CPU over a stretch of time, in ticks.
type CPUSum struct {
	charged CPUTime
	missing float64
}

// AddTicks adds a share of a row; false: the row is inconsistent, and none of its categories can be
// trusted.
func (s *CPUSum) AddTicks(c *CoreTicks, share float64) bool {
	time := CPUTime{float64(c.User), float64(c.Nice), float64(c.System), float64(c.IRQ), float64(c.SoftIRQ),
		float64(c.Steal), float64(c.IOWait), float64(c.Idle)}
	if c.Bad != "" || slices.Min(time[:]) < 0 {
		return false
	}
	for i, v := range time {
		s.charged[i] += v * share
	}
	s.missing += float64(c.Missing) * share
	return true
}

// missingLeast are the ticks that rounding may lose: one for each of the eight categories, at both ends.
const missingLeast = 16

// Uncharged returns the ticks that the kernel charged to no category, if more than rounding loses.
func (s *CPUSum) Uncharged() float64 {
	if s.missing <= missingLeast {
		return 0
	}
	return s.missing
}

// ByCategory returns the time by category. What is missing was not idle, which is measured: it is spread
// over the busy categories in the proportion of the ticks that they have, as the kernel does with a
// process's user and system time (cputime_adjust in kernel/sched/cputime.c). What is too much was stolen
// from a CPU that was idle, and counts as both: it is taken from idle.
func (s *CPUSum) ByCategory() CPUTime {
	time, busy := s.charged, s.charged.Busy()
	if twice := -s.missing; twice > missingLeast {
		time[CPUIdle] -= min(twice, time[CPUSteal], time[CPUIdle])
	}
	if busy <= 0 {
		time[CPUSystem] += s.Uncharged()
		return time
	}
	for i := range time[:CPUSteal] {
		time[i] *= 1 + s.Uncharged()/busy
	}
	return time
}
