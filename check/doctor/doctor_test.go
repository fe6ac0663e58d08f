package doctor

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"ceiling/record"
)

// readHost makes the Facts of a fixture: files below /proc and /sys, once and
// in the folders before and after, the environment as a record keeps it, and
// what only a live host tells.
func readHost(t *testing.T, name string) (*Facts, string) {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.MapFS{}
	for _, f := range a.Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	f := &Facts{Files: readFiles(tree)}
	var live struct {
		Target      Target
		Own         int
		Server      []Process
		Engine      Engine
		Calibration string
	}
	for file, v := range map[string]any{"environment.json": &f.Env, "live.json": &live} {
		if err := json.Unmarshal(tree[file].Data, v); err != nil {
			t.Fatalf("%s of %s: %v", file, name, err)
		}
	}
	f.Target, f.Engine, f.Calibration = live.Target, live.Engine, live.Calibration
	f.Target.readInterface(tree)
	var rows []*record.CPURow
	for line := range bytes.Lines(tree["cpu.ndjson"].Data) {
		row, err := record.DecodeObserved(line)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row.(*record.CPURow))
	}
	sub := func(dir string) fs.FS {
		below, err := fs.Sub(tree, dir)
		if err != nil {
			t.Fatal(err)
		}
		return below
	}
	f.Activity = activityOf(takeSnapshot(sub("before")), takeSnapshot(sub("after")), rows, live.Own, live.Server)
	return f, string(tree["want"].Data)
}

// TestHosts judges whole hosts: every check has its line in the fixture, in the
// order of the report.
func TestHosts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) < 3 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		f, want := readHost(t, filepath.Base(name))
		r := Diagnose(f)
		lines := strings.Split(strings.TrimSpace(want), "\n")
		if len(lines) != len(checks()) {
			t.Errorf("%s has %d lines for %d checks", name, len(lines), len(checks()))
		}
		for i, found := range r.Findings {
			head, part := found.Level+" "+found.Name, ""
			if i < len(lines) {
				head, part, _ = strings.Cut(lines[i], ": ")
			}
			if head != found.Level+" "+found.Name || !strings.Contains(found.What, part) {
				t.Errorf("%s: %s %s: %s; want %s: %s", name, found.Level, found.Name, found.What, head, part)
			}
			if (found.Level == Bad || found.Level == Warn) && found.Fix == "" {
				t.Errorf("%s: %s: no way to fix it", name, found.Name)
			}
			if strings.Contains(found.What+found.Fix, "\n") {
				t.Errorf("%s: %s has two lines", name, found.Name)
			}
		}
	}
}

// TestOfNothing: a host that tells nothing at all is neither praised nor
// blamed for what could not be read.
func TestOfNothing(t *testing.T) {
	empty := fstest.MapFS{}
	f := &Facts{Files: readFiles(empty), Calibration: "none"}
	f.Activity = activityOf(takeSnapshot(empty), takeSnapshot(empty), nil, 1, nil)
	r := Diagnose(f)
	for _, found := range r.Findings {
		if found.Level == Bad {
			t.Errorf("%s: bad: %s", found.Name, found.What)
		}
	}
	if n := r.Count(NotMeasured); n < 18 {
		t.Errorf("%d not measured", n)
	}
	for i, level := range []string{Warn, NotMeasured, OK} {
		if r.Count(level) == 0 || i > 0 && r.Findings[0].Level == level {
			t.Errorf("%s: %d", level, r.Count(level))
		}
	}
}

// level of one check over a host that is fine but for a change.
func TestChecks(t *testing.T) {
	for _, k := range []struct {
		name, check, level, what, fix string
		change                        func(*Facts)
	}{
		{"one core, remote", "cores", Warn, "1 of 4", "taskset", func(f *Facts) { f.Env.CoresAllowed = 1 }},
		{"one core, shared", "cores", Bad, "share the only one", "another machine",
			func(f *Facts) { f.Env.CoresAllowed = 1; f.Target.Local = true }},
		{"affinity", "cores", OK, "2 of 4 cores allowed", "", func(f *Facts) { f.Env.CoresAllowed = 2 }},
		{"cores unknown", "cores", NotMeasured, "", "", func(f *Facts) { f.Env.CoresAllowed = 0 }},
		{"wide quota", "cpu quota", OK, "4 cores", "", func(f *Facts) { f.Env.CgroupCPUs = 4 }},
		{"powersave adapts", "governor", Warn, "powersave (intel_pstate)", "cpupower", func(f *Facts) { f.Env.Governor = "powersave" }},
		{"mixed", "governor", Warn, "mixed", "", func(f *Facts) { f.Env.Governor = "mixed" }},
		{"virtual clock", "governor", NotMeasured, "hypervisor", "", func(f *Facts) { f.Env.Governor, f.Env.Virtual = "", "QEMU" }},
		{"virtual", "virtual machine", Warn, "(QEMU)", "", func(f *Facts) { f.Env.Virtual = "QEMU" }},
		{"turbo intel", "turbo", Warn, "on", "no_turbo", func(f *Facts) { f.Files.Turbo = "on" }},
		{"hpet without tsc", "clock", Bad, "hpet", "dmesg", func(f *Facts) { f.Env.ClockSource, f.Files.ClockSources = "hpet", "hpet" }},
		{"hpet with tsc", "clock", Bad, "hpet", "echo tsc", func(f *Facts) { f.Env.ClockSource = "hpet" }},
		{"xen clock", "clock", Warn, "xen", "", func(f *Facts) { f.Env.ClockSource = "xen" }},
		{"kvm clock", "clock", OK, "kvm-clock", "", func(f *Facts) { f.Env.ClockSource = "kvm-clock" }},
		{"mains", "power", OK, "on mains", "", func(f *Facts) { f.Files.Power = "mains" }},
		{"steal", "steal", Warn, "3.0%", "", func(f *Facts) { f.Activity.Steal = 0.12 }},
		{"no activity", "steal", NotMeasured, "why", "", func(f *Facts) { f.Activity.Err = "why" }},
		{"server's CPU is not foreign", "other processes", OK, "0.00 of 4", "", func(f *Facts) { f.Activity.Busy, f.Activity.Server = 2, 2 }},
		{"a little foreign CPU", "other processes", Warn, "0.25 of 4", "STOP", func(f *Facts) { f.Activity.Busy = 0.25 }},
		{"much foreign CPU", "other processes", Bad, "0.50 of 4", "", func(f *Facts) { f.Activity.Busy = 0.5 }},
		{"memory", "memory", Warn, "", "", func(f *Facts) { f.Files.MemAvailable = f.Files.MemTotal / 10 }},
		{"swapped out", "swap", Warn, "100 MiB", "swapoff", func(f *Facts) { f.Files.SwapTotal, f.Files.SwapFree = 200<<20, 100<<20 }},
		{"few files", "open files", Warn, "5,000", "ulimit", func(f *Facts) { f.Env.Limits["nofile"] = "1024/5000" }},
		{"files unlimited", "open files", OK, "no limit", "", func(f *Facts) { f.Env.Limits["nofile"] = "unlimited/unlimited" }},
		{"files unknown", "open files", NotMeasured, "", "", func(f *Facts) { f.Env.Limits["nofile"] = "x" }},
		{"default ports", "local ports", OK, "enough for 470 new connections/s where the generator closes first", "", func(f *Facts) {
			f.Env.Sysctls["net.ipv4.ip_local_port_range"], f.Env.Sysctls["net.ipv4.tcp_tw_reuse"] = "32768 60999", "2"
		}},
		{"time wait", "local ports", Warn, "40,000 sockets", "wait a minute", func(f *Facts) { f.Files.TimeWait = 40_000 }},
		{"time wait, no reuse", "local ports", Bad, "60,000 sockets", "wait a minute",
			func(f *Facts) { f.Files.TimeWait = 60_000; f.Env.Sysctls["net.ipv4.tcp_tw_reuse"] = "0" }},
		{"ports unknown", "local ports", NotMeasured, "", "", func(f *Facts) { f.Env.Sysctls["net.ipv4.ip_local_port_range"] = "5 1" }},
		{"tiny queue", "accept queue", Bad, "100", "somaxconn",
			func(f *Facts) { f.Target.Local = true; f.Env.Sysctls["net.core.somaxconn"] = "100" }},
		{"SYN queue without cookies", "accept queue", Warn, "256", "", func(f *Facts) {
			f.Target.Local = true
			f.Env.Sysctls["net.ipv4.tcp_max_syn_backlog"], f.Env.Sysctls["net.ipv4.tcp_syncookies"] = "256", "0"
		}},
		{"SYN queue with cookies", "accept queue", OK, "256", "",
			func(f *Facts) { f.Target.Local = true; f.Env.Sysctls["net.ipv4.tcp_max_syn_backlog"] = "256" }},
		{"conntrack in the path", "conntrack", Warn, "5 of 1,000", "nf_conntrack_max",
			func(f *Facts) { f.Files.Conntrack, f.Files.ConntrackMax = 5, 1000 }},
		{"conntrack beside loopback", "conntrack", OK, "5 of 1,000", "",
			func(f *Facts) { f.Files.Conntrack, f.Files.ConntrackMax = 5, 1000; f.Target.Iface = "lo" }},
		{"memlock on an old kernel", "locked memory", Warn, "64.0 KiB", "ulimit -l",
			func(f *Facts) { f.Env.Kernel, f.Env.Limits["memlock"] = "5.10.1", "65536/65536" }},
		{"memlock on a newer one", "locked memory", OK, "64.0 KiB", "",
			func(f *Facts) { f.Env.Kernel, f.Env.Limits["memlock"] = "5.15.0", "65536/65536" }},
		{"memlock on a new one", "locked memory", Warn, "770 KiB a thread", "ulimit -l",
			func(f *Facts) { f.Env.Kernel, f.Env.Limits["memlock"] = "6.18.1", "65536/65536" }},
		{"namespace", "interface", Warn, "process 99", "root", func(f *Facts) { f.Target.Namespace = 99 }},
		{"unknown way", "interface", NotMeasured, "no route", "", func(f *Facts) { f.Target.Err = "no route" }},
		{"unix socket", "interface", OK, "unix socket", "", func(f *Facts) { f.Target.Unix = true }},
		{"speed unknown", "link speed", Warn, "not know the speed of eth0", "--link-speed", func(f *Facts) { f.Target.SpeedMbit = -1 }},
		{"slow link", "link speed", Warn, "100 Mbit/s", "", func(f *Facts) { f.Target.SpeedMbit = 100 }},
		{"small packets on loopback", "mtu", Warn, "1500 bytes on lo", "65536", func(f *Facts) { f.Target.Iface, f.Target.MTU = "lo", 1500 }},
		{"netem", "shaping", Warn, "netem", "tc qdisc del", func(f *Facts) { f.Target.Qdisc = Qdisc{Kind: "netem"} }},
		{"tbf without a rate", "shaping", Warn, "tbf limits eth0", "", func(f *Facts) { f.Target.Qdisc = Qdisc{Kind: "tbf"} }},
		{"queues unknown", "shaping", NotMeasured, "denied", "", func(f *Facts) { f.Target.QdiscErr = "denied" }},
		{"one queue", "nic queues", Warn, "one receive queue for 4", "echo f >", func(f *Facts) { f.Target.RxQueues = 1 }},
		{"one queue, spread", "nic queues", OK, "RPS", "", func(f *Facts) { f.Target.RxQueues, f.Target.RPS = 1, true }},
		{"irqbalance", "irqbalance", Warn, "moves", "systemctl stop", func(f *Facts) { f.Activity.IRQBalance = true }},
		{"bbr to itself", "congestion", Warn, "bbr", "cubic",
			func(f *Facts) { f.Env.Sysctls["net.ipv4.tcp_congestion_control"] = "bbr"; f.Target.Local = true }},
		{"bbr to another", "congestion", OK, "bbr", "", func(f *Facts) { f.Env.Sysctls["net.ipv4.tcp_congestion_control"] = "bbr" }},
		{"vegas", "congestion", Warn, "vegas", "", func(f *Facts) { f.Env.Sysctls["net.ipv4.tcp_congestion_control"] = "vegas" }},
		{"ancient", "kernel", Bad, "4.4.0", "", func(f *Facts) { f.Env.Kernel = "4.4.0-21-generic" }},
		{"old", "kernel", Warn, "5.15", "", func(f *Facts) { f.Env.Kernel = "5.15.0" }},
		{"no version", "kernel", NotMeasured, "", "", func(f *Facts) { f.Env.Kernel = "six.x" }},
		{"io_uring disabled", "io_uring", Warn, "epoll", "io_uring_disabled=0",
			func(f *Facts) { f.Engine.Name, f.Env.Sysctls["kernel.io_uring_disabled"] = "epoll", "2" }},
		{"io_uring refused", "io_uring", Warn, "epoll", "seccomp",
			func(f *Facts) { f.Engine.Name, f.Engine.Why = "epoll", "operation not permitted" }},
		{"no engine", "io_uring", Bad, "EMFILE", "ulimit", func(f *Facts) { f.Engine = Engine{Err: "EMFILE"} }},
		{"not listening", "server", Bad, "nothing is listening", "start", func(f *Facts) { f.Target.Local = true }},
		{"somebody else's", "server", Warn, "another user", "root", func(f *Facts) { f.Target.Local, f.Target.Listeners = true, 1 }},
		{"hidden", "server", Warn, "hidepid", "root", func(f *Facts) { f.Target.Local, f.Target.Listeners, f.Files.HidePID = true, 1, true }},
		{"cannot look", "server", NotMeasured, "netlink", "", func(f *Facts) { f.Target.Local, f.Target.ServerErr = true, "netlink" }},
	} {
		f, _ := readHost(t, "server.txtar")
		f.Activity.Busy, f.Activity.Foreign = 0, nil
		k.change(f)
		r := Diagnose(f)
		i := slices.IndexFunc(r.Findings, func(found Finding) bool { return found.Name == k.check })
		if i < 0 {
			t.Errorf("%s: no check %s", k.name, k.check)
			continue
		}
		got := r.Findings[i]
		if got.Level != k.level || !strings.Contains(got.What, k.what) || !strings.Contains(got.Fix, k.fix) {
			t.Errorf("%s: %s: %s (%s); want %s: %s (%s)", k.name, got.Level, got.What, got.Fix, k.level, k.what, k.fix)
		}
	}
}

func TestSiblingsApart(t *testing.T) {
	f, _ := readHost(t, "cpus128.txtar")
	if got := checkSiblings(f).Fix; !strings.Contains(got, "--pin-generator 0-31,64-95 --pin-server 32-63,96-127") {
		t.Error(got)
	}
	f.Env.Siblings = []string{"0-1"}
	if got := checkSiblings(f).Fix; !strings.Contains(got, "smt/control") {
		t.Error(got)
	}
}

func TestKernelVersion(t *testing.T) {
	for release, want := range map[string][2]int{"6.12.9-amd64": {6, 12}, "6.1": {6, 1}, "5.15-rc1": {5, 15}, "": {}, "6": {}, "x.y": {},
		"6.x": {}} {
		major, minor, known := kernelVersion(release)
		if known != (want != [2]int{}) || known && [2]int{major, minor} != want {
			t.Errorf("%q: %d.%d, %v", release, major, minor, known)
		}
	}
}

func TestText(t *testing.T) {
	f, _ := readHost(t, "laptop.txtar")
	r := Diagnose(f)
	r.Findings[0].What += "\x1b[2J\n"
	var b strings.Builder
	if err := Text(&b, &r); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if !strings.HasPrefix(text, "laptop, Linux 5.15.0-91-generic, towards http://10.0.0.2/\n\nbad ") || strings.Contains(text, "\x1b") {
		t.Error(text)
	}
	if !strings.HasSuffix(text, "\n13 bad, 10 warnings, 1 not measured, 7 ok\n") {
		t.Error(text)
	}
	columns := map[int]bool{}
	for line := range strings.Lines(text) {
		if i := strings.Index(line, "  fix  "); i > 0 {
			columns[i] = true
		}
	}
	if len(columns) != 1 {
		t.Errorf("mends at %v in\n%s", columns, text)
	}
	b.Reset()
	if err := WriteJSON(&b, &r); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back.Schema != "ceiling.doctor/2" ||
		len(back.Findings) != len(checks()) {
		t.Errorf("%v, %+v", err, back)
	}
}
