//go:build linux

package observe

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"ceiling/internal/sys"
	"ceiling/record"
)

// CPU bandwidth control of cgroups (internal/sys/cgroup.go has the files). A limit on any ancestor
// stops the process as well, so every ancestor with a limit is watched too.

// throttleGroup is one watched group.
type throttleGroup struct {
	path      string // inside the hierarchy
	fd        int    // cpu.stat
	quotaUs   int64
	periodUs  int64
	prev, cur sys.CPUStat
	prevNs    int64 // when prev was read: groups may join during the run
	read      bool
}

// throttleSampler samples cpu.stat of the watched processes' groups.
type throttleSampler struct {
	r      *reader
	mount  sys.CgroupMount
	groups []throttleGroup
}

func newThrottleSampler(r *reader, proc string) (*throttleSampler, error) {
	text, err := os.ReadFile(proc + "/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	m, err := sys.ParseCgroupMount(text)
	if err != nil {
		return nil, err
	}
	return &throttleSampler{r: r, mount: m}, nil
}

// watch adds a group, and its ancestors that have a limit. It returns an error if the group's files
// cannot be read.
func (s *throttleSampler) watch(path string) error {
	for i := range s.groups {
		if s.groups[i].path == path {
			return nil
		}
	}
	dir, ok := s.mount.Dir(path)
	if !ok {
		return fmt.Errorf("cgroup %s is outside of what is mounted at %s", path, s.mount.Point)
	}
	if err := s.add(path, dir, true); err != nil {
		return err
	}
	for up := parentPath(path); up != ""; up = parentPath(up) {
		dir, ok := s.mount.Dir(up)
		if !ok {
			break
		}
		if err := s.add(up, dir, false); err != nil {
			return err
		}
	}
	return nil
}

// parentPath returns the parent group, "" above the root.
func parentPath(path string) string {
	if path == "/" {
		return ""
	}
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/"
	}
	return path[:i]
}

// add watches one group, if it has a limit or always is set. A group without the counters (the root
// of version 2, or one whose cpu controller is off) cannot be limited: its rows have zeros, which
// is an answer and not a failure.
func (s *throttleSampler) add(path, dir string, always bool) error {
	for i := range s.groups {
		if s.groups[i].path == path {
			return nil
		}
	}
	quota, period, err := s.limit(dir)
	if err != nil {
		return fmt.Errorf("read the CPU limit of cgroup %s: %w", path, err)
	}
	if quota < 0 && !always {
		return nil
	}
	g := throttleGroup{path: path, fd: -1, quotaUs: quota, periodUs: period}
	if g.fd, err = openFile(dir + "/cpu.stat"); err != nil {
		if quota >= 0 || !errors.Is(err, syscall.ENOENT) {
			return err
		}
	} else if err := s.probe(&g); err != nil {
		closeFile(&g.fd)
		if quota >= 0 || !errors.Is(err, sys.ErrCPUStat) {
			return fmt.Errorf("read cpu.stat of cgroup %s: %w", path, err)
		}
	}
	s.groups = append(s.groups, g)
	return nil
}

// probe reads a group's cpu.stat once, to find which counters it has.
func (s *throttleSampler) probe(g *throttleGroup) error {
	text, err := s.r.whole(g.fd)
	if err != nil {
		return err
	}
	return sys.ParseCPUStat(text, &g.cur)
}

// limit reads a group's quota; -1: it has no limit itself.
func (s *throttleSampler) limit(dir string) (quotaUs, periodUs int64, err error) {
	if s.mount.Version == 2 {
		text, err := os.ReadFile(dir + "/cpu.max")
		if errors.Is(err, os.ErrNotExist) {
			return -1, 0, nil // the root, or a group without the controller: it cannot have a limit
		}
		if err != nil {
			return 0, 0, err
		}
		quota, period, ok := sys.ParseCPUMax(text)
		if !ok {
			return 0, 0, fmt.Errorf("cpu.max is %q", text)
		}
		return quota, period, nil
	}
	quota, err := readInt(dir + "/cpu.cfs_quota_us")
	if err != nil {
		return 0, 0, err
	}
	period, err := readInt(dir + "/cpu.cfs_period_us")
	return quota, period, err
}

func readInt(file string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	c := sys.Cursor{Text: text}
	v, ok := c.Int()
	if !ok {
		return 0, fmt.Errorf("%s is %q", file, text)
	}
	return v, nil
}

func (s *throttleSampler) sample(at tick, emit Emit) error {
	for i := 0; i < len(s.groups); {
		g := &s.groups[i]
		err := g.sample(s, at, emit)
		if errors.Is(err, syscall.ENODEV) {
			// The group was removed, so its processes are gone.
			closeFile(&g.fd)
			s.groups = append(s.groups[:i], s.groups[i+1:]...)
			continue
		}
		if err != nil {
			return err
		}
		i++
	}
	return nil
}

func (g *throttleGroup) sample(s *throttleSampler, at tick, emit Emit) error {
	if g.fd >= 0 {
		text, err := s.r.single(g.fd)
		if err != nil {
			return fmt.Errorf("read cpu.stat of cgroup %s: %w", g.path, err)
		}
		g.prev = g.cur
		if err := sys.ParseCPUStat(text, &g.cur); err != nil {
			return fmt.Errorf("cgroup %s: %w", g.path, err)
		}
	}
	width := at.tNs - g.prevNs
	g.prevNs = at.tNs
	if !g.read {
		g.read = true
		return nil
	}
	row := &record.ThrottleRow{
		ObservedHead: at.head(record.KindThrottle),
		Cgroup:       g.path, Version: s.mount.Version,
		Periods: int64(g.cur.Periods - g.prev.Periods), Throttled: int64(g.cur.Throttled - g.prev.Throttled),
		ThrottledNs: int64(g.cur.ThrottledNs - g.prev.ThrottledNs),
		QuotaUs:     g.quotaUs, PeriodUs: g.periodUs,
	}
	row.WidthNs = width
	emit(row)
	return nil
}

func (s *throttleSampler) close() {
	for i := range s.groups {
		closeFile(&s.groups[i].fd)
	}
	s.groups = nil
}
