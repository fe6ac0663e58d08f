package run

import (
	"fmt"
	"os"
	"strings"

	"ceiling/internal/sys"
	"ceiling/internal/unit"
	"ceiling/spec"
)

// ownFiles is what a run opens besides its connections: the record, the
// samplers' files, a ring per thread.
const ownFiles = 256

// checkLimits refuses what the host cannot give, and says which command would
// raise the limit.
func checkLimits(connections int, a spec.Address) error {
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
		return nil // a host without the file has no such limit to check against
	}
	ports := high - low + 1
	if connections > ports {
		return fmt.Errorf("%s connections to one address need as many local ports, there are %s (net.ipv4.ip_local_port_range = %d %d); raise it before the run: sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"",
			unit.FormatCount(int64(connections)), unit.FormatCount(int64(ports)), low, high)
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
