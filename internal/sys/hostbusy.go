package sys

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// userHz is the unit of /proc/stat, a constant of the kernel's interface on
// every architecture that Go runs on: 100 per second.
const userHz = 100

// HostBusyNs is the CPU time that the whole host has spent on anything but
// idling, nanoseconds: user, nice, system, irq and softirq of /proc/stat. It
// counts by the tick. Stolen time is not the host's.
func HostBusyNs() (int64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseHostBusy(text)
}

func parseHostBusy(text []byte) (int64, error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	f := bytes.Fields(line)
	if len(f) < 8 || string(f[0]) != "cpu" {
		return 0, fmt.Errorf("/proc/stat: first line is %q", line)
	}
	var ticks int64
	for _, i := range []int{1, 2, 3, 6, 7} {
		n, err := strconv.ParseInt(string(f[i]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		ticks += n
	}
	return ticks * (1e9 / userHz), nil
}
