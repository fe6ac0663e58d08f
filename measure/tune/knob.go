package tune

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/nic"
	"ceiling/internal/sys"
)

// Names of knobs in profiles. A sysctl has its own name.
const (
	knobRPS         = "rps_cpus"
	knobFlowCount   = "rps_flow_cnt"
	knobXPS         = "xps_cpus"
	knobSocketFlows = "net.core.rps_sock_flow_entries"
	knobIRQ         = "irq_affinity"
	knobIRQBalance  = "irqbalance"
	knobDefer       = "napi_defer_hard_irqs"
	knobFlush       = "gro_flush_timeout"
	knobMTU         = "mtu"
	knobGovernor    = "governor"
)

// Parameters by ethtool.
const (
	nicQueues     = "queues"
	nicRxRing     = "rx_ring"
	nicTxRing     = "tx_ring"
	nicRxUsecs    = "rx_usecs"
	nicTxUsecs    = "tx_usecs"
	nicAdaptive   = "adaptive_rx"
	nicOffloadPre = "offload "
)

// knobs are what a profile can set besides sysctls below net, fs, vm and kernel; docs/tuning.md says
// what each does.
func knobs() []string {
	return []string{knobRPS, knobFlowCount, knobXPS, knobIRQ, knobIRQBalance, knobDefer, knobFlush, nicQueues, nicRxRing, nicTxRing,
		nicRxUsecs, nicTxUsecs, nicAdaptive, knobMTU, knobGovernor}
}

// errAbsent marks a setting that does not exist on this host.
var errAbsent = errors.New("not on this host")

func absent(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, errAbsent)...)
}

// planner turns settings into changes, on one host.
type planner struct {
	host  *Host
	nic   nic.Interface
	noNIC error
	plan  *Plan
}

// Plan reads the host and returns what a profile would change. It changes nothing. A setting that
// is not optional and not possible is an error.
func (h *Host) Plan(p Profile, o Options) (*Plan, error) {
	plan := &Plan{Profile: p.Name, Changes: []Change{}, Already: []Change{}, Skipped: []Skipped{}, host: *h}
	err := h.inside(func(h *Host) (err error) {
		k := &planner{host: h, plan: plan}
		k.nic, k.noNIC = nic.Read(h.tree(), cmp.Or(o.Interface, nic.Default(h.tree())))
		if k.noNIC != nil && o.Interface != "" {
			return k.noNIC
		}
		if plan.Cores, err = coresOf(h.tree(), &k.nic, o.Interrupts); err != nil {
			return err
		}
		for i := range p.Settings {
			if err := k.setting(&p.Settings[i]); err != nil {
				return fmt.Errorf("profile %s: %w", p.Name, err)
			}
		}
		return nil
	})
	return plan, err
}

// setting adds the changes of one setting.
func (k *planner) setting(s *Setting) error {
	changes, err := k.resolve(s)
	for i := range changes {
		if err == nil {
			err = k.add(s, &changes[i])
		}
	}
	switch {
	case err == nil:
		return nil
	case s.Optional && errors.Is(err, errAbsent):
		k.plan.Skipped = append(k.plan.Skipped, Skipped{s.Set, strings.TrimSuffix(err.Error(), ": "+errAbsent.Error())})
		return nil
	}
	return fmt.Errorf("%w; nothing was changed", err)
}

// add reads the current value and files the change accordingly.
func (k *planner) add(s *Setting, c *Change) error {
	c.Knob, c.Why = s.Set, s.Why
	now, err := k.host.read(c)
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.Kind == KindValue:
		return absent("%s does not exist here (/%s)", c, c.Path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", err, errAbsent)
	case err != nil:
		return err
	}
	c.Before = now
	if s.Least && atLeast(now, c.After) {
		c.After = now
	}
	if same(c.Knob, now, c.After) {
		k.plan.Already = append(k.plan.Already, *c)
		return nil
	}
	k.plan.Changes = append(k.plan.Changes, *c)
	return nil
}

func atLeast(now, want string) bool {
	a, err1 := strconv.ParseInt(now, 10, 64)
	b, err2 := strconv.ParseInt(want, 10, 64)
	return err1 == nil && err2 == nil && a >= b
}

// resolve returns what a setting changes: Of, Kind, Path and After of each.
func (k *planner) resolve(s *Setting) ([]Change, error) {
	switch {
	case isSysctl(s.Set):
		return []Change{{Kind: KindValue, Path: "proc/sys/" + strings.ReplaceAll(s.Set, ".", "/"), After: s.To}}, nil
	case s.Set == knobGovernor:
		return k.governor(s)
	case s.Set == knobIRQBalance && s.To != running && s.To != stopped:
		return nil, fmt.Errorf("irqbalance is %s or %s, not %q", running, stopped, s.To)
	case s.Set == knobIRQBalance:
		return []Change{{Kind: KindService, Path: knobIRQBalance, After: s.To}}, nil
	case k.noNIC != nil:
		return nil, absent("no default route names an interface; name one with --interface")
	}
	switch s.Set {
	case knobDefer, knobFlush, knobMTU:
		return []Change{{Of: k.nic.Name, Kind: KindValue, Path: path.Join("sys/class/net", k.nic.Name, s.Set), After: s.To}}, nil
	case knobRPS, knobXPS, knobIRQ:
		return k.placed(s)
	case knobFlowCount:
		return k.flowCount(s)
	}
	return []Change{{Of: k.nic.Name, Kind: KindNIC, Path: k.nic.Name + "/" + s.Set, After: s.To}}, nil
}

// placed gives CPUs to queues: all of them to each that receives, parts of them to those that send,
// and to each that interrupts one, round robin: if receive and transmit have separate interrupts,
// both go there.
func (k *planner) placed(s *Setting) ([]Change, error) {
	cpus, err := k.plan.Cores.set(s.To)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.Set, err)
	case s.Set == knobRPS:
		return k.eachQueue("rx", s, func(int, int) string { return nic.Mask(cpus) })
	case s.Set == knobXPS:
		return k.eachQueue("tx", s, func(i, n int) string { return nic.Mask(part(cpus, i, n)) })
	case len(cpus) == 0:
		return nil, fmt.Errorf("%s needs CPUs", s.Set)
	case len(k.nic.IRQs) == 0:
		return nil, absent("%s has no interrupts", k.nic.Name)
	}
	var changes []Change
	for _, irq := range k.nic.IRQs {
		changes = append(changes, Change{Of: fmt.Sprintf("%s IRQ %d (%s)", k.nic.Name, irq.Number, irq.Name), Kind: KindValue,
			Path: fmt.Sprintf("proc/irq/%d/smp_affinity_list", irq.Number), After: strconv.Itoa(cpus[irq.Queue()%len(cpus)])})
	}
	return changes, nil
}

// part returns every n-th CPU from the i-th: each CPU gets one of n queues. With more queues than
// CPUs, several queues share one.
func part(cpus []int, i, n int) (mine []int) {
	for at, cpu := range cpus {
		if at%n == i || at == i%len(cpus) && n > len(cpus) {
			mine = append(mine, cpu)
		}
	}
	return mine
}

// flowCount takes a number for each queue, or one for all of them: "32768/queues", of which each
// gets its share, rounded up to a power of two as the kernel does.
func (k *planner) flowCount(s *Setting) ([]Change, error) {
	text, shared := strings.CutSuffix(s.To, "/queues")
	flows, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || flows < 0 {
		return nil, fmt.Errorf("%s: invalid number of flows %q; give 4096, or 32768/queues", s.Set, s.To)
	}
	return k.eachQueue("rx", s, func(_, queues int) string {
		each := flows
		if shared {
			for each = 1; each*queues < flows; {
				each *= 2
			}
		}
		return strconv.Itoa(each)
	})
}

// eachQueue sets a file of every queue to the value of the i-th of n.
func (k *planner) eachQueue(way string, s *Setting, value func(i, n int) string) (changes []Change, err error) {
	dirs := nic.Queues(k.host.tree(), k.nic.Name, way)
	for i, dir := range dirs {
		changes = append(changes, Change{Of: k.nic.Name + " " + path.Base(dir), Kind: KindValue, Path: path.Join(dir, s.Set),
			After: value(i, len(dirs))})
	}
	if len(changes) == 0 {
		err = absent("%s has no %s queues in /sys", k.nic.Name, way)
	}
	return changes, err
}

func (k *planner) governor(s *Setting) ([]Change, error) {
	dirs, err := fs.Glob(k.host.tree(), "sys/devices/system/cpu/cpu[0-9]*/cpufreq")
	if err != nil || len(dirs) == 0 {
		return nil, absent("the kernel does not control the clock (no cpufreq: the hypervisor does)")
	}
	var changes []Change
	for _, dir := range dirs {
		if offers := sys.FileText(k.host.tree(), dir+"/scaling_available_governors"); offers != "" && !slices.Contains(strings.Fields(offers), s.To) {
			return nil, fmt.Errorf("unknown governor %q; this driver has %s", s.To, offers)
		}
		changes = append(changes, Change{Of: path.Base(path.Dir(dir)), Kind: KindValue, Path: dir + "/scaling_governor", After: s.To})
	}
	return changes, nil
}

// isSysctl reports whether name is a sysctl: net.core.somaxconn.
func isSysctl(name string) bool {
	first, rest, dotted := strings.Cut(name, ".")
	return dotted && rest != "" && slices.Contains([]string{"net", "fs", "vm", "kernel"}, first)
}
