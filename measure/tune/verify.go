//go:build linux

package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ceiling/internal/nic"
	"ceiling/internal/sys"
	"ceiling/internal/text"
	"ceiling/internal/unit"
	"ceiling/measure/cores"
	"ceiling/measure/observe"
	"ceiling/record"
)

// Effects of a change, as a record has them.
const (
	InEffect    = record.TuningInEffect
	NotInEffect = record.TuningNotInEffect
	SetBack     = record.TuningSetBack
	NotShown    = record.TuningNotShown
)

// Evidence shows whether a change has its intended effect.
type Evidence struct {
	Knob string `json:"knob"`
	Of   string `json:"of,omitempty"`
	Set  string `json:"set"`
	// Effect is InEffect, NotInEffect, SetBack or NotShown.
	Effect string `json:"effect"`
	// What was observed, in figures.
	What string `json:"what"`
}

// Verified is the evidence for a tuning.
type Verified struct {
	Schema   string     `json:"schema"`
	Tuning   *Tuning    `json:"tuning"`
	Seconds  float64    `json:"seconds"` // between the two readings
	Evidence []Evidence `json:"evidence"`
}

// VerifySchema names the version of a Verified.
const VerifySchema = "ceiling.tune.verify/1"

// Watch says how to look for effects.
type Watch struct {
	// For is the time between the two readings of the counters.
	For time.Duration
	// Traffic generates packets in between; nil: only existing traffic counts.
	Traffic func(context.Context) error
	// Probe is an IPv4 address that gets some datagrams from each CPU to its discard port, which
	// show XPS; the zero Addr sends none.
	Probe netip.Addr
	// Target that Traffic goes to: a setting that cannot act on it is not shown. nil: unknown.
	Target *Target
}

// Bad reports whether anything is set back or not in effect.
func (v *Verified) Bad() bool {
	return slices.ContainsFunc(v.Evidence, func(e Evidence) bool { return e.Effect == SetBack || e.Effect == NotInEffect })
}

// Verify checks the effect of the tuning in force: it reads the counters, waits while there is
// traffic, and reads them again. It changes nothing.
func (h *Host) Verify(ctx context.Context, w Watch) (*Verified, error) {
	j := &journal{path: filepath.Join(h.state(), journalName)}
	err := j.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("nothing to verify: no tuning is in force here; ceiling tune apply PROFILE")
	}
	if err != nil {
		return nil, err
	}
	done, err := h.watch(j.changes, w.Probe, j.inside)
	if err != nil {
		return nil, err
	}
	if err := w.wait(ctx); err != nil {
		return nil, err
	}
	v := &Verified{Schema: VerifySchema, Tuning: j.tuning()}
	if w.Target != nil {
		w.Target.Here = j.head.Namespace == 0 || j.head.Namespace == namespaceHere()
	}
	v.Evidence, v.Seconds, err = done(w.Target)
	return v, err
}

// Seen is a change with its evidence.
type Seen struct {
	Change   Change
	Evidence Evidence
}

// Watch begins to look for the effects of a plan that is applied, of the settings that were so
// already too. done ends it, with the target of the load in between.
func (p *Plan) Watch() (done func(*Target) ([]Seen, error), err error) {
	changes := slices.Concat(p.Changes, p.Already)
	end, err := p.host.watch(changes, netip.Addr{}, func(f func() error) error {
		return p.host.inside(func(*Host) error { return f() })
	})
	if err != nil {
		return nil, err
	}
	return func(t *Target) (all []Seen, err error) {
		found, _, err := end(t)
		for i := range found {
			all = append(all, Seen{changes[i], found[i]})
		}
		return all, err
	}, nil
}

// watch reads the counters, with inside in the network namespace of the changes. done reads them
// again, and returns what happened in between and how many seconds that were.
func (h *Host) watch(changes []Change, probe netip.Addr, inside func(func() error) error) (done func(*Target) ([]Evidence, float64, error),
	err error) {
	e := effects{host: h, changes: changes, probe: probe}
	var before *observe.NetworkSnapshot
	if err := inside(func() (err error) {
		before, err = e.look()
		return err
	}); err != nil {
		return nil, err
	}
	from := time.Now()
	return func(t *Target) ([]Evidence, float64, error) {
		found := []Evidence{}
		err := inside(func() error {
			after, err := e.look()
			if err != nil {
				return err
			}
			if t != nil {
				way, err := h.wayOf(t)
				if err != nil {
					return err
				}
				e.way = &way
			}
			e.seconds, e.seen = time.Since(from).Seconds(), after.Since(before)
			for i := range changes {
				found = append(found, e.of(&changes[i]))
			}
			return nil
		})
		return found, e.seconds, err
	}, nil
}

// wait lets traffic flow for that time.
func (w *Watch) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.For)
	defer cancel()
	if w.Traffic != nil {
		if err := w.Traffic(ctx); err != nil {
			return err
		}
	}
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	return nil
}

// effects evaluates what happened between two readings.
type effects struct {
	host    *Host
	seen    observe.NetworkCounters
	seconds float64
	changes []Change
	probe   netip.Addr
	way     *way // of the load; nil: unknown
}

func (e *effects) look() (*observe.NetworkSnapshot, error) {
	return observe.SnapshotNetwork(filepath.Join(e.host.root(), "proc"))
}

func (e *effects) of(c *Change) Evidence {
	found := Evidence{Knob: c.Knob, Of: c.Of, Set: c.After}
	now, err := e.host.read(c)
	switch {
	case err != nil:
		found.Effect, found.What = SetBack, text.FirstLine(err.Error())
	case !same(c.Knob, now, c.After):
		found.Effect, found.What = SetBack, fmt.Sprintf("it is %s now: another program has changed it", shown(now))
	default:
		found.Effect, found.What = e.shown(c)
	}
	return found
}

// shown returns the effect of a value that is set.
func (e *effects) shown(c *Change) (effect, what string) {
	if e.way != nil {
		if not := e.way.cannot(c); not != "" {
			return NotShown, not
		}
	}
	switch c.Knob {
	case knobRPS:
		return e.rps(c)
	case knobXPS:
		return e.xps(c)
	case knobFlowCount, knobSocketFlows:
		// The host's table is not in other network namespaces, and not on old copies.
		if sys.FileText(e.host.tree(), "proc/sys/net/core/rps_sock_flow_entries") == "0" {
			return NotShown, "it does nothing while " + knobSocketFlows + " is 0"
		}
		return NotShown, "the kernel has no counter for it; " + e.processed()
	case knobIRQ:
		return e.irq(c)
	case knobIRQBalance:
		return e.settled(c)
	case "net.core.somaxconn":
		if e.way != nil && e.way.load.Server.Port() > 0 {
			return e.listener(c)
		}
		return e.burst(c.Before, c.After)
	case "net.ipv4.ip_local_port_range":
		return ports(c.After)
	case "net.core.busy_poll", "net.core.busy_read":
		if n := e.seen.BusyPollRxPackets; n > 0 {
			return InEffect, fmt.Sprintf("%s packets were found by polling (BusyPollRxPackets)", unit.FormatCount(n))
		}
		return NotShown, "no packet was found by polling; it needs a NIC whose driver polls, and a socket that waits"
	case "net.core.netdev_max_backlog":
		return NotShown, e.drops()
	case knobDefer, knobFlush, nicRxUsecs, nicTxUsecs, nicAdaptive:
		return NotShown, "compare interrupts for each packet before and after: " + e.perPacket(c)
	case nicQueues:
		name, _, _ := strings.Cut(c.Path, "/")
		if n := len(nic.Queues(e.host.tree(), name, "rx")); strconv.Itoa(n) != c.After {
			return NotInEffect, fmt.Sprintf("%s has %d receive queues", name, n)
		}
		return InEffect, "the interface has as many receive queues"
	case knobFiles:
		return NotShown, "the file is there; a login, or a service that starts after systemctl daemon-reexec, has the limit"
	}
	return NotShown, "read back; no counter of the kernel shows its effect"
}

// fewPackets is the least number of packets that shows where they are processed.
const fewPackets = 100

// rps: the kernel counts on each CPU how often another one woke it for packets steered to it by
// RPS. A mask of only the CPU that takes the interrupts causes no wake-ups: then no other CPU
// processes packets.
func (e *effects) rps(c *Change) (effect, what string) {
	mask := map[int]bool{}
	for i := range e.changes { // other queues' CPUs are woken too
		if e.changes[i].Knob != knobRPS {
			continue
		}
		cpus, err := nic.ParseMask(e.changes[i].After)
		if err != nil {
			return NotShown, err.Error()
		}
		for _, cpu := range cpus {
			mask[cpu] = true
		}
	}
	var inside, outside, processed, within uint64
	for _, s := range e.seen.Softnet {
		processed += uint64(s.Processed)
		if mask[s.CPU] {
			inside += uint64(s.RPS)
			within += uint64(s.Processed)
		} else {
			outside += uint64(s.RPS)
		}
	}
	figures := e.processed()
	switch {
	case processed < fewPackets:
		return NotShown, fmt.Sprintf("%s packets in %.1f s are too few; give a URL, or verify under load", unit.FormatCount(int64(processed)), e.seconds)
	case len(mask) == 0 && outside == 0:
		return InEffect, "no CPU was woken for another's packets; " + figures
	case len(mask) == 0:
		return NotShown, "RPS of another interface wakes CPUs; " + figures
	case inside > 0 && outside == 0:
		return InEffect, fmt.Sprintf("CPUs of the mask were woken %s times for packets that RPS gave them, others never; %s",
			unit.FormatCount(int64(inside)), figures)
	case inside > 0:
		return InEffect, fmt.Sprintf("CPUs of the mask were woken %s times for packets, others %s times by another interface's RPS; %s",
			unit.FormatCount(int64(inside)), unit.FormatCount(int64(outside)), figures)
	case within == processed:
		return InEffect, "every packet was processed on a CPU of the mask, where it came in; " + figures
	}
	return NotInEffect, "no CPU of the mask was woken for a packet (received_rps of /proc/net/softnet_stat); " + figures
}

// processed says where packets were processed, and where the softirqs ran.
func (e *effects) processed() string {
	var packets, softirqs []string
	for _, s := range busiest(e.seen.Softnet, func(s record.SoftnetCPU) uint32 { return s.Processed }) {
		packets = append(packets, fmt.Sprintf("CPU %d %s", s.CPU, unit.FormatCount(int64(s.Processed))))
	}
	for _, s := range busiest(e.seen.NetRx, func(s record.SoftirqCPU) uint32 { return s.NetRx }) {
		softirqs = append(softirqs, fmt.Sprintf("CPU %d %s", s.CPU, unit.FormatCount(int64(s.NetRx))))
	}
	if len(packets) == 0 {
		return "no packet was processed"
	}
	return "packets processed: " + strings.Join(packets, ", ") + "; NET_RX softirqs: " + strings.Join(softirqs, ", ")
}

// shownCPUs is how many CPUs a line names.
const shownCPUs = 4

func busiest[T any](all []T, count func(T) uint32) []T {
	all = slices.DeleteFunc(slices.Clone(all), func(one T) bool { return count(one) == 0 })
	slices.SortStableFunc(all, func(a, b T) int { return int(count(b)) - int(count(a)) })
	return all[:min(len(all), shownCPUs)]
}

func (e *effects) drops() string {
	var processed, dropped uint64
	for _, s := range e.seen.Softnet {
		processed += uint64(s.Processed)
		dropped += uint64(s.Dropped)
	}
	return fmt.Sprintf("%s of %s packets were dropped before a CPU processed them", unit.FormatCount(int64(dropped)), unit.FormatCount(int64(processed)))
}

// fewInterrupts is the least number of interrupts that shows where they go.
const fewInterrupts = 10

// irq: the queue's counter must rise on the CPUs of the list and nowhere else. An interrupt in
// flight when the list was written may still reach the old CPU.
func (e *effects) irq(c *Change) (effect, what string) {
	var number int
	if _, err := fmt.Sscanf(c.Path, "proc/irq/%d/", &number); err != nil {
		return NotShown, "which interrupt is not known"
	}
	wanted, err := (&Cores{}).set(c.After)
	if err != nil {
		return NotShown, err.Error()
	}
	var inside, outside uint64
	var elsewhere []int
	for _, line := range e.seen.IRQs {
		for _, cpu := range line.CPUs {
			switch {
			case line.IRQ != number:
			case slices.Contains(wanted, cpu.CPU):
				inside += uint64(cpu.Count)
			default:
				outside += uint64(cpu.Count)
				elsewhere = append(elsewhere, cpu.CPU)
			}
		}
	}
	switch {
	case inside+outside < fewInterrupts:
		return NotShown, fmt.Sprintf("%d interrupts in %.1f s are too few; give a URL, or verify under load", inside+outside, e.seconds)
	case outside <= inside/100:
		return InEffect, fmt.Sprintf("%s interrupts on %s, %d elsewhere", unit.FormatCount(int64(inside)), cores.Name(wanted), outside)
	}
	return NotInEffect, fmt.Sprintf("%s interrupts on %s, %s on %s", unit.FormatCount(int64(inside)), cores.Name(wanted),
		unit.FormatCount(int64(outside)), cores.Name(elsewhere))
}

// settled: without irqbalance every interrupt stays on one CPU, unless the hardware divides it.
func (e *effects) settled(c *Change) (effect, what string) {
	if c.After == running {
		return NotShown, "the daemon runs; when it moves an interrupt next is its own decision"
	}
	settled, moved := 0, 0
	for _, line := range e.seen.IRQs {
		total, cpus := uint64(0), 0
		for _, cpu := range line.CPUs {
			if total += uint64(cpu.Count); cpu.Count > 0 {
				cpus++
			}
		}
		switch {
		case total < fewInterrupts:
		case cpus == 1:
			settled++
		default:
			moved++
		}
	}
	if settled == 0 || moved > 0 {
		return NotShown, fmt.Sprintf("the daemon is stopped; in %.1f s %d interrupts stayed on one CPU, %d came to several", e.seconds, settled, moved)
	}
	return InEffect, fmt.Sprintf("the daemon is stopped; in %.1f s each of %d interrupts stayed on one CPU", e.seconds, settled)
}

// listener: listen(2) takes the smaller of somaxconn and what the server asks for, when it begins
// to listen.
func (e *effects) listener(c *Change) (effect, what string) {
	most, err := strconv.Atoi(c.After)
	if err != nil {
		return NotShown, err.Error()
	}
	limits, err := observe.AcceptQueues(e.way.load.Server)
	switch {
	case err != nil:
		return NotShown, "the server's accept queue is unavailable: " + err.Error()
	case len(limits) == 0:
		return NotShown, "no socket of this network namespace listens for " + e.way.load.URL
	case slices.Min(limits) > most:
		return NotInEffect, fmt.Sprintf("the server's accept queue holds %s: it listens since before the change; start it again",
			unit.FormatCount(int64(slices.Min(limits))))
	case slices.Max(limits) < most:
		return NotShown, fmt.Sprintf("the server's accept queue holds %s, which is what it requested, or the limit when it began to listen",
			unit.FormatCount(int64(slices.Max(limits))))
	}
	return InEffect, fmt.Sprintf("the server's accept queue holds %s", unit.FormatCount(int64(most)))
}

// perPacket returns an interface's interrupts per packet that the host processed.
func (e *effects) perPacket(c *Change) string {
	name, _, _ := strings.Cut(c.Of, " ")
	mine := map[int]bool{}
	for _, irq := range nic.IRQsOf(e.host.tree(), name) {
		mine[irq.Number] = true
	}
	var interrupts, packets uint64
	for _, line := range e.seen.IRQs {
		for _, cpu := range line.CPUs {
			if mine[line.IRQ] {
				interrupts += uint64(cpu.Count)
			}
		}
	}
	for _, s := range e.seen.Softnet {
		packets += uint64(s.Processed)
	}
	return fmt.Sprintf("%s interrupts of %s and %s packets of all interfaces in %.1f s", unit.FormatCount(int64(interrupts)), name,
		unit.FormatCount(int64(packets)), e.seconds)
}
