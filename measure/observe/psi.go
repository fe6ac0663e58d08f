//go:build linux

package observe

import (
	"errors"
	"fmt"
	"syscall"

	"ceiling/internal/sys"
	"ceiling/record"
)

// /proc/pressure/{cpu,memory,io} (kernel/sched/psi.c, psi_show): a line "some"
// and, since Linux 5.13 for cpu too, a line "full", each ending in
// total=MICROSECONDS since boot.

// psiTotals of one resource, µs since boot; -1 if the line is missing.
type psiTotals struct {
	someUs, fullUs int64
}

var errPSI = errors.New("a line of /proc/pressure is not some or full with a total")

// parsePSI parses one file of /proc/pressure.
func parsePSI(text []byte, t *psiTotals) error {
	*t = psiTotals{-1, -1}
	c := sys.Cursor{Text: text}
	for {
		line, ok := c.Line()
		if !ok {
			break
		}
		l := sys.Cursor{Text: line}
		kind := l.Word()
		total := int64(-1)
		for {
			w := l.Word()
			if len(w) == 0 {
				break
			}
			if hasPrefix(w, "total=") {
				v, n := sys.LeadingDecimal(w[len("total="):])
				if n == 0 || n != len(w)-len("total=") || v > 1<<63-1 {
					return errPSI
				}
				total = int64(v)
			}
		}
		switch {
		case total < 0:
			return errPSI
		case string(kind) == "some":
			t.someUs = total
		case string(kind) == "full":
			t.fullUs = total
		default:
			return errPSI
		}
	}
	if t.someUs < 0 {
		return errPSI
	}
	return nil
}

// psiSampler samples the three files of /proc/pressure.
type psiSampler struct {
	r         *reader
	fds       [3]int
	prev, cur [3]psiTotals
}

func newPSISampler(r *reader, proc string) (*psiSampler, error) {
	s := &psiSampler{r: r, fds: [3]int{-1, -1, -1}}
	for i, name := range [3]string{"cpu", "memory", "io"} {
		fd, err := openFile(proc + "/pressure/" + name)
		if err == nil {
			s.fds[i] = fd
			_, err = r.single(fd)
		}
		if err != nil {
			s.close()
			return nil, psiRefusal(err)
		}
	}
	return s, nil
}

// psiRefusal explains the kernel's two ways of not having PSI.
func psiRefusal(err error) error {
	switch {
	case errors.Is(err, syscall.EOPNOTSUPP):
		return fmt.Errorf("PSI is off: boot with psi=1 (%w)", err)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("PSI is not built into this kernel: %w", err)
	}
	return err
}

func (s *psiSampler) sample(at tick, emit Emit) error {
	s.prev = s.cur
	for i, fd := range s.fds {
		text, err := s.r.single(fd)
		if err != nil {
			return fmt.Errorf("read /proc/pressure: %w", err)
		}
		if err := parsePSI(text, &s.cur[i]); err != nil {
			return err
		}
	}
	if at.first() {
		return nil
	}
	emit(&record.PSIRow{
		ObservedHead: at.head(record.KindPSI),
		CPUSomeNs:    psiDeltaNs(s.prev[0].someUs, s.cur[0].someUs), CPUFullNs: psiDeltaNs(s.prev[0].fullUs, s.cur[0].fullUs),
		MemorySomeNs: psiDeltaNs(s.prev[1].someUs, s.cur[1].someUs), MemoryFullNs: psiDeltaNs(s.prev[1].fullUs, s.cur[1].fullUs),
		IOSomeNs: psiDeltaNs(s.prev[2].someUs, s.cur[2].someUs), IOFullNs: psiDeltaNs(s.prev[2].fullUs, s.cur[2].fullUs),
	})
	return nil
}

// psiDeltaNs returns -1 if the kernel keeps no such total.
func psiDeltaNs(prevUs, curUs int64) int64 {
	if prevUs < 0 || curUs < 0 {
		return -1
	}
	return (curUs - prevUs) * 1000
}

func (s *psiSampler) close() {
	for i := range s.fds {
		closeFile(&s.fds[i])
	}
}
