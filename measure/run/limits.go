package run

import (
	"fmt"
	"os"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/sys"
	"ceiling/internal/unit"
)

// ownFiles is what a run opens besides its connections: the record, the samplers' files, a ring per
// thread.
const ownFiles = 256

// checkLimits fails if the host's limits are too low, and names the command that raises them. A
// connection takes a port of its address pair, so each source address adds a full port range (0:
// only the kernel's choice).
func checkLimits(connections, sources int, a spec.Address) error {
	need := uint64(connections + ownFiles)
	soft, hard, err := sys.RaiseOpenFiles(need)
	if err != nil {
		return err
	}
	if soft < need {
		return fmt.Errorf("%s connections need %s open files, the limit is %s; raise it before the run: ulimit -Hn %d && ulimit -n %d (as root)",
			unit.FormatCount(int64(connections)), unit.FormatCount(int64(need)), unit.FormatCount(int64(hard)), need, need)
	}
	if a.Network != "tcp" {
		return nil
	}
	low, high, err := localPorts()
	if err != nil {
		return nil // a host without the file has no such limit
	}
	ports := high - low + 1
	if connections <= ports*max(sources, 1) {
		return nil
	}
	from := "one address of this host"
	if sources > 1 {
		from = fmt.Sprintf("%d addresses of this host", sources)
	}
	return fmt.Errorf("%s connections to one address need as many local ports; from %s there are %s (net.ipv4.ip_local_port_range = %d %d); raise it before the run: sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\", or spread them over %d local addresses: --source-ips",
		unit.FormatCount(int64(connections)), from, unit.FormatCount(int64(ports*max(sources, 1))), low, high, (connections+ports-1)/ports)
}

// ownThreads is what the program needs besides its load threads: the runtime's, the observers'.
const ownThreads = 16

// checkTasks fails if the cgroup does not let this process start its load threads: the runtime
// ends the program when it cannot start one.
func checkTasks(threads int) error {
	dir := sys.OwnCgroup("pids")
	used, most := numbers(dir+"/pids.current"), numbers(dir+"/pids.max")
	if len(used) != 1 || len(most) != 1 { // none, or "max"
		return nil
	}
	if need := used[0] + int64(threads+ownThreads); need > most[0] {
		return fmt.Errorf("%d load threads and %d others need a cgroup of %d tasks; %s/pids.max is %d, and %d are there; raise it, or use fewer threads (-t)",
			threads, ownThreads, need, dir, most[0], used[0])
	}
	return nil
}

func localPorts() (low, high int, err error) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscan(strings.TrimSpace(string(b)), &low, &high); err != nil {
		return 0, 0, fmt.Errorf("net.ipv4.ip_local_port_range: %w", err)
	}
	return low, high, nil
}
