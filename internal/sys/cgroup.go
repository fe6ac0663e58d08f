package sys

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
)

// Cgroups with the cpu controller: /proc/PID/cgroup has a process's group,
// /proc/self/mountinfo the mount point of the hierarchy, cpu.stat the counters:
//
//	version 1: nr_periods, nr_throttled, throttled_time (ns); cpu.cfs_quota_us, cpu.cfs_period_us
//	version 2: nr_periods, nr_throttled, throttled_usec; cpu.max "QUOTA|max PERIOD"

// CgroupMount is where the hierarchy of the cpu controller is mounted.
type CgroupMount struct {
	Version int    // 1 or 2
	Point   string // directory
	Root    string // path within the hierarchy that is mounted there
}

// ErrCgroupMount means that the host has no such controller.
var ErrCgroupMount = errors.New("/proc/self/mountinfo: no cgroup hierarchy with the cpu controller is mounted")

// ParseCgroupMount finds it in /proc/self/mountinfo (proc(5)): a version 1 mount with the option
// cpu takes precedence over version 2, since a controller is in one hierarchy only.
func ParseCgroupMount(text []byte) (CgroupMount, error) {
	var found CgroupMount
	for line := range strings.Lines(string(text)) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 5 || len(kind) < 2 {
			continue
		}
		m := CgroupMount{Root: unescapeMount(mount[3]), Point: unescapeMount(mount[4])}
		switch {
		case kind[0] == "cgroup" && len(kind) == 3 && hasOption(kind[2], "cpu"):
			m.Version = 1
			return m, nil
		case kind[0] == "cgroup2" && found.Version == 0:
			m.Version = 2
			found = m
		}
	}
	if found.Version == 0 {
		return found, ErrCgroupMount
	}
	return found, nil
}

// Dir returns the directory of a group's files; false if it is outside the mount.
func (m *CgroupMount) Dir(group string) (string, bool) {
	if strings.HasPrefix(group, "/..") {
		return "", false // above the root of this cgroup namespace
	}
	if m.Root == "/" {
		return m.Point + group, true
	}
	below, ok := strings.CutPrefix(group, m.Root)
	return m.Point + below, ok && (below == "" || below[0] == '/')
}

// ParseCgroupPath finds a process's group in /proc/PID/cgroup, one line "ID:CONTROLLERS:PATH" per
// hierarchy (cgroups(7)). Version 2 is the line "0::PATH".
func ParseCgroupPath(text []byte, version int) (string, bool) {
	c := Cursor{Text: text}
	for {
		line, ok := c.Line()
		if !ok {
			return "", false
		}
		id, rest, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		controllers, path, ok := bytes.Cut(rest, []byte(":"))
		if !ok {
			continue
		}
		if version == 2 && string(id) == "0" && len(controllers) == 0 || version == 1 && hasOption(string(controllers), "cpu") {
			return string(path), true
		}
	}
}

func hasOption(options, want string) bool { return slices.Contains(strings.Split(options, ","), want) }

// unescapeMount decodes the octal escapes of mountinfo (fs/proc_namespace.c: blank, tab, newline,
// backslash and #).
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#").Replace(s)
}

// OwnCgroup returns the directory of this process's group of a controller, of either version of
// cgroups at its usual place; "" if it is not there.
func OwnCgroup(controller string) string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		names, group, _ := strings.Cut(rest, ":")
		root := "/sys/fs/cgroup"
		switch {
		case hasOption(names, controller):
			root += "/" + controller
		case id != "0" || names != "":
			continue
		}
		for _, dir := range []string{root + group, root} { // in a container its own group is the root
			if _, err := os.Stat(dir); err == nil {
				return dir
			}
		}
	}
	return ""
}

// ParseCPUMax parses version 2's cpu.max; quotaUs is -1 for "max".
func ParseCPUMax(text []byte) (quotaUs, periodUs int64, ok bool) {
	c := Cursor{Text: text}
	if w := c.Word(); string(w) == "max" {
		quotaUs = -1
	} else {
		c.At = 0
		if quotaUs, ok = c.Int(); !ok || quotaUs < 0 {
			return 0, 0, false
		}
	}
	periodUs, ok = c.Int()
	return quotaUs, periodUs, ok && periodUs > 0
}

// CPUStat is the bandwidth part of a cgroup's cpu.stat since the group's creation.
type CPUStat struct {
	Periods, Throttled uint64
	ThrottledNs        uint64
}

// ErrCPUStat means that a group lacks the CPU controller.
var ErrCPUStat = errors.New("cpu.stat has no nr_periods, nr_throttled and throttled time")

// ParseCPUStat parses cpu.stat, of either version of cgroups.
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
