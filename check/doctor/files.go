package doctor

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"

	"ceiling/internal/sys"
)

// host is the root of a file system that contains /proc and /sys.
type host struct{ root fs.FS }

// text returns a file's content, trimmed, "" if unreadable.
func (h host) text(name string) string {
	return sys.FileText(h.root, name)
}

// number returns a file's numeric content, -1 if it has none.
func (h host) number(name string) int64 {
	n, err := strconv.ParseInt(h.text(name), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// glob cannot fail: the patterns are constants.
func (h host) glob(pattern string) []string {
	names, err := fs.Glob(h.root, pattern)
	if err != nil {
		return nil
	}
	return names
}

// readFiles reads what does not change within a second.
func readFiles(root fs.FS) Files {
	h := host{root}
	f := Files{
		ScalingDriver: h.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"),
		Turbo:         h.turbo(),
		Throttles:     h.throttles(),
		Power:         h.power(),
		ClockSources:  h.text("sys/devices/system/clocksource/clocksource0/available_clocksource"),
		TimeWait:      timeWait(h.text("proc/net/sockstat")),
		Conntrack:     h.number("proc/sys/net/netfilter/nf_conntrack_count"),
		ConntrackMax:  h.number("proc/sys/net/netfilter/nf_conntrack_max"),

		ConntrackTimeWaitS: h.number("proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait"),
		SchedStat:          h.schedStat(),
		HidePID:            h.hidePID(),
	}
	for _, name := range h.glob("sys/devices/system/node/node[0-9]*/cpulist") {
		if cpus := h.text(name); cpus != "" { // a node may have only memory
			f.Nodes = append(f.Nodes, cpus)
		}
	}
	memory := h.text("proc/meminfo")
	f.MemTotal, f.MemAvailable = kib(memory, "MemTotal"), kib(memory, "MemAvailable")
	f.SwapTotal, f.SwapFree = kib(memory, "SwapTotal"), kib(memory, "SwapFree")
	return f
}

// kib returns the bytes of a line "Name:   123 kB" (of 1024 bytes); -1 without one.
func kib(text, name string) int64 {
	n := fieldCount(text, name)
	if n < 0 || n > 1<<50 {
		return -1
	}
	return n << 10
}

// fieldCount returns the number of a line "Name: 123" or "name 123"; -1 without one.
func fieldCount(text, name string) int64 {
	n, err := sys.FieldCount([]byte(text), name)
	if err != nil || n > math.MaxInt64 {
		return -1
	}
	return int64(n)
}

// timeWait returns the count after "tw" in "TCP: inuse 5 orphan 0 tw 3 ..."; -1 without one.
func timeWait(sockstat string) int64 {
	_, after, _ := strings.Cut(sys.Field([]byte(sockstat), "TCP"), "tw ")
	return fieldCount("tw "+after, "tw")
}

// turbo has two sources: intel_pstate states when it is off, cpufreq when it is on.
func (h host) turbo() string {
	switch h.text("sys/devices/system/cpu/intel_pstate/no_turbo") {
	case "0":
		return "on"
	case "1":
		return "off"
	}
	switch h.text("sys/devices/system/cpu/cpufreq/boost") {
	case "1":
		return "on"
	case "0":
		return "off"
	}
	return ""
}

// throttles sums the counters of arch/x86/kernel/cpu/mce/therm_throt.c over the CPUs; each CPU of
// a core shows the core's, which is harmless here.
func (h host) throttles() int64 {
	names := h.glob("sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count")
	if len(names) == 0 {
		return -1
	}
	sum := int64(0)
	for _, name := range names {
		sum += max(h.number(name), 0)
	}
	return sum
}

// power is "battery" only if one is discharging: a laptop has both supplies, and a wireless mouse
// has a battery too (scope Device).
func (h host) power() string {
	found := ""
	for _, dir := range h.glob("sys/class/power_supply/*") {
		if h.text(path.Join(dir, "scope")) == "Device" {
			continue
		}
		switch kind := h.text(path.Join(dir, "type")); {
		case kind == "Battery" && h.text(path.Join(dir, "status")) == "Discharging":
			return "battery"
		case kind == "Mains" && h.text(path.Join(dir, "online")) == "1":
			found = "mains"
		}
	}
	return found
}

// schedStat: run time, delay and slices; a kernel that does not record them has no file, or three
// zeros (fs/proc/base.c, proc_pid_schedstat).
func (h host) schedStat() bool {
	fields := strings.Fields(h.text("proc/self/schedstat"))
	return len(fields) == 3 && fields[0] != "0"
}

// hidePID looks for hidepid=1, 2, noaccess or invisible among /proc's mount
// options.
func (h host) hidePID() bool {
	for line := range strings.Lines(h.text("proc/mounts")) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[1] != "/proc" {
			continue
		}
		for option := range strings.SplitSeq(fields[3], ",") {
			if value, found := strings.CutPrefix(option, "hidepid="); found && value != "0" && value != "off" {
				return true
			}
		}
	}
	return false
}

// readInterface fills in the sysfs data of the target's interface.
func (t *Target) readInterface(root fs.FS) {
	h := host{root}
	dir := "sys/class/net/" + t.Iface
	t.SpeedMbit = h.number(dir + "/speed")
	t.Duplex = h.text(dir + "/duplex")
	t.MTU = h.number(dir + "/mtu")
	t.RxQueues = -1
	if queues := h.glob(dir + "/queues/rx-*"); len(queues) > 0 {
		t.RxQueues = int64(len(queues))
		for _, q := range queues {
			t.RPS = t.RPS || strings.Trim(h.text(path.Join(q, "rps_cpus")), "0,") != ""
		}
	}
}
