//go:build linux

package observe

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ceiling/internal/sys"
	"ceiling/record"
)

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFreq(t *testing.T) {
	sysfs := t.TempDir()
	cpu := func(n int, file, text string) { put(t, sysfs, "devices/system/cpu/cpu"+strconv.Itoa(n)+"/"+file, text) }
	for n, khz := range map[int]string{0: "2000000\n", 1: "3000000\n", 10: "1000000\n"} {
		cpu(n, "cpufreq/scaling_cur_freq", khz)
		cpu(n, "cpufreq/cpuinfo_max_freq", "3500000\n")
		cpu(n, "cpufreq/scaling_governor", "performance\n")
		cpu(n, "thermal_throttle/core_throttle_count", "5\n")
	}
	put(t, sysfs, "devices/system/cpu/cpufreq/policy0", "")
	put(t, sysfs, "devices/system/cpu/cpu2/online", "0\n")
	var r reader
	s, err := newFreqSampler(&r, newInterned(), sysfs)
	if err != nil {
		t.Fatal(err)
	}
	var row record.FreqRow
	read := func(width int64) {
		t.Helper()
		if err := s.sample(tick{widthNs: width}, func(r record.ObservedRow) { row = *r.(*record.FreqRow) }); err != nil {
			t.Fatal(err)
		}
	}
	read(0)
	if row.CPUs != 3 || row.MinKHz != 1e6 || row.MeanKHz != 2e6 || row.MaxKHz != 3e6 || row.LimitKHz != 3.5e6 ||
		row.Governor != "performance" || row.Throttles != -1 {
		t.Errorf("%+v", row)
	}
	cpu(1, "cpufreq/scaling_governor", "powersave\n")
	cpu(1, "thermal_throttle/core_throttle_count", "9\n")
	if err := os.Remove(sysfs + "/devices/system/cpu/cpu10/cpufreq/scaling_cur_freq"); err != nil {
		t.Fatal(err)
	}
	read(1)
	if row.CPUs != 2 || row.Governor != "mixed" || row.Throttles != 4 {
		t.Errorf("%+v", row)
	}
	if _, err := newFreqSampler(&r, newInterned(), t.TempDir()); err == nil {
		t.Error("a host without cpufreq was accepted")
	}
}

func TestLinkSpeed(t *testing.T) {
	sysfs := t.TempDir()
	put(t, sysfs, "class/net/fast/speed", "25000\n")
	put(t, sysfs, "class/net/down/speed", "-1\n")
	var r reader
	for iface, want := range map[string]int64{"fast": 25000, "down": -1, "none": -1} {
		if got := linkSpeed(&r, sysfs, iface); got != want {
			t.Errorf("%s: %d", iface, got)
		}
	}
}

func TestInterruptsOfADevice(t *testing.T) {
	sysfs := t.TempDir()
	put(t, sysfs, "pci/nic/msi_irqs/41", "msix\n")
	put(t, sysfs, "pci/nic/msi_irqs/42", "msix\n")
	put(t, sysfs, "pci/nic/virtio3/device", "")
	put(t, sysfs, "plat/device", "")
	for iface, device := range map[string]string{"eth0": "pci/nic", "eth1": "pci/nic/virtio3", "eth2": "plat"} {
		dir := sysfs + "/class/net/" + iface
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(sysfs+"/"+device, dir+"/device"); err != nil {
			t.Fatal(err)
		}
	}
	check := func(iface string, number int, name string, want bool) {
		t.Helper()
		wanted, err := interruptsOf(sysfs, iface)
		if err != nil {
			t.Fatal(err)
		}
		if got := wanted(number, []byte(name)); got != want {
			t.Errorf("%s: %d %s is %v", iface, number, name, got)
		}
	}
	check("eth0", 41, "x", true)
	check("eth0", 43, "eth0-rx", false)
	check("eth1", 42, "virtio3-rx", true) // those of the device above
	check("eth2", 9, "eth2-rx-0", true)
	check("eth2", 9, "eth2", true)
	check("eth2", 9, "eth20", false)
	for _, iface := range []string{"lo", "none"} {
		if _, err := interruptsOf(sysfs, iface); err == nil {
			t.Errorf("%s has interrupts", iface)
		}
	}
}

// A group without a limit of its own below one that has it, in both versions.
func TestThrottleWatchesTheGroupsAbove(t *testing.T) {
	stat := map[int]string{
		1: "nr_periods 100\nnr_throttled 10\nthrottled_time 5000\n",
		2: "usage_usec 1\nnr_periods 100\nnr_throttled 10\nthrottled_usec 5\n",
	}
	later := map[int]string{
		1: "nr_periods 110\nnr_throttled 14\nthrottled_time 9000\n",
		2: "usage_usec 1\nnr_periods 110\nnr_throttled 14\nthrottled_usec 9\n",
	}
	for version := 1; version <= 2; version++ {
		dir := t.TempDir()
		limit := func(group, quota string) {
			if version == 1 {
				put(t, dir, group+"/cpu.cfs_quota_us", strings.Replace(quota, "max", "-1", 1)+"\n")
				put(t, dir, group+"/cpu.cfs_period_us", "100000\n")
			} else if group != "" {
				put(t, dir, group+"/cpu.max", quota+" 100000\n")
			}
		}
		for group, quota := range map[string]string{"": "max", "pod": "200000", "pod/inner": "max"} {
			limit(group, quota)
			put(t, dir, group+"/cpu.stat", stat[version])
		}
		put(t, dir, "pod/inner/cpu.stat", "usage_usec 1\n") // the controller is off in here
		s := &throttleSampler{r: &reader{}, mount: sys.CgroupMount{Version: version, Point: dir, Root: "/"}}
		if err := s.watch("/pod/inner"); err != nil {
			t.Fatal(err)
		}
		if err := s.watch("/pod/inner"); err != nil || len(s.groups) != 2 {
			t.Fatalf("version %d: %v %+v", version, err, s.groups)
		}
		rows := make(map[string]record.ThrottleRow)
		emit := func(r record.ObservedRow) { row := r.(*record.ThrottleRow); rows[row.Cgroup] = *row }
		if err := s.sample(tick{tNs: 1000}, emit); err != nil || len(rows) != 0 {
			t.Fatal(err, rows)
		}
		put(t, dir, "pod/cpu.stat", later[version])
		if err := s.sample(tick{tNs: 3000}, emit); err != nil {
			t.Fatal(err)
		}
		if r := rows["/pod"]; r.Periods != 10 || r.Throttled != 4 || r.ThrottledNs != 4000 || r.QuotaUs != 200000 ||
			r.PeriodUs != 100000 || r.WidthNs != 2000 || r.Version != version {
			t.Errorf("version %d: %+v", version, r)
		}
		if r, ok := rows["/pod/inner"]; !ok || r.QuotaUs != -1 || r.Throttled != 0 {
			t.Errorf("version %d: %+v", version, r)
		}
		if err := s.watch("/gone"); version == 1 && err == nil {
			t.Error("a group that is not there was accepted")
		}
		s.close()
	}
}

func TestInterfaceToTheTarget(t *testing.T) {
	check := func(target, peer netip.Addr, here bool, want string) {
		t.Helper()
		if got, err := InterfaceTo(target, peer, here); err != nil || got != want {
			t.Errorf("%s: %q %v, want %s", target, got, err, want)
		}
	}
	loopback, none := netip.MustParseAddr("127.0.0.1"), netip.Addr{}
	check(loopback, none, true, "lo")
	check(loopback, none, false, "lo")
	check(netip.MustParseAddr("127.9.9.9"), none, false, "lo")
	check(netip.MustParseAddr("::ffff:127.0.0.1"), none, true, "lo")
	// An address of another interface: from here its packets go over lo, from
	// elsewhere they come in where the address is.
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil || p.Addr().IsLoopback() || !p.Addr().Is4() {
				continue
			}
			check(p.Addr(), none, true, "lo")
			check(p.Addr(), none, false, i.Name)
			check(p.Addr(), loopback, false, "lo")
		}
	}
}

func TestKernelDevice(t *testing.T) {
	check := func(dev uint64, want uint32) {
		t.Helper()
		if got := kernelDevice(dev); got != want {
			t.Errorf("%#x: %#x, want %#x", dev, got, want)
		}
	}
	check(0x0801, 8<<20|1)
	check(0x1c, 0x1c)
	check(0x10000305, 3<<20|0x10005)
}

func TestEndOf(t *testing.T) {
	check := func(src, dst, target string, want end) {
		t.Helper()
		a, b := netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst)
		s := inetSocket{src: a.Addr(), sport: a.Port(), dst: b.Addr(), dport: b.Port()}
		if got := endOf(&s, netip.MustParseAddrPort(target)); got != want {
			t.Errorf("%s -> %s with target %s: %d", src, dst, target, got)
		}
	}
	check("10.0.0.1:5000", "10.0.0.2:80", "10.0.0.2:80", endClient)
	check("10.0.0.2:80", "10.0.0.1:5000", "10.0.0.2:80", endServer)
	check("10.0.0.1:5000", "10.0.0.3:80", "10.0.0.2:80", endNone) // another server on the same port
	check("172.17.0.2:80", "10.0.0.1:5000", "10.0.0.2:80", endServer)
	check("172.17.0.2:80", "10.0.0.1:5000", "127.0.0.1:80", endNone)
	check("127.0.0.1:5000", "127.0.0.1:80", "0.0.0.0:80", endClient)
	check("127.0.0.1:80", "127.0.0.1:5000", "127.0.0.1:80", endServer)
}
