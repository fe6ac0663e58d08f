package doctor

import (
	"strconv"
	"time"

	"ceiling/record"
)

// Facts is the input of the checks. Unknown numbers are -1 and unknown texts "", unless stated
// otherwise.
type Facts struct {
	When   time.Time
	Env    record.Environment
	Files  Files
	Target Target
	// Activity of the host over about a second.
	Activity Activity
	Engine   Engine
	// Calibration of the generator: "" if one fits this host, otherwise why not.
	Calibration string
}

// Files are values read once below /proc and /sys.
type Files struct {
	// ScalingDriver of the clock: "intel_pstate", "acpi-cpufreq".
	ScalingDriver string
	// Turbo is "on", "off" or "" if unknown.
	Turbo string
	// Throttles counts thermal throttling of all cores since boot.
	Throttles int64
	// Power is "mains", "battery" (and discharging) or "".
	Power string
	// Nodes are the CPU lists of the NUMA nodes.
	Nodes []string
	// ClockSources that the kernel can use.
	ClockSources string
	// Bytes of memory.
	MemTotal, MemAvailable, SwapTotal, SwapFree int64
	// TimeWait is the number of TCP sockets in TIME_WAIT.
	TimeWait int64
	// Conntrack entries, their limit, and how many seconds one stays in TIME_WAIT; -1 if
	// connections are not tracked.
	Conntrack, ConntrackMax, ConntrackTimeWaitS int64
	// SchedStat is set if the kernel records the run-queue delay of threads.
	SchedStat bool
	// HidePID is set if /proc shows users only their own processes.
	HidePID bool
}

// Target is the URL under test and the path to it. The zero value is none.
type Target struct {
	URL string
	// Local is set if the address is this host's own; Namespace is a process in another network
	// namespace of this host that has the address, 0 for none.
	Local     bool
	Namespace int
	Unix      bool
	// Iface is the interface towards it; "" with Err if unknown.
	Iface string
	Err   string
	// SpeedMbit of the link in 10⁶ bit/s and its duplex; MTU in bytes.
	SpeedMbit int64
	Duplex    string
	MTU       int64
	// RxQueues of the interface, and whether the kernel spreads a queue over several CPUs (RPS).
	RxQueues int64
	RPS      bool
	// Qdisc of the interface; QdiscErr is why it is unknown.
	Qdisc    Qdisc
	QdiscErr string
	// Listeners at the address on this host, and the processes that hold them; ServerErr is why
	// they are unknown.
	Listeners int
	Server    []Process
	ServerErr string
}

// Qdisc is the root queueing discipline of an interface.
type Qdisc struct {
	Kind string // "tbf"; "" none
	// BytesPerSecond is the rate of a tbf or htb; 0 for others.
	BytesPerSecond uint64
}

// Process is a process and its CPU use, in cores.
type Process struct {
	PID   int
	Comm  string
	Cores float64
}

// Activity is the host's activity over WidthS seconds.
type Activity struct {
	WidthS float64
	Err    string // why there is none
	// Cores is the number online; Busy is their total use, Own this process's, Steal the
	// hypervisor's.
	Cores, Busy, Own, Steal float64
	// Foreign lists other processes by CPU use, busiest first, without this one and the server.
	Foreign []Process
	// Server is the CPU use of the target's processes.
	Server float64
	// Throttles is thermal throttling, SwapPages pages read from and written to
	// swap, over the interval; -1 unknown.
	Throttles, SwapPages int64
	// IRQBalance is set if the daemon runs.
	IRQBalance bool
}

// Engine is the result of probing the load engine.
type Engine struct {
	Name     string // "uring" or "epoll"
	Why      string
	Features []string
	Err      string
}

// sysctl returns a numeric value of the environment; ok is false if it is not a number.
func (f *Facts) sysctl(name string) (int64, bool) {
	n, err := strconv.ParseInt(f.Env.Sysctls[name], 10, 64)
	return n, err == nil
}

// remote reports whether a target is known and on another host.
func (t *Target) remote() bool {
	return t.URL != "" && t.Err == "" && !t.Local && t.Namespace == 0 && !t.Unix
}
