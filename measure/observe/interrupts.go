//go:build linux

package observe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"ceiling/internal/sys"
	"ceiling/record"
)

// /proc/interrupts (kernel/irq/proc.c, show_interrupts): a header that names the online CPUs, then
// one line per interrupt: its number and a colon, a 32-bit count per CPU, the chip, the hardware
// number and the name of its requester. The named lines at the end (NMI, LOC ...) belong to no
// device.

// irqSample is one reading of the watched lines.
type irqSample struct {
	cpus   []int
	lines  []irqLine
	counts []uint32 // len(cpus) per line
}

type irqLine struct {
	number int
	name   string // the last word: "eth0-TxRx-3", "virtio3-rx"
}

var errInterrupts = errors.New("/proc/interrupts: a numbered line has not one 32-bit count per CPU")

// parseInterrupts parses the lines of the interrupts that wanted accepts, and skips the others. It
// reuses the slices in s.
func parseInterrupts(text []byte, names *interned, wanted func(number int, name []byte) bool, s *irqSample) error {
	c := sys.Cursor{Text: text}
	header, _ := c.Line()
	var err error
	if s.cpus, err = parseCPUHeader(header, s.cpus); err != nil {
		return err
	}
	s.lines, s.counts = s.lines[:0], s.counts[:0]
	for {
		line, ok := c.Line()
		if !ok {
			return nil
		}
		number, name, counts, ok := irqFields(line)
		if !ok || !wanted(number, name) {
			continue
		}
		l := sys.Cursor{Text: counts}
		for range s.cpus {
			v, ok := l.Uint()
			if !ok || v > 1<<32-1 {
				return errInterrupts
			}
			s.counts = append(s.counts, uint32(v))
		}
		s.lines = append(s.lines, irqLine{number: number, name: names.of(name)})
	}
}

// irqFields splits a line into number, name and the text between; ok is false for lines without a
// number.
func irqFields(line []byte) (number int, name, counts []byte, ok bool) {
	c := sys.Cursor{Text: line}
	c.Blanks()
	v, n := sys.LeadingDecimal(line[c.At:])
	c.At += n
	if n == 0 || v > 1<<31-1 || c.At >= len(line) || line[c.At] != ':' {
		return 0, nil, nil, false
	}
	end := len(line)
	for end > 0 && line[end-1] == ' ' {
		end--
	}
	start := end
	for start > c.At+1 && line[start-1] != ' ' {
		start--
	}
	return int(v), line[start:end], line[c.At+1 : end], true
}

// irqDelta returns the counts between two readings, for the interrupts and CPUs of
// both. The counters are 32 bits wide and may have wrapped.
func irqDelta(prev, cur *irqSample) []record.IRQLine {
	lines := make([]record.IRQLine, 0, len(cur.lines))
	for j, line := range cur.lines {
		i := irqNamed(prev, line, j)
		if i < 0 {
			continue
		}
		out := record.IRQLine{IRQ: line.number, Name: line.name, CPUs: []record.IRQCPU{}}
		k := 0
		for m, cpu := range cur.cpus {
			for k < len(prev.cpus) && prev.cpus[k] < cpu {
				k++
			}
			if k == len(prev.cpus) || prev.cpus[k] != cpu {
				continue
			}
			if d := cur.counts[j*len(cur.cpus)+m] - prev.counts[i*len(prev.cpus)+k]; d != 0 {
				out.CPUs = append(out.CPUs, record.IRQCPU{CPU: cpu, Count: d})
			}
		}
		lines = append(lines, out)
	}
	return lines
}

func irqNamed(s *irqSample, line irqLine, guess int) int {
	if guess < len(s.lines) && s.lines[guess] == line {
		return guess
	}
	for i := range s.lines {
		if s.lines[i] == line {
			return i
		}
	}
	return -1
}

// irqSampler samples the interrupts of one network interface.
type irqSampler struct {
	r         *reader
	fd        int
	names     *interned
	wanted    func(number int, name []byte) bool
	prev, cur irqSample
}

func newIRQSampler(r *reader, names *interned, proc, sysfs, iface string) (*irqSampler, error) {
	wanted, err := interruptsOf(sysfs, iface)
	if err != nil {
		return nil, err
	}
	fd, err := openFile(proc + "/interrupts")
	if err != nil {
		return nil, err
	}
	return &irqSampler{r: r, fd: fd, names: names, wanted: wanted}, nil
}

// interruptsOf returns a filter for an interface's interrupts: those that sysfs lists for its
// device, or for the device's parent (a virtio device is below the PCI device that has the
// interrupts), or else those named after it.
func interruptsOf(sysfs, iface string) (func(number int, name []byte) bool, error) {
	if iface == "lo" {
		return nil, errors.New("lo has no interrupts")
	}
	device, err := filepath.EvalSymlinks(sysfs + "/class/net/" + iface + "/device")
	if err != nil {
		return nil, fmt.Errorf("interface %s has no device with interrupts: %w", iface, err)
	}
	listed := make(map[int]bool)
	for _, dir := range []string{device, filepath.Dir(device)} {
		entries, err := os.ReadDir(dir + "/msi_irqs")
		if err != nil {
			continue // not every device has message-signalled interrupts: try names next
		}
		for _, e := range entries {
			if v, n := sys.LeadingDecimal([]byte(e.Name())); n > 0 && n == len(e.Name()) {
				listed[int(v)] = true
			}
		}
		break
	}
	if len(listed) > 0 {
		return func(number int, _ []byte) bool { return listed[number] }, nil
	}
	return func(_ int, name []byte) bool {
		return hasPrefix(name, iface) && (len(name) == len(iface) || name[len(iface)] == '-')
	}, nil
}

func (s *irqSampler) sample(at tick, emit Emit) error {
	text, err := s.r.whole(s.fd)
	if err != nil {
		return fmt.Errorf("read /proc/interrupts: %w", err)
	}
	s.prev, s.cur = s.cur, s.prev
	if err := parseInterrupts(text, s.names, s.wanted, &s.cur); err != nil {
		return err
	}
	if at.first() {
		if len(s.cur.lines) == 0 {
			return errors.New("/proc/interrupts names no interrupt of the interface")
		}
		return nil
	}
	emit(&record.IRQRow{ObservedHead: at.head(record.KindIRQ), Lines: irqDelta(&s.prev, &s.cur)})
	return nil
}

func (s *irqSampler) close() { closeFile(&s.fd) }
