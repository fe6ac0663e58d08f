//go:build linux

package tune

import (
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
	knobFiles       = "open_files"
	knobOffload     = "offload NAME"
)

// Knob describes a knob: docs/tuning.md has the rest.
type Knob struct {
	Name string `json:"knob"`
	// Does says in one line what it does.
	Does string `json:"does"`
	// Doc is the page of the kernel or the tool.
	Doc string `json:"doc"`
}

const (
	docNet     = "https://docs.kernel.org/admin-guide/sysctl/net.html"
	docIP      = "https://docs.kernel.org/networking/ip-sysctl.html"
	docScaling = "https://docs.kernel.org/networking/scaling.html"
	docNAPI    = "https://docs.kernel.org/networking/napi.html"
	docIRQ     = "https://docs.kernel.org/core-api/irq/irq-affinity.html"
	docFreq    = "https://docs.kernel.org/admin-guide/pm/cpufreq.html"
	docEthtool = "https://man7.org/linux/man-pages/man8/ethtool.8.html"
)

// Knobs returns the knobs that show and docs/tuning.md explain. A profile can also set any other
// sysctl below net, fs, vm or kernel.
func Knobs() []Knob {
	return []Knob{
		{"net.core.somaxconn", "longest accept queue that a server may ask for", docNet},
		{"net.core.netdev_max_backlog", "packets that wait for a CPU which RPS chose", docNet},
		{"net.ipv4.tcp_max_syn_backlog", "half-open connections that a listener holds", docIP},
		{"net.ipv4.ip_local_port_range", "ports for outgoing connections", docIP},
		{"net.ipv4.tcp_tw_reuse", "takes ports in TIME_WAIT again after a second", docIP},
		{"net.ipv4.tcp_fin_timeout", "seconds that an orphaned connection waits for the peer's FIN", docIP},
		{"net.ipv4.tcp_slow_start_after_idle", "a connection that paused begins with a small window again", docIP},
		{"net.ipv4.tcp_congestion_control", "how fast TCP sends", docIP},
		{"net.netfilter.nf_conntrack_max", "connections that the firewall keeps track of", "https://docs.kernel.org/networking/nf_conntrack-sysctl.html"},
		{knobSocketFlows, "flows whose reader's CPU is remembered (RFS)", docScaling},
		{"net.core.busy_poll", "µs that poll and epoll look at the NIC before they sleep", docNet},
		{"net.core.busy_read", "µs that a read looks at the NIC before it sleeps", docNet},
		{knobRPS, "CPUs that process the packets of a receive queue (RPS)", docScaling},
		{knobFlowCount, "flows of a receive queue that follow their reader (RFS)", docScaling},
		{knobXPS, "CPUs that send through a transmit queue (XPS)", docScaling},
		{knobIRQ, "CPU that serves the interrupt of a queue", docIRQ},
		{knobIRQBalance, "daemon that moves interrupts from core to core", "https://github.com/Irqbalance/irqbalance"},
		{knobDefer, "polls without packets before interrupts are switched on again", docNAPI},
		{knobFlush, "ns between those polls", docNAPI},
		{nicQueues, "receive and transmit queues of the NIC", docEthtool},
		{nicRxRing, "packets that a receive queue holds", docEthtool},
		{nicTxRing, "packets that a transmit queue holds", docEthtool},
		{nicRxUsecs, "µs that the NIC waits for more packets before it interrupts", docEthtool},
		{nicTxUsecs, "µs that it waits before it reports packets as sent", docEthtool},
		{nicAdaptive, "the driver chooses these waits by the traffic", docEthtool},
		{knobOffload, "work that the NIC or the stack does for many packets at once", docEthtool},
		{knobMTU, "bytes of the largest packet", "https://man7.org/linux/man-pages/man7/netdevice.7.html"},
		{knobGovernor, "how the clock of the CPUs follows the load", docFreq},
		{knobFiles, "descriptors a process may have, for logins and services", "https://man7.org/linux/man-pages/man5/limits.conf.5.html"},
	}
}

// planner turns settings into changes, on one host.
type planner struct {
	host  *Host
	tree  fs.FS
	nic   nic.Interface
	noNIC error
	cores Cores
	plan  *Plan
}

// errAbsent marks a setting that does not exist on this host.
var errAbsent = errors.New("not on this host")

func absent(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, errAbsent)...)
}

// planner reads what all settings need.
func (h *Host) planner(o Options) (*planner, error) {
	k := &planner{host: h, tree: h.tree(), plan: &Plan{}}
	name := o.Interface
	if name == "" {
		name = nic.Default(k.tree)
	}
	k.nic, k.noNIC = nic.Read(k.tree, name)
	switch {
	case k.noNIC != nil && o.Interface != "":
		return nil, k.noNIC
	case k.noNIC != nil:
		k.noNIC = absent("no default route names an interface; name one with --interface")
	}
	var err error
	k.cores, err = coresOf(k.tree, &k.nic, o.Interrupts)
	return k, err
}

// Plan reads the host and returns what a profile would change. It changes nothing. A setting that
// is not optional and not possible is an error.
func (h *Host) Plan(p Profile, o Options) (*Plan, error) {
	plan := &Plan{Profile: p.Name, Changes: []Change{}, Already: []Change{}, Skipped: []Skipped{}, host: *h}
	err := h.inside(func(h *Host) error {
		k, err := h.planner(o)
		if err != nil {
			return err
		}
		k.plan, plan.Cores = plan, k.cores
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
		k.plan.Skipped = append(k.plan.Skipped, Skipped{s.Set, withoutAbsent(err)})
		return nil
	}
	return fmt.Errorf("%w; nothing was changed", err)
}

// add reads the current value and files the change accordingly.
func (k *planner) add(s *Setting, c *Change) error {
	c.Knob, c.Why = s.Set, s.Why
	now, err := k.host.read(c)
	switch {
	case c.Kind == KindFile && errors.Is(err, fs.ErrNotExist):
		c.Absent = true
		for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
			if _, err := fs.Stat(k.tree, dir); err == nil {
				break
			}
			c.NewDirs++
		}
	case errors.Is(err, fs.ErrNotExist) && c.Kind == KindValue:
		return absent("%s does not exist here (/%s)", c, c.Path)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errUnsupported), errors.Is(err, errHostOnly):
		return fmt.Errorf("%w: %w", err, errAbsent)
	case err != nil:
		return err
	}
	c.Before = now
	enough := s.Least && atLeast(now, c.After)
	if enough {
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
	if isSysctl(s.Set) {
		file := "proc/sys/" + strings.ReplaceAll(s.Set, ".", "/")
		return []Change{{Kind: KindValue, Path: file, After: s.To}}, nil
	}
	switch s.Set {
	case knobGovernor:
		return k.governor(s)
	case knobIRQBalance:
		if s.To != running && s.To != stopped {
			return nil, fmt.Errorf("irqbalance is %s or %s, not %q", running, stopped, s.To)
		}
		return []Change{{Kind: KindService, Path: knobIRQBalance, After: s.To}}, nil
	case knobFiles:
		return k.openFiles(s)
	}
	if k.noNIC != nil {
		return nil, k.noNIC
	}
	dir := "sys/class/net/" + k.nic.Name
	switch s.Set {
	case knobDefer, knobFlush, knobMTU:
		return []Change{{Of: k.nic.Name, Kind: KindValue, Path: path.Join(dir, s.Set), After: s.To}}, nil
	case knobRPS:
		return k.eachQueue("rx", knobRPS, s, func(_, _ int, cpus []int) string { return nic.Mask(cpus) })
	case knobXPS:
		return k.eachQueue("tx", knobXPS, s, func(i, n int, cpus []int) string { return nic.Mask(part(cpus, i, n)) })
	case knobFlowCount:
		return k.flowCount(s)
	case knobIRQ:
		return k.irqs(s)
	}
	return []Change{{Of: k.nic.Name, Kind: KindNIC, Path: k.nic.Name + "/" + s.Set, After: s.To}}, nil
}

// part returns every n-th CPU from the i-th: each CPU gets one of n queues. With more queues than
// CPUs, several queues share one.
func part(cpus []int, i, n int) []int {
	if len(cpus) == 0 {
		return nil
	}
	if n > len(cpus) {
		return []int{cpus[i%len(cpus)]}
	}
	var mine []int
	for j := i; j < len(cpus); j += n {
		mine = append(mine, cpus[j])
	}
	return mine
}

func (k *planner) eachQueue(way, file string, s *Setting, value func(i, n int, cpus []int) string) ([]Change, error) {
	cpus, err := k.cores.set(s.To)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Set, err)
	}
	dirs := nic.Queues(k.tree, k.nic.Name, way)
	var changes []Change
	for i, dir := range dirs {
		changes = append(changes, Change{Of: k.nic.Name + " " + path.Base(dir), Kind: KindValue, Path: path.Join(dir, file),
			After: value(i, len(dirs), cpus)})
	}
	if len(changes) == 0 {
		return nil, absent("%s has no %s queues in /sys", k.nic.Name, way)
	}
	return changes, nil
}

// flowCount takes a number for each queue, or one for all of them: "32768/queues", of which each
// gets its share, rounded up to a power of two as the kernel does.
func (k *planner) flowCount(s *Setting) ([]Change, error) {
	text, shared := strings.CutSuffix(s.To, "/queues")
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%s: invalid number of flows %q; give 4096, or 32768/queues", s.Set, s.To)
	}
	dirs := nic.Queues(k.tree, k.nic.Name, "rx")
	if shared && len(dirs) > 0 {
		share, each := (n+len(dirs)-1)/len(dirs), 1
		for each < share {
			each *= 2
		}
		n = each
	}
	var changes []Change
	for _, dir := range dirs {
		changes = append(changes, Change{Of: k.nic.Name + " " + path.Base(dir), Kind: KindValue, Path: path.Join(dir, knobFlowCount),
			After: strconv.Itoa(n)})
	}
	return changes, nil
}

// irqs gives each queue one CPU, round robin: if receive and transmit have separate interrupts,
// both go there.
func (k *planner) irqs(s *Setting) ([]Change, error) {
	cpus, err := k.cores.set(s.To)
	if err != nil || len(cpus) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%s needs CPUs", s.Set))
	}
	if len(k.nic.IRQs) == 0 {
		return nil, absent("%s has no interrupts of its own", k.nic.Name)
	}
	var changes []Change
	for _, irq := range k.nic.IRQs {
		changes = append(changes, Change{Of: fmt.Sprintf("%s IRQ %d (%s)", k.nic.Name, irq.Number, irq.Name), Kind: KindValue,
			Path: fmt.Sprintf("proc/irq/%d/smp_affinity_list", irq.Number), After: strconv.Itoa(cpus[irq.Queue()%len(cpus)])})
	}
	return changes, nil
}

func (k *planner) governor(s *Setting) ([]Change, error) {
	dirs, err := fs.Glob(k.tree, "sys/devices/system/cpu/cpu[0-9]*/cpufreq")
	if err != nil || len(dirs) == 0 {
		return nil, absent("the kernel does not control the clock (no cpufreq: the hypervisor does)")
	}
	var changes []Change
	for _, dir := range dirs {
		if offers := sys.FileText(k.tree, dir+"/scaling_available_governors"); offers != "" && !slices.Contains(strings.Fields(offers), s.To) {
			return nil, fmt.Errorf("unknown governor %q; this driver has %s", s.To, offers)
		}
		changes = append(changes, Change{Of: path.Base(path.Dir(dir)), Kind: KindValue, Path: dir + "/scaling_governor", After: s.To})
	}
	return changes, nil
}

// Files that raise the limit of open files: pam_limits(8) reads the first at every login,
// systemd(1) the other at daemon-reexec, for services started after it.
const (
	limitsFile  = "etc/security/limits.d/90-ceiling.conf"
	managerFile = "etc/systemd/system.conf.d/90-ceiling.conf"
	unitDir     = "etc/systemd/system/"
)

// openFiles takes a number, or "NUMBER for UNIT.service".
func (k *planner) openFiles(s *Setting) ([]Change, error) {
	number, unit, one := strings.Cut(s.To, " for ")
	if n, err := strconv.ParseUint(number, 10, 31); err != nil || n < 64 {
		return nil, fmt.Errorf("%s: invalid number of open files %q; give 1048576, or 1048576 for nginx.service", s.Set, s.To)
	}
	if most, err := strconv.ParseUint(sys.FileText(k.tree, "proc/sys/fs/nr_open"), 10, 64); err == nil {
		if n, err := strconv.ParseUint(number, 10, 64); err == nil && n > most {
			return nil, fmt.Errorf("%s: %s is above fs.nr_open, %d; set that first", s.Set, number, most)
		}
	}
	if one {
		if strings.Contains(unit, "/") || !strings.HasSuffix(unit, ".service") {
			return nil, fmt.Errorf("%s: invalid unit %q; give its whole name, nginx.service", s.Set, unit)
		}
		k.note("for " + unit + " to take it: systemctl daemon-reload && systemctl restart " + unit)
		return []Change{{Of: unit, Kind: KindFile, Path: unitDir + unit + ".d/90-ceiling.conf", After: "[Service]\nLimitNOFILE=" + number + "\n"}}, nil
	}
	k.note("open files: a login takes the limit from now on; services after systemctl daemon-reexec and their restart")
	return []Change{
		{Of: "logins", Kind: KindFile, Path: limitsFile, After: "* - nofile " + number + "\nroot - nofile " + number + "\n"},
		{Of: "services", Kind: KindFile, Path: managerFile, After: "[Manager]\nDefaultLimitNOFILE=" + number + "\n"},
	}, nil
}

// openFilesHere returns this process's own limit.
func openFilesHere(root fs.FS) string {
	for line := range strings.Lines(sys.FileText(root, "proc/self/limits")) {
		if rest, is := strings.CutPrefix(line, "Max open files"); is {
			if f := strings.Fields(rest); len(f) > 1 {
				return f[0] + " soft, " + f[1] + " hard"
			}
		}
	}
	return "unknown"
}

func (k *planner) note(text string) {
	if !slices.Contains(k.plan.Notes, text) {
		k.plan.Notes = append(k.plan.Notes, text)
	}
}

// isSysctl reports whether name is a sysctl: net.core.somaxconn.
func isSysctl(name string) bool {
	first, rest, dotted := strings.Cut(name, ".")
	return dotted && rest != "" && slices.Contains([]string{"net", "fs", "vm", "kernel"}, first)
}
