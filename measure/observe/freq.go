//go:build linux

package observe

import (
	"fmt"
	"os"
	"slices"

	"ceiling/internal/sys"
	"ceiling/record"
)

// cpufreq and the thermal counters of sysfs, one small file each per CPU:
//
//	/sys/devices/system/cpu/cpuN/cpufreq/{scaling_governor,scaling_cur_freq,cpuinfo_max_freq}
//	/sys/devices/system/cpu/cpuN/thermal_throttle/core_throttle_count (x86)
//
// A virtual machine usually has none of them. Reading scaling_cur_freq may interrupt
// that CPU, so this runs at a low rate.

// cpuFreq is one CPU's reading.
type cpuFreq struct {
	cpu      int
	curKHz   int64
	maxKHz   int64
	throttle int64 // -1: not available
}

// freqSampler samples the clocks of all CPUs that have a cpufreq directory.
type freqSampler struct {
	r         *reader
	names     *interned
	dir       string // /sys/devices/system/cpu
	path      path
	prev, cur []cpuFreq
	governor  string
}

func newFreqSampler(r *reader, names *interned, sysfs string) (*freqSampler, error) {
	s := &freqSampler{r: r, names: names, dir: sysfs + "/devices/system/cpu"}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list CPUs: %w", err)
	}
	for _, e := range entries {
		name := []byte(e.Name())
		if !hasPrefix(name, "cpu") {
			continue
		}
		v, n := sys.LeadingDecimal(name[len("cpu"):])
		if n == 0 || n != len(name)-len("cpu") {
			continue
		}
		if _, err := os.Stat(s.dir + "/" + e.Name() + "/cpufreq"); err != nil {
			continue // offline, or without frequency scaling
		}
		s.cur = append(s.cur, cpuFreq{cpu: int(v)})
	}
	if len(s.cur) == 0 {
		return nil, fmt.Errorf("no CPU has a cpufreq directory in %s: the clock is not this kernel's to know (a virtual machine?)", s.dir)
	}
	slices.SortFunc(s.cur, func(a, b cpuFreq) int { return a.cpu - b.cpu })
	s.prev = make([]cpuFreq, len(s.cur))
	return s, nil
}

func (s *freqSampler) sample(at tick, emit Emit) error {
	copy(s.prev, s.cur)
	s.governor = ""
	readable := 0
	for i := range s.cur {
		if s.read(&s.cur[i]) {
			readable++
		}
	}
	if readable == 0 {
		return fmt.Errorf("scaling_cur_freq of no CPU can be read in %s", s.dir)
	}
	row := &record.FreqRow{ObservedHead: at.head(record.KindFreq), Governor: s.governor}
	freqSummary(s.prev, s.cur, !at.first(), row)
	emit(row)
	return nil
}

// read fills in one CPU; it returns false, with a clock of 0, if the CPU is offline.
func (s *freqSampler) read(f *cpuFreq) bool {
	f.curKHz, f.maxKHz, f.throttle = 0, 0, -1
	cur, ok := s.number(f.cpu, "/cpufreq/scaling_cur_freq")
	if !ok {
		return false
	}
	f.curKHz = cur
	f.maxKHz, _ = s.number(f.cpu, "/cpufreq/cpuinfo_max_freq")
	if n, ok := s.number(f.cpu, "/thermal_throttle/core_throttle_count"); ok {
		f.throttle = n
	}
	text, err := s.text(f.cpu, "/cpufreq/scaling_governor")
	if err != nil {
		return true
	}
	c := sys.Cursor{Text: text}
	switch g := s.names.of(c.Word()); s.governor {
	case "", g:
		s.governor = g
	default:
		s.governor = "mixed"
	}
	return true
}

func (s *freqSampler) number(cpu int, file string) (int64, bool) {
	text, err := s.text(cpu, file)
	if err != nil {
		return 0, false
	}
	c := sys.Cursor{Text: text}
	return c.Int()
}

func (s *freqSampler) text(cpu int, file string) ([]byte, error) {
	return s.r.below(atCWD, s.path.of(s.dir).text("/cpu").number(cpu).text(file).end())
}

// freqSummary fills row with the clocks of the CPUs that could be read, and if counted with their
// new thermal events.
func freqSummary(prev, cur []cpuFreq, counted bool, row *record.FreqRow) {
	row.Throttles = -1
	var sum int64
	for i := range cur {
		if cur[i].curKHz == 0 {
			continue
		}
		if row.CPUs == 0 || cur[i].curKHz < row.MinKHz {
			row.MinKHz = cur[i].curKHz
		}
		row.MaxKHz = max(row.MaxKHz, cur[i].curKHz)
		row.LimitKHz = max(row.LimitKHz, cur[i].maxKHz)
		row.CPUs++
		sum += cur[i].curKHz
		if counted && cur[i].throttle >= 0 && prev[i].throttle >= 0 && prev[i].curKHz != 0 {
			row.Throttles = max(row.Throttles, 0) + cur[i].throttle - prev[i].throttle
		}
	}
	if row.CPUs > 0 {
		row.MeanKHz = sum / int64(row.CPUs)
	}
}

func (s *freqSampler) close() {}
