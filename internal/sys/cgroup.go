package sys

import "errors"

// CPUStat is the bandwidth part of a cgroup's cpu.stat since the group was made.
type CPUStat struct {
	Periods, Throttled uint64
	ThrottledNs        uint64
}

// ErrCPUStat tells a group without the CPU controller.
var ErrCPUStat = errors.New("cpu.stat has no nr_periods, nr_throttled and throttled time")

// ParseCPUStat reads the text of cpu.stat, of either version of cgroups.
func ParseCPUStat(text []byte, s *CPUStat) error {
	*s = CPUStat{}
	found := 0
	for name, value := range Fields(text) {
		switch string(name) {
		case "nr_periods":
			found += counter(value, &s.Periods)
		case "nr_throttled":
			found += counter(value, &s.Throttled)
		case "throttled_time":
			found += counter(value, &s.ThrottledNs)
		case "throttled_usec":
			found += counter(value, &s.ThrottledNs)
			s.ThrottledNs *= 1000
		}
	}
	if found != 3 {
		return ErrCPUStat
	}
	return nil
}
