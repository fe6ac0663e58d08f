//go:build linux

package observe

import (
	"errors"
	"fmt"

	"ceiling/internal/sys"
	"ceiling/record"
)

// /proc/softirqs (fs/proc/softirqs.c, show_softirqs): a header that names every possible CPU,
// online or not, then one line per softirq with a 32-bit count per CPU.

// softirqSample is one reading, by column.
type softirqSample struct {
	cpus         []int // numbers of the columns
	netRx, netTx []uint32
}

var (
	errCPUHeader = errors.New("the first line does not name CPUs in ascending order")
	errSoftirqs  = errors.New("/proc/softirqs: NET_RX or NET_TX has not one 32-bit count per CPU")
)

// parseSoftirqs parses /proc/softirqs. It reuses the slices in s.
func parseSoftirqs(text []byte, s *softirqSample) error {
	c := sys.Cursor{Text: text}
	header, _ := c.Line()
	var err error
	if s.cpus, err = parseCPUHeader(header, s.cpus); err != nil {
		return err
	}
	s.netRx, s.netTx = s.netRx[:0], s.netTx[:0]
	for {
		line, ok := c.Line()
		if !ok {
			break
		}
		l := sys.Cursor{Text: line}
		switch name := l.Word(); {
		case string(name) == "NET_RX:":
			if s.netRx, err = parseCounts(&l, len(s.cpus), s.netRx); err != nil {
				return errSoftirqs
			}
		case string(name) == "NET_TX:":
			if s.netTx, err = parseCounts(&l, len(s.cpus), s.netTx); err != nil {
				return errSoftirqs
			}
		}
	}
	if len(s.netRx) != len(s.cpus) || len(s.netTx) != len(s.cpus) {
		return errSoftirqs
	}
	return nil
}

// parseCPUHeader parses "CPU0 CPU1 CPU4", the first line of /proc/softirqs and /proc/interrupts,
// into cpus[:0].
func parseCPUHeader(line []byte, cpus []int) ([]int, error) {
	cpus = cpus[:0]
	l := sys.Cursor{Text: line}
	for {
		w := l.Word()
		if len(w) == 0 {
			break
		}
		if !hasPrefix(w, "CPU") {
			return cpus, errCPUHeader
		}
		v, n := sys.LeadingDecimal(w[len("CPU"):])
		if n == 0 || n != len(w)-len("CPU") || v > 1<<20 {
			return cpus, errCPUHeader
		}
		if k := len(cpus); k > 0 && cpus[k-1] >= int(v) {
			return cpus, errCPUHeader
		}
		cpus = append(cpus, int(v))
	}
	if len(cpus) == 0 {
		return cpus, errCPUHeader
	}
	return cpus, nil
}

var errCounts = errors.New("not a 32-bit count for each CPU")

// parseCounts parses n counts of 32 bits into counts[:0].
func parseCounts(l *sys.Cursor, n int, counts []uint32) ([]uint32, error) {
	counts = counts[:0]
	for range n {
		v, ok := l.Uint()
		if !ok || v > 1<<32-1 {
			return counts, errCounts
		}
		counts = append(counts, uint32(v))
	}
	return counts, nil
}

// softirqSampler samples /proc/softirqs.
type softirqSampler struct {
	r         *reader
	fd        int
	prev, cur softirqSample
}

func newSoftirqSampler(r *reader, proc string) (*softirqSampler, error) {
	fd, err := openFile(proc + "/softirqs")
	if err != nil {
		return nil, err
	}
	return &softirqSampler{r: r, fd: fd}, nil
}

func (s *softirqSampler) sample(at tick, emit Emit) error {
	text, err := s.r.single(s.fd)
	if err != nil {
		return fmt.Errorf("read /proc/softirqs: %w", err)
	}
	s.prev, s.cur = s.cur, s.prev
	if err := parseSoftirqs(text, &s.cur); err != nil {
		return err
	}
	if at.first() {
		return nil
	}
	emit(&record.SoftirqRow{ObservedHead: at.head(record.KindSoftirq), CPUs: softirqDelta(&s.prev, &s.cur)})
	return nil
}

// softirqDelta returns the CPUs of both readings whose counters moved. The counters are 32 bits
// wide and may have wrapped.
func softirqDelta(prev, cur *softirqSample) []record.SoftirqCPU {
	out := make([]record.SoftirqCPU, 0, len(cur.cpus))
	i := 0
	for j, cpu := range cur.cpus {
		for i < len(prev.cpus) && prev.cpus[i] < cpu {
			i++
		}
		if i == len(prev.cpus) || prev.cpus[i] != cpu {
			continue
		}
		d := record.SoftirqCPU{CPU: cpu, NetRx: cur.netRx[j] - prev.netRx[i], NetTx: cur.netTx[j] - prev.netTx[i]}
		if d.NetRx|d.NetTx != 0 {
			out = append(out, d)
		}
	}
	return out
}

func (s *softirqSampler) close() { closeFile(&s.fd) }
