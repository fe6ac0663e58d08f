package doctor

import (
	"strconv"
	"time"

	"ceiling/record"
)

// Facts is everything that is judged. Numbers are -1 and text is "" where the
// host does not tell, unless said otherwise.
type Facts struct {
	When   time.Time
	Env    record.Environment
	Files  Files
	Target Target
	// Activity of the host over about a second.
	Activity Activity
	Engine   Engine
	// Calibration of the generator: "" fits this host, otherwise why not.
	Calibration string
}

// Files is what was read once below /proc and /sys.
type Files struct {
	// ScalingDriver of the clock: "intel_pstate", "acpi-cpufreq".
	ScalingDriver string
	// Turbo is "on", "off" or "" unknown.
	Turbo string
	// Throttles counts thermal throttling of all cores since boot.
	Throttles int64
	// Power is "mains", "battery" (and discharging) or "".
	Power string
	// Nodes are the CPU lists of the NUMA nodes.
	Nodes []string
	// ClockSources that the kernel could use.
	ClockSources string
	// Bytes of memory.
	MemTotal, MemAvailable, SwapTotal, SwapFree int64
	// TimeWait is the number of TCP sockets in TIME_WAIT.
	TimeWait int64
	// Conntrack entries, their limit, and the seconds that one in TIME_WAIT
	// stays; -1 where connections are not tracked.
	Conntrack, ConntrackMax, ConntrackTimeWaitS int64
	// SchedStat tells that the kernel keeps the run-queue delay of threads.
	SchedStat bool
	// HidePID tells that /proc shows a person his own processes only.
	HidePID bool
}

// Target is the URL asked about and the way to it. The zero value is none.
type Target struct {
	URL string
	// Local tells that the address is this host's own; Namespace is a process
	// of another network namespace of this host that has the address, 0 none.
	Local     bool
	Namespace int
	Unix      bool
	// Iface is the interface that leads there; "" with Err where unknown.
	Iface string
	Err   string
	// SpeedMbit of the link in 10⁶ bit/s and its duplex; MTU in bytes.
	SpeedMbit int64
	Duplex    string
	MTU       int64
	// RxQueues of the interface, and whether the kernel spreads one over
	// several CPUs (RPS).
	RxQueues int64
	RPS      bool
	// Qdisc of the interface; QdiscErr says why it is not known.
	Qdisc    Qdisc
	QdiscErr string
	// Listeners found at the address on this host, and the processes that hold
	// them; ServerErr says why this is not known.
	Listeners int
	Server    []Process
	ServerErr string
}

// Qdisc is the root queueing discipline of an interface.
type Qdisc struct {
	Kind string // "tbf"; "" none
	// BytesPerSecond that a tbf or htb lets through; 0 for others.
	BytesPerSecond uint64
}

// Process is a process and what it used, in cores.
type Process struct {
	PID   int
	Comm  string
	Cores float64
}

// Activity is what the host did over WidthS seconds.
type Activity struct {
	WidthS float64
	Err    string // why there is none
	// Cores that are online; Busy of them in all, Own by this process, Steal
	// taken by the hypervisor.
	Cores, Busy, Own, Steal float64
	// Foreign processes by the CPU that they used, the busiest first; not this
	// one nor the server.
	Foreign []Process
	// Server is what the target's processes used.
	Server float64
	// Throttles is thermal throttling, SwapPages pages read from and written to
	// swap, over the interval; -1 unknown.
	Throttles, SwapPages int64
	// IRQBalance tells that the daemon runs.
	IRQBalance bool
}

// Engine is what the probe of the load engine found.
type Engine struct {
	Name     string // "uring" or "epoll"
	Why      string
	Features []string
	Err      string
}

// sysctl is a value of the environment's, and whether it is a number there.
func (f *Facts) sysctl(name string) (int64, bool) {
	n, err := strconv.ParseInt(f.Env.Sysctls[name], 10, 64)
	return n, err == nil
}

// remote tells that a target is known and on another host.
func (t *Target) remote() bool {
	return t.URL != "" && t.Err == "" && !t.Local && t.Namespace == 0 && !t.Unix
}
