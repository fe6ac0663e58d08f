//go:build linux

package events

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"ceiling/internal/btf"
)

// ringBytes holds 87,381 events of 40 bytes with headers of 8.
const ringBytes = 4 << 20

// A tracer holds the loaded programs, and attaches them during a burst. They all end with the
// process: nothing is pinned.
type tracer struct {
	control, ring *ebpf.Map
	programs      []*ebpf.Program
	links         []link.Link
	reader        *ringbuf.Reader
	record        ringbuf.Record
}

// openTracer loads the programs, which takes 4 ms.
func openTracer(target netip.AddrPort) (*tracer, error) {
	kernel, err := btf.Read()
	if err != nil {
		return nil, err
	}
	t := &tracer{}
	l, err := readLayout(kernel)
	if err == nil {
		err = explain(t.load(l, kernel, target))
	}
	if err = errors.Join(err, kernel.Close()); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// explain says how to fix a refusal.
func explain(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("BPF programs take root, or CAP_BPF and CAP_PERFMON: %w", err)
	}
	return err
}

func (t *tracer) load(l layout, kernel *btf.Types, target netip.AddrPort) (err error) {
	if target.Addr().Is6() && l.remoteV6 == noField {
		return errors.New("this kernel has no IPv6")
	}
	t.control, err = ebpf.NewMap(&ebpf.MapSpec{Name: "ceil_control", Type: ebpf.Array, KeySize: 4, ValueSize: controlSize, MaxEntries: 1})
	if err != nil {
		return fmt.Errorf("make a BPF map: %w", err)
	}
	if t.ring, err = ebpf.NewMap(&ebpf.MapSpec{Name: "ceil_events", Type: ebpf.RingBuf, MaxEntries: ringBytes}); err != nil {
		return fmt.Errorf("make a BPF ring buffer: %w", err)
	}
	if t.reader, err = ringbuf.NewReader(t.ring); err != nil {
		return fmt.Errorf("map a BPF ring buffer: %w", err)
	}
	for _, point := range tracepoints() {
		p, err := kernel.Load("ceil_"+point.kind.short(), point.name, point.program(l, target, t.control.FD(), t.ring.FD()))
		if err != nil {
			return fmt.Errorf("load a BPF program: %w", err)
		}
		t.programs = append(t.programs, p)
	}
	return nil
}

// set tells the programs which connections to follow, and resets the lost count.
func (t *tracer) set(seed, threshold uint32) error {
	c := newControl(seed, threshold)
	if err := t.control.Put(uint32(0), c[:]); err != nil {
		return fmt.Errorf("set the BPF map: %w", err)
	}
	return nil
}

// lost returns how many events did not fit since set, and when the first occurred.
func (t *tracer) lost() (events uint64, firstNs int64, err error) {
	var c control
	if err := t.control.Lookup(uint32(0), c[:]); err != nil {
		return 0, 0, fmt.Errorf("read the BPF map: %w", err)
	}
	events, firstNs = c.lost()
	return events, firstNs, nil
}

// attach begins to receive events.
func (t *tracer) attach() error {
	for i, p := range t.programs {
		l, err := link.AttachTracing(link.TracingOptions{Program: p, AttachType: ebpf.AttachTraceRawTp})
		if err != nil {
			return errors.Join(fmt.Errorf("attach to tracepoint %s: %w", tracepoints()[i].name, explain(err)), t.detach())
		}
		t.links = append(t.links, l)
	}
	return nil
}

// detach stops receiving events.
func (t *tracer) detach() error {
	var errs []error
	for _, l := range slices.Backward(t.links) {
		errs = append(errs, l.Close())
	}
	t.links = t.links[:0]
	return errors.Join(errs...)
}

// runtimeNs returns the programs' CPU time, as far as it was measured.
func (t *tracer) runtimeNs() (ns int64, err error) {
	for _, p := range t.programs {
		s, err := p.Stats()
		if err != nil {
			return 0, fmt.Errorf("read a BPF program's statistics: %w", err)
		}
		ns += int64(s.Runtime)
	}
	return ns, nil
}

// drain appends the events in the ring.
func (t *tracer) drain(events []Event) ([]Event, error) {
	t.reader.SetDeadline(time.Unix(1, 0)) // only what is there, without waiting
	for {
		err := t.reader.ReadInto(&t.record)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return events, nil
		case err != nil:
			return events, fmt.Errorf("read the BPF ring buffer: %w", err)
		}
		var e Event
		if !parse(t.record.RawSample, &e) {
			return events, fmt.Errorf("unknown BPF record of %d bytes", len(t.record.RawSample))
		}
		if len(events) == cap(events) { // twice as many: steps of a quarter leave four times the memory behind
			events = slices.Grow(events, len(events)+64)
		}
		events = append(events, e)
	}
}

// close releases everything.
func (t *tracer) close() error {
	errs := []error{t.detach()}
	if t.reader != nil {
		errs = append(errs, t.reader.Close())
	}
	for _, p := range t.programs {
		errs = append(errs, p.Close())
	}
	for _, m := range []*ebpf.Map{t.ring, t.control} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}
