package record

import (
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

func files(texts map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range texts {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestReadEnvironmentServer(t *testing.T) {
	const cpu = "sys/devices/system/cpu/"
	got := readEnvironment(files(map[string]string{
		"proc/sys/kernel/hostname":                                        "db1\n",
		"proc/sys/kernel/random/boot_id":                                  "5c8b7a0e-6d0f-4bd3-9d0a-3b7f0d1f2a11\n",
		"proc/sys/kernel/osrelease":                                       "6.12.9-amd64\n",
		"proc/cpuinfo":                                                    "processor\t: 0\nmodel name\t: AMD EPYC 9124 16-Core Processor\nflags\t\t: fpu vme hypervisor sse\n",
		"proc/meminfo":                                                    "MemTotal:       16384 kB\nMemFree:  1 kB\n",
		"proc/self/task/7/status":                                         "Name:\tceiling\nCpus_allowed:\tff\nCpus_allowed_list:\t1\n",
		"proc/self/task/9/status":                                         "Name:\tceiling\nCpus_allowed:\tff\nCpus_allowed_list:\t0-2,10\n",
		"proc/self/limits":                                                "Limit                     Soft Limit           Hard Limit           Units     \nMax open files            1024                 524288               files     \nMax locked memory         8388608              unlimited            bytes     \n",
		"proc/self/cgroup":                                                "0::/user.slice/run.scope\n",
		"proc/self/mountinfo":                                             "25 30 0:23 / /sys rw - sysfs sysfs rw\n33 25 0:29 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
		"sys/fs/cgroup/user.slice/cpu.max":                                "150000 100000\n",
		"sys/fs/cgroup/user.slice/run.scope/cpu.max":                      "max 100000\n",
		cpu + "online":                                                    "0-3,10\n",
		cpu + "cpu0/topology/thread_siblings_list":                        "0,2\n",
		cpu + "cpu2/topology/thread_siblings_list":                        "0,2\n",
		cpu + "cpu10/topology/thread_siblings_list":                       "10\n",
		cpu + "cpu1/topology/thread_siblings_list":                        "1,3\n",
		cpu + "cpu3/topology/thread_siblings_list":                        "1,3\n",
		cpu + "cpu0/cpufreq/scaling_governor":                             "performance\n",
		cpu + "cpu1/cpufreq/scaling_governor":                             "performance\n",
		cpu + "cpufreq/x":                                                 "",
		"sys/class/dmi/id/sys_vendor":                                     "VMware, Inc.\n",
		"sys/class/dmi/id/product_name":                                   "VMware7,1\n",
		"proc/sys/net/core/somaxconn":                                     "4096\n",
		"proc/sys/net/ipv4/tcp_rmem":                                      "4096\t131072\t6291456\n",
		"proc/sys/net/ipv4/ip_local_reserved_ports":                       "\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
	}))
	want := Environment{
		BootID: "5c8b7a0e-6d0f-4bd3-9d0a-3b7f0d1f2a11",
		Host:   "db1", Kernel: "6.12.9-amd64", CPUModel: "AMD EPYC 9124 16-Core Processor",
		CoresOnline: 5, CoresAllowed: 4, CPUsAllowed: "0-2,10", Siblings: []string{"0,2", "1,3"}, Governor: "performance",
		Virtual: "VMware, Inc. VMware7,1", MemoryBytes: 16 << 20, CgroupCPUs: 1.5,
		Sysctls:     map[string]string{"net.core.somaxconn": "4096", "net.ipv4.tcp_rmem": "4096 131072 6291456"},
		Limits:      map[string]string{"nofile": "1024/524288", "memlock": "8388608/unlimited"},
		ClockSource: "tsc",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}

// TestInterfaces: how packets are steered, in as few words as it takes; what has neither
// hardware nor steering is left out.
func TestInterfaces(t *testing.T) {
	const eth0 = "sys/class/net/eth0/"
	env := readEnvironment(files(map[string]string{
		eth0 + "device/uevent": "DRIVER=ena\n", eth0 + "mtu": "9001\n", eth0 + "gro_flush_timeout": "20000\n", eth0 + "napi_defer_hard_irqs": "2\n",
		eth0 + "queues/rx-0/rps_cpus": "0000000f\n", eth0 + "queues/rx-1/rps_cpus": "00000001,00000000\n",
		eth0 + "queues/rx-2/rps_cpus": "0000000f\n", eth0 + "queues/rx-0/rps_flow_cnt": "4096\n", eth0 + "queues/rx-1/rps_flow_cnt": "0\n",
		eth0 + "queues/tx-0/xps_cpus": "00000000\n", eth0 + "device/msi_irqs/30": "", eth0 + "device/msi_irqs/31": "",
		"proc/interrupts":               "  CPU0 CPU1\n 30: 0 5 PCI-MSI 1-edge ena-mgmnt@pci:0000:00:05.0\n 31: 7 0 PCI-MSI 2-edge eth0-Tx-Rx-0\n",
		"proc/irq/31/smp_affinity_list": "1\n", "proc/1/comm": "systemd\n", "proc/90/comm": "irqbalance\n",
		"sys/class/net/lo/mtu": "65536\n", "sys/class/net/lo/queues/rx-0/rps_cpus": "0\n",
		"sys/class/net/veth1/queues/rx-0/rps_cpus": "2\n",
	}))
	want := []Interface{
		{Name: "eth0", Driver: "ena", RxQueues: 3, TxQueues: 1, MTU: 9001, RPS: "0,2:0-3 1:32", RFS: "0:4096", IRQs: "eth0-Tx-Rx-0:1",
			NAPIDefer: 2, GROFlushNs: 20000},
		{Name: "veth1", RxQueues: 1, RPS: "0:1"},
	}
	if env.IRQBalance != "running" || !reflect.DeepEqual(env.Interfaces, want) {
		t.Errorf("%s\n%+v, want\n%+v", env.IRQBalance, env.Interfaces, want)
	}
}

func TestReadEnvironmentOfNothing(t *testing.T) {
	want := Environment{Sysctls: map[string]string{}, Limits: map[string]string{}}
	if got := readEnvironment(fstest.MapFS{}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
}

func TestVirtual(t *testing.T) {
	const x86, guest, arm = "flags : fpu vme", "flags : fpu hypervisor", "CPU implementer : 0x41\nCPU part : 0xd0c"
	for _, c := range []struct{ name, cpuinfo, vendor, product, hypervisor, want string }{
		{"bare metal", x86, "Dell Inc.", "PowerEdge", "", ""},
		{"bare metal of a cloud", x86, "Amazon EC2", "c5.metal", "", ""},
		{"guest without firmware", guest, "", "", "", "unnamed"},
		{"xen", guest, "", "", "xen", "xen"},
		{"cloud", guest, "Amazon EC2", "m5.large", "", "Amazon EC2 m5.large"},
		{"arm guest", arm, "QEMU", "QEMU Virtual Machine", "", "QEMU QEMU Virtual Machine"},
		{"arm metal of a cloud", arm, "Amazon EC2", "c6g.metal", "", ""},
		{"arm board", arm, "", "", "", ""},
	} {
		h := host{files(map[string]string{"sys/class/dmi/id/sys_vendor": c.vendor, "sys/class/dmi/id/product_name": c.product,
			"sys/hypervisor/type": c.hypervisor})}
		if got := h.virtual([]byte(c.cpuinfo)); got != c.want {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
	if got := cpuModel([]byte(arm)); got != "implementer 0x41, part 0xd0c" {
		t.Errorf("arm model %q", got)
	}
}

func TestGovernorMixed(t *testing.T) {
	h := host{files(map[string]string{
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave",
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance",
	})}
	if got := h.governor(); got != "mixed" {
		t.Errorf("%q", got)
	}
}

func TestCgroupCPUs(t *testing.T) {
	const (
		mountV1 = "30 25 0:28 %s /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:3 - cgroup cgroup rw,cpu,cpuacct"
		mountV2 = "41 31 0:38 %s /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
		dirV1   = "sys/fs/cgroup/cpu,cpuacct"
	)
	quota := func(dir, us string) map[string]string {
		return map[string]string{dir + "/cpu.cfs_quota_us": us, dir + "/cpu.cfs_period_us": "100000\n"}
	}
	for _, c := range []struct {
		name, cgroup, mounts string
		files                map[string]string
		want                 float64
	}{
		{"version 1", "4:memory:/m\n3:cpu,cpuacct:/a/b\n0::/\n", strings.Replace(mountV1, "%s", "/", 1), quota(dirV1+"/a", "50000\n"), .5},
		{"version 1, no limit", "3:cpu,cpuacct:/a\n", strings.Replace(mountV1, "%s", "/", 1), quota(dirV1+"/a", "-1\n"), 0},
		{"container sees itself as the root", "3:cpu,cpuacct:/docker/abc/x\n", strings.Replace(mountV1, "%s", "/docker/abc", 1),
			quota(dirV1+"/x", "400000"), 4},
		{"outside of the mount", "3:cpu,cpuacct:/../..\n", strings.Replace(mountV1, "%s", "/docker/abc", 1), quota(dirV1, "200000"), 2},
		{"version 2 beside version 1", "2:memory:/m\n0::/a\n", strings.Replace(mountV2, "%s", "/", 1),
			map[string]string{"sys/fs/cgroup/unified/a/cpu.max": "250000 100000"}, 2.5},
		{"the tightest", "0::/a/b\n", strings.Replace(mountV2, "%s", "/", 1),
			map[string]string{"sys/fs/cgroup/unified/a/cpu.max": "250000 100000", "sys/fs/cgroup/unified/a/b/cpu.max": "75000 50000"}, 1.5},
		{"not mounted", "0::/a\n", "", nil, 0},
		{"damaged", "0::/a\n", strings.Replace(mountV2, "%s", "/", 1), map[string]string{"sys/fs/cgroup/unified/a/cpu.max": "5 0"}, 0},
	} {
		fsys := files(c.files)
		fsys["proc/self/cgroup"] = &fstest.MapFile{Data: []byte(c.cgroup)}
		fsys["proc/self/mountinfo"] = &fstest.MapFile{Data: []byte(c.mounts)}
		if got := (host{fsys}).cgroupCPUs(); got != c.want {
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
}

func TestReadEnvironmentHere(t *testing.T) {
	env := ReadEnvironment("v1")
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if env.Host != name || env.Kernel == "" || env.Version != "v1" || env.Go != runtime.Version() || env.Arch != runtime.GOARCH {
		t.Errorf("%+v", env)
	}
	if env.CoresAllowed != runtime.NumCPU() || env.CoresOnline < env.CoresAllowed || env.MemoryBytes == 0 {
		t.Errorf("%d of %d cores, %d bytes", env.CoresAllowed, env.CoresOnline, env.MemoryBytes)
	}
	if env.Limits["nofile"] == "" || env.Sysctls["net.ipv4.ip_local_port_range"] == "" {
		t.Errorf("%v, %v", env.Limits, env.Sysctls)
	}
	t.Logf("%+v", env)
}
