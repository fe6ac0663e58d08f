package record

import (
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/sys"
)

// ReadEnvironment reads this host and process from /proc and /sys; ceiling is this program's
// version. It takes some milliseconds, more with many CPUs.
func ReadEnvironment(ceiling string) Environment {
	env := readEnvironment(os.DirFS("/"))
	env.Version, env.Go, env.Arch = ceiling, runtime.Version(), runtime.GOARCH
	if env.CoresAllowed == 0 {
		env.CoresAllowed = runtime.NumCPU() // sched_getaffinity(2)
	}
	return env
}

// readEnvironment reads the files below a root. What is unreadable or unexpected stays empty: no
// run depends on it.
func readEnvironment(root fs.FS) Environment {
	r := host{root}
	env := Environment{
		Host:        r.text("proc/sys/kernel/hostname"),
		BootID:      r.text("proc/sys/kernel/random/boot_id"),
		Kernel:      r.text("proc/sys/kernel/osrelease"),
		CoresOnline: countCPUs(r.text("sys/devices/system/cpu/online")),
		Siblings:    r.siblings(),
		Governor:    r.governor(),
		IRQBalance:  r.irqBalance(),
		Interfaces:  r.interfaces(),
		CgroupCPUs:  r.cgroupCPUs(),
		Sysctls:     r.sysctls(),
		Limits:      r.limits(),
		ClockSource: r.text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
	}
	cpuinfo := []byte(r.text("proc/cpuinfo"))
	env.CPUModel = cpuModel(cpuinfo)
	env.Virtual = r.virtual(cpuinfo)
	env.CPUsAllowed, env.CoresAllowed = r.cpusAllowed()
	// meminfo's kB are 1024 bytes (Documentation/filesystems/proc.rst).
	kib, isKiB := strings.CutSuffix(sys.Field([]byte(r.text("proc/meminfo")), "MemTotal"), " kB")
	if n, err := strconv.ParseUint(kib, 10, 54); err == nil && isKiB {
		env.MemoryBytes = n << 10
	}
	return env
}

// host is the root of a file system with /proc and /sys.
type host struct{ root fs.FS }

// text returns a file's content without surrounding blanks, "" if it is unreadable.
func (h host) text(name string) string {
	return sys.FileText(h.root, name)
}

// cpusAllowed returns the CPUs that some thread of this process may use, as a list, and their number.
// The main thread alone does not tell: an earlier run of this process may have had it watch the
// sockets from one CPU, and Go keeps a main thread whose goroutine has ended (runtime/proc.go, mexit).
func (h host) cpusAllowed() (list string, n int) {
	threads, err := fs.ReadDir(h.root, "proc/self/task")
	if err != nil {
		return "", 0
	}
	var all []int
	for _, t := range threads {
		status := h.text(path.Join("proc/self/task", t.Name(), "status"))
		if cpus, err := spec.ParseCPUList(sys.Field([]byte(status), "Cpus_allowed_list")); err == nil {
			all = append(all, cpus...) // a thread that has ended has none
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return spec.FormatCPUList(all), len(all)
}

// countCPUs counts the CPUs in a list; 0 if it is invalid.
func countCPUs(list string) int {
	cpus, err := spec.ParseCPUList(list)
	if err != nil {
		return 0
	}
	return len(cpus)
}

// cpuModel returns the model's name; arm64 kernels only give its numbers
// (arch/arm64/kernel/cpuinfo.c, c_show).
func cpuModel(cpuinfo []byte) string {
	for _, name := range []string{"model name", "cpu model", "cpu"} {
		if model := sys.Field(cpuinfo, name); model != "" {
			return model
		}
	}
	implementer, part := sys.Field(cpuinfo, "CPU implementer"), sys.Field(cpuinfo, "CPU part")
	if implementer == "" {
		return ""
	}
	return "implementer " + implementer + ", part " + part
}

// each reads one file of every CPU, by ascending CPU number.
func (h host) each(file string) []string {
	names, err := fs.Glob(h.root, "sys/devices/system/cpu/cpu[0-9]*/"+file)
	if err != nil {
		return nil
	}
	number := func(name string) int {
		cpu := strings.Split(strings.TrimPrefix(name, "sys/devices/system/cpu/cpu"), "/")[0]
		n, err := strconv.Atoi(cpu)
		if err != nil {
			return 0
		}
		return n
	}
	slices.SortFunc(names, func(a, b string) int { return number(a) - number(b) })
	var texts []string
	for _, name := range names {
		texts = append(texts, h.text(name))
	}
	return texts
}

func (h host) siblings() []string {
	var groups []string
	for _, list := range h.each("topology/thread_siblings_list") {
		if countCPUs(list) > 1 && !slices.Contains(groups, list) {
			groups = append(groups, list)
		}
	}
	return groups
}

func (h host) governor() string {
	governors := h.each("cpufreq/scaling_governor")
	slices.Sort(governors)
	governors = slices.Compact(governors)
	switch len(governors) {
	case 0:
		return ""
	case 1:
		return governors[0]
	}
	return "mixed"
}

// virtual looks for a hypervisor: x86 has a CPU flag for it, and firmware names the maker of the
// machine. Clouds sell bare-metal machines under the same maker's name, which the flag
// distinguishes; arm64 has no flag.
func (h host) virtual(cpuinfo []byte) string {
	flags := strings.Fields(sys.Field(cpuinfo, "flags"))
	vendor := h.text("sys/class/dmi/id/sys_vendor")
	product := h.text("sys/class/dmi/id/product_name")
	name := strings.TrimSpace(vendor + " " + product)
	known := false
	for _, maker := range []string{"QEMU", "KVM", "VMware", "VirtualBox", "Xen", "Bochs", "Virtual Machine", "Google Compute Engine",
		"Amazon EC2", "OpenStack", "DigitalOcean", "Hetzner", "Alibaba Cloud ECS", "Parallels"} {
		known = known || strings.Contains(name, maker)
	}
	switch {
	case len(flags) > 0 && !slices.Contains(flags, "hypervisor"):
		return ""
	case len(flags) == 0 && (!known || strings.Contains(product, "metal")):
		return ""
	case name != "":
		return name
	}
	if hypervisor := h.text("sys/hypervisor/type"); hypervisor != "" {
		return hypervisor
	}
	return "unnamed"
}

func (h host) sysctls() map[string]string {
	values := map[string]string{}
	for _, name := range []string{
		"fs.file-max", "fs.nr_open",
		"kernel.io_uring_disabled",
		"net.core.busy_poll", "net.core.busy_read",
		"net.core.default_qdisc",
		"net.core.netdev_budget", "net.core.netdev_budget_usecs", "net.core.netdev_max_backlog",
		"net.core.rmem_max", "net.core.wmem_max",
		"net.core.rps_sock_flow_entries",
		"net.core.somaxconn",
		"net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
		"net.ipv4.tcp_abort_on_overflow",
		"net.ipv4.tcp_congestion_control",
		"net.ipv4.tcp_fin_timeout",
		"net.ipv4.tcp_max_orphans",
		"net.ipv4.tcp_max_syn_backlog",
		"net.ipv4.tcp_max_tw_buckets",
		"net.ipv4.tcp_mem", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
		"net.ipv4.tcp_notsent_lowat",
		"net.ipv4.tcp_slow_start_after_idle",
		"net.ipv4.tcp_syncookies",
		"net.ipv4.tcp_timestamps",
		"net.ipv4.tcp_tw_reuse",
		"net.netfilter.nf_conntrack_max",
		"vm.overcommit_memory", "vm.swappiness",
	} {
		file := "proc/sys/" + strings.ReplaceAll(name, ".", "/")
		if value := h.text(file); value != "" {
			values[name] = strings.Join(strings.Fields(value), " ")
		}
	}
	return values
}

// limits reads fixed-width columns (fs/proc/base.c, proc_pid_limits): a name of several words,
// soft, hard, and a unit.
func (h host) limits() map[string]string {
	limits := map[string]string{}
	for line := range strings.SplitSeq(h.text("proc/self/limits"), "\n") {
		for prefix, name := range map[string]string{"Max open files": "nofile", "Max locked memory": "memlock"} {
			rest, found := strings.CutPrefix(line, prefix)
			if columns := strings.Fields(rest); found && len(columns) >= 2 {
				limits[name] = columns[0] + "/" + columns[1]
			}
		}
	}
	return limits
}

// cgroupCPUs returns the smallest CPU quota between this process's cgroup and the root, in cores;
// 0 without one. A container sees its own group as the root of the mount.
func (h host) cgroupCPUs() float64 {
	mount, err := sys.ParseCgroupMount([]byte(h.text("proc/self/mountinfo")))
	if err != nil {
		return 0
	}
	group, found := sys.ParseCgroupPath([]byte(h.text("proc/self/cgroup")), mount.Version)
	if !found {
		return 0
	}
	dir, within := mount.Dir(group)
	if !within {
		dir = mount.Point
	}
	least := 0.0
	for dir = path.Clean(dir); ; dir = path.Dir(dir) {
		if cpus := h.quota(strings.TrimPrefix(dir, "/"), mount.Version); cpus > 0 && (least == 0 || cpus < least) {
			least = cpus
		}
		if len(dir) <= len(mount.Point) {
			return least
		}
	}
}

// quota returns a group's own limit in cores; 0 for none.
func (h host) quota(dir string, version int) float64 {
	limit := h.text(dir + "/cpu.max") // "max 100000" or "200000 100000"
	if version == 1 {
		limit = h.text(dir+"/cpu.cfs_quota_us") + " " + h.text(dir+"/cpu.cfs_period_us") // "-1" is none
	}
	quota, period, ok := sys.ParseCPUMax([]byte(limit))
	if !ok || quota < 0 {
		return 0
	}
	return float64(quota) / float64(period)
}
