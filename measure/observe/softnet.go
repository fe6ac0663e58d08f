//go:build linux

package observe

import (
	"errors"
	"fmt"

	"ceiling/internal/sys"
	"ceiling/record"
)

// /proc/net/softnet_stat (net/core/net-procfs.c, softnet_seq_show): one line of hexadecimal words
// per online CPU. Words 0, 1 and 2 are processed, dropped and time_squeeze, 32 bits wide; word 9 is
// received_rps since 2.6.35, how often another CPU woke this one to process packets steered by RPS.
// Word 12 is the CPU's number since Linux 5.10; before, only counting the online CPUs identifies a
// line's CPU.

// softnetLine is one CPU's counters.
type softnetLine struct {
	cpu                               int // -1 if the kernel does not report it
	processed, dropped, squeezed, rps uint32
}

const (
	softnetRPSWord = 9
	softnetCPUWord = 12
)

var errSoftnet = errors.New("/proc/net/softnet_stat: a line is not three or more hexadecimal words of 32 bits")

// parseSoftnet parses /proc/net/softnet_stat into lines[:0].
func parseSoftnet(text []byte, lines []softnetLine) ([]softnetLine, error) {
	lines = lines[:0]
	c := sys.Cursor{Text: text}
	for {
		line, ok := c.Line()
		if !ok {
			break
		}
		l := sys.Cursor{Text: line}
		one := softnetLine{cpu: -1}
		n := 0
		for ; ; n++ {
			v, ok := l.Hex()
			if !ok {
				break
			}
			if v > 1<<32-1 {
				return lines, errSoftnet
			}
			switch n {
			case 0:
				one.processed = uint32(v)
			case 1:
				one.dropped = uint32(v)
			case 2:
				one.squeezed = uint32(v)
			case softnetRPSWord:
				one.rps = uint32(v)
			case softnetCPUWord:
				one.cpu = int(v)
			}
		}
		if n < 3 || len(l.Word()) != 0 {
			return lines, errSoftnet
		}
		lines = append(lines, one)
	}
	return lines, nil
}

// softnetSampler samples /proc/net/softnet_stat.
type softnetSampler struct {
	r         *reader
	fd        int
	online    func() []sys.CPUTicks // the CPUs of the latest /proc/stat, for kernels that do not number the lines
	prev, cur []softnetLine
}

func newSoftnetSampler(r *reader, netDir string, online func() []sys.CPUTicks) (*softnetSampler, error) {
	fd, err := openFile(netDir + "/softnet_stat")
	if err != nil {
		return nil, err
	}
	return &softnetSampler{r: r, fd: fd, online: online}, nil
}

func (s *softnetSampler) sample(at tick, emit Emit) error {
	text, err := s.r.whole(s.fd)
	if err != nil {
		return fmt.Errorf("read /proc/net/softnet_stat: %w", err)
	}
	s.prev, s.cur = s.cur, s.prev
	if s.cur, err = parseSoftnet(text, s.cur); err != nil {
		return err
	}
	if err := numberSoftnet(s.cur, s.online()); err != nil {
		return err
	}
	if at.first() {
		return nil
	}
	emit(&record.SoftnetRow{ObservedHead: at.head(record.KindSoftnet), CPUs: softnetDelta(s.prev, s.cur)})
	return nil
}

var errSoftnetCPUs = errors.New("/proc/net/softnet_stat does not number its lines here, and has not one for each CPU that is online")

// numberSoftnet assigns the online CPUs to lines without a number.
func numberSoftnet(lines []softnetLine, online []sys.CPUTicks) error {
	if len(lines) == 0 || lines[0].cpu >= 0 {
		return nil
	}
	if len(lines) != len(online) {
		return errSoftnetCPUs
	}
	for i := range lines {
		lines[i].cpu = online[i].CPU
	}
	return nil
}

// softnetDelta returns the CPUs of both readings whose counters moved. The counters are 32 bits
// wide and may have wrapped.
func softnetDelta(prev, cur []softnetLine) []record.SoftnetCPU {
	out := make([]record.SoftnetCPU, 0, len(cur))
	i := 0
	for _, c := range cur {
		for i < len(prev) && prev[i].cpu < c.cpu {
			i++
		}
		if i == len(prev) || prev[i].cpu != c.cpu {
			continue
		}
		d := record.SoftnetCPU{
			CPU: c.cpu, Processed: c.processed - prev[i].processed, Dropped: c.dropped - prev[i].dropped,
			Squeezed: c.squeezed - prev[i].squeezed, RPS: c.rps - prev[i].rps,
		}
		if d.Processed|d.Dropped|d.Squeezed|d.RPS != 0 {
			out = append(out, d)
		}
	}
	return out
}

func (s *softnetSampler) close() { closeFile(&s.fd) }
