//go:build linux

package sys

import (
	"testing"
)

func TestCgroupFiles(t *testing.T) {
	m, err := ParseCgroupMount(fixture(t, "mountinfo_v1"))
	if err != nil || m != (CgroupMount{1, "/sys/fs/cgroup/cpu", "/"}) {
		t.Errorf("%+v %v", m, err)
	}
	v2 := `30 23 0:26 /docker/ab\040c /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate` + "\n"
	if m, err = ParseCgroupMount([]byte(v2)); err != nil || m != (CgroupMount{2, "/sys/fs/cgroup", "/docker/ab c"}) {
		t.Errorf("%+v %v", m, err)
	}
	if dir, ok := m.Dir("/docker/ab c/x"); !ok || dir != "/sys/fs/cgroup/x" {
		t.Error(dir, ok)
	}
	for _, outside := range []string{"/docker/ab cd", "/", "/../other"} {
		if _, ok := m.Dir(outside); ok {
			t.Errorf("%s is not mounted", outside)
		}
	}
	if _, err := ParseCgroupMount([]byte("1 2 3\n")); err == nil {
		t.Error("no cgroup was found")
	}
	if p, ok := ParseCgroupPath(fixture(t, "cgroup_v1"), 1); !ok || p != "/" {
		t.Error(p, ok)
	}
	if p, ok := ParseCgroupPath([]byte("3:cpu,cpuacct:/a:b\n0::/c\n"), 1); !ok || p != "/a:b" {
		t.Error(p, ok)
	}
	if p, ok := ParseCgroupPath([]byte("3:cpu,cpuacct:/a\n0::/c\n"), 2); !ok || p != "/c" {
		t.Error(p, ok)
	}
	check := func(text string, quota, period int64, want bool) {
		t.Helper()
		if q, p, ok := ParseCPUMax([]byte(text)); ok != want || ok && (q != quota || p != period) {
			t.Errorf("%q: %d %d %v", text, q, p, ok)
		}
	}
	check("max 100000\n", -1, 100000, true)
	check("150000 100000\n", 150000, 100000, true)
	check("150000\n", 0, 0, false)
	check("-5 100000\n", 0, 0, false)
}

func FuzzCgroup(f *testing.F) {
	f.Add([]byte("30 23 0:26 /docker/ab\\040c /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n"))
	f.Add([]byte("3:cpu,cpuacct:/a\n0::/c\n"))
	f.Add([]byte("max 100000\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := ParseCgroupMount(text); err == nil {
			m.Dir("/a")
		}
		for version := 1; version <= 2; version++ {
			ParseCgroupPath(text, version)
		}
		if q, p, ok := ParseCPUMax(text); ok && (q < -1 || p <= 0) {
			t.Errorf("quota %d of %d", q, p)
		}
	})
}
