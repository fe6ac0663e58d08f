//go:build linux

package observe

import (
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ceiling/internal/archive"
	"ceiling/internal/sys"
	"ceiling/record"
)

// fixture is a file of a machine: vm2/stat.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	machine, name, _ := strings.Cut(name, "/")
	return archive.Read(t, map[string]string{"vm2": "../../internal/sys/testdata/vm2.txtar", "cpus128": "testdata/cpus128.txtar"}[machine], name)
}

func TestStatDeltaOf128CPUs(t *testing.T) {
	var prev, cur sys.Stat
	for name, s := range map[string]*sys.Stat{"cpus128/stat.0": &prev, "cpus128/stat.1": &cur} {
		if err := sys.ParseStat(fixture(t, name), s); err != nil {
			t.Fatal(err)
		}
	}
	row := statDelta(&prev, &cur, 100_000_000)
	if d := cmp.Diff([]int{66}, row.Came) + cmp.Diff([]int{40}, row.Went); d != "" {
		t.Error(d)
	}
	if len(row.Cores) != 123 || row.ContextSwitches != 25000 || row.Forks != 7 || row.Running != 131 {
		t.Errorf("%d cores, %d switches, %d forks, %d running", len(row.Cores), row.ContextSwitches, row.Forks, row.Running)
	}
	core := make(map[int]record.CoreTicks)
	for _, c := range row.Cores {
		core[c.CPU] = c
	}
	check := func(want record.CoreTicks) {
		t.Helper()
		if d := cmp.Diff(want, core[want.CPU]); d != "" {
			t.Error(d)
		}
	}
	check(record.CoreTicks{CPU: 5, User: 10})
	check(record.CoreTicks{CPU: 7, Idle: 12, IOWait: -2, Bad: "iowait went backwards by 2 ticks"})
	check(record.CoreTicks{CPU: 9, User: 25, Missing: -15, Bad: "categories add to 25 ticks of 10 elapsed"})
	check(record.CoreTicks{CPU: 12, User: 10, Guest: 8}) // guest is in user already: this adds to 10, not 18
	check(record.CoreTicks{CPU: 13, Idle: 5, Steal: 5})
	check(record.CoreTicks{CPU: 14, User: 1, Nice: 1, System: 1, Idle: 1, IOWait: 1, IRQ: 1, SoftIRQ: 1, Steal: 3, Guest: 1, GuestNice: 1})
	check(record.CoreTicks{CPU: 15, System: 2, SoftIRQ: 7, Missing: 1})
	check(record.CoreTicks{CPU: 127, User: 2, System: 1, Idle: 7})
	if c := core[14]; c.Busy() != 5 || c.Accounted() != 10 {
		t.Errorf("busy %d accounted %d", c.Busy(), c.Accounted())
	}
	bad := 0
	for _, c := range row.Cores {
		if c.Bad != "" {
			bad++
		}
	}
	if bad != 2 {
		t.Errorf("%d bad rows", bad)
	}
}

func TestSoftirqs(t *testing.T) {
	var prev, cur softirqSample
	if err := parseSoftirqs(fixture(t, "vm2/softirqs"), &cur); err != nil || len(cur.cpus) != 2 || cur.netRx[0] == 0 {
		t.Fatalf("%v %+v", err, cur)
	}
	if err := parseSoftirqs(fixture(t, "cpus128/softirqs.0"), &prev); err != nil {
		t.Fatal(err)
	}
	if err := parseSoftirqs(fixture(t, "cpus128/softirqs.1"), &cur); err != nil {
		t.Fatal(err)
	}
	want := []record.SoftirqCPU{{CPU: 3, NetRx: 30}, {CPU: 66, NetRx: 1}, {CPU: 100, NetRx: 5, NetTx: 2}} // 3 wrapped
	if d := cmp.Diff(want, softirqDelta(&prev, &cur)); d != "" {
		t.Error(d)
	}
	if parseSoftirqs([]byte("CPU0 CPU1\n NET_RX: 1 2\n NET_TX: 1\n"), &cur) == nil {
		t.Error("a missing count was accepted")
	}
	if parseSoftirqs([]byte("CPU0 CPU1\n NET_RX: 1 2\n NET_TX: 1 4294967296\n"), &cur) == nil {
		t.Error("a count of 33 bits was accepted")
	}
}

func TestSoftnet(t *testing.T) {
	prev, err := parseSoftnet(fixture(t, "cpus128/softnet_stat.0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	cur, err := parseSoftnet(fixture(t, "cpus128/softnet_stat.1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(prev) != 124 || prev[64].cpu != 68 {
		t.Errorf("%d lines, the 65th of CPU %d", len(prev), prev[64].cpu)
	}
	want := []record.SoftnetCPU{{CPU: 3, Processed: 32, Dropped: 3, Squeezed: 1}, {CPU: 127, Processed: 3}}
	if d := cmp.Diff(want, softnetDelta(prev, cur)); d != "" {
		t.Error(d)
	}
	// Before Linux 5.10 a line had eleven words and no number.
	old, err := parseSoftnet([]byte("0000000a 00000000 00000001 0 0 0 0 0 0 0 0\n0000000b 1 2 0 0 0 0 0 0 0 0\n"), nil)
	if err != nil || len(old) != 2 || old[0].cpu != -1 {
		t.Fatalf("%v %+v", err, old)
	}
	if numberSoftnet(old, []sys.CPUTicks{{CPU: 0}}) == nil {
		t.Error("two lines passed for one CPU")
	}
	if err := numberSoftnet(old, []sys.CPUTicks{{CPU: 0}, {CPU: 5}}); err != nil || old[1].cpu != 5 {
		t.Errorf("%v %+v", err, old)
	}
	for _, text := range []string{"1 2\n", "1 2 100000000\n", "1 2 3 x\n"} {
		if _, err := parseSoftnet([]byte(text), nil); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestInterrupts(t *testing.T) {
	names := newInterned()
	byName := func(_ int, name []byte) bool { return hasPrefix(name, "ens3-") }
	var prev, cur irqSample
	if err := parseInterrupts(fixture(t, "cpus128/interrupts.0"), names, byName, &prev); err != nil {
		t.Fatal(err)
	}
	if err := parseInterrupts(fixture(t, "cpus128/interrupts.1"), names, byName, &cur); err != nil {
		t.Fatal(err)
	}
	want := []record.IRQLine{
		{IRQ: 330, Name: "ens3-TxRx-0", CPUs: []record.IRQCPU{}},
		{IRQ: 331, Name: "ens3-TxRx-1", CPUs: []record.IRQCPU{{CPU: 2, Count: 5}, {CPU: 99, Count: 7}}}, // 2 wrapped; 40 went offline
		{IRQ: 332, Name: "ens3-TxRx-2", CPUs: []record.IRQCPU{{CPU: 3, Count: 11}}},
		{IRQ: 333, Name: "ens3-TxRx-3", CPUs: []record.IRQCPU{}},
	}
	if d := cmp.Diff(want, irqDelta(&prev, &cur)); d != "" {
		t.Error(d)
	}
	if err := parseInterrupts(fixture(t, "vm2/interrupts"), names, func(n int, _ []byte) bool { return n == 41 }, &cur); err != nil {
		t.Fatal(err)
	}
	if len(cur.lines) != 1 || cur.lines[0].name != "virtio3-rx" || len(cur.counts) != 2 {
		t.Errorf("%+v", cur)
	}
	all := func(int, []byte) bool { return true }
	if parseInterrupts([]byte("  CPU0 CPU1\n 1: 5 edge x\n"), names, all, &cur) == nil {
		t.Error("a missing count was accepted")
	}
}

func TestCounterTables(t *testing.T) {
	names := tcpCounterNames()
	if len(names) != tcpCounters {
		t.Fatalf("%d names for %d counters", len(names), tcpCounters)
	}
	ext := newCounterTable("TcpExt: ", names[:firstSNMP])
	tcp := newCounterTable("Tcp: ", names[firstSNMP:])
	if err := ext.parse(fixture(t, "vm2/netstat")); err != nil {
		t.Fatal(err)
	}
	if err := tcp.parse(fixture(t, "vm2/snmp")); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		v := slices.Concat(ext.values, tcp.values)[i]
		if v < 0 {
			t.Errorf("%s was not found", name)
		}
	}
	small := newCounterTable("T: ", []string{"b", "z"})
	check := func(text string, b, z int64) {
		t.Helper()
		if err := small.parse([]byte(text)); err != nil || small.values[0] != b || small.values[1] != z {
			t.Errorf("%q: %v %v", text, small.values, err)
		}
	}
	check("X: a\nX: 1\nT: a b\nT: -1 7\n", 7, -1)
	check("X: a\nX: 1\nT: a b\nT: -1 8\n", 8, -1)
	check("T: z b a\nT: 5 6 7\n", 6, 5) // another kernel's columns
	for _, text := range []string{"", "T: a b\n", "T: a b\nT: 1\n", "T: a b\nT: 1 2 3\n", "T: a b\nX: 1 2\n", "T: a b\nT: 1 x\n"} {
		if small.parse([]byte(text)) == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// Up to half of the time may be in no category, and no more.
func TestMissingTicks(t *testing.T) {
	for idle, bad := range map[uint64]string{40: "", 20: "", 19: "categories add to 19 ticks of 40 elapsed"} {
		var cur sys.CPUTicks
		cur.Ticks[sys.TicksIdle] = idle
		if row := coreDelta(new(sys.CPUTicks), &cur, 400e6); row.Bad != bad || row.Missing != int64(40-idle) {
			t.Errorf("%d ticks of 40: %+v", idle, row)
		}
	}
}

// What was stolen may be in idle as well, as of 168 ticks on a host that other machines used; no more than it.
func TestStolenWhileIdle(t *testing.T) {
	for steal, bad := range map[uint64]string{24: "", 7: "categories add to 190 ticks of 168 elapsed"} {
		var cur sys.CPUTicks
		cur.Ticks[sys.TicksUser], cur.Ticks[sys.TicksIdle], cur.Ticks[sys.TicksSteal] = 60, 130-steal, steal
		row := coreDelta(new(sys.CPUTicks), &cur, 1680e6)
		var sum record.CPUSum
		if added := sum.AddTicks(&row, 1); row.Bad != bad || added != (bad == "") {
			t.Errorf("%d ticks stolen: %+v", steal, row)
		}
		if got := sum.ByCategory(); bad == "" && (got.Total() != 168 || got[record.CPUUser] != 60 || got[record.CPUIdle] != 84) {
			t.Errorf("%v", got)
		}
	}
}

func TestNetDev(t *testing.T) {
	names := newInterned()
	devs, err := parseNetDev(fixture(t, "vm2/net_dev"), names, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(devs) != 4 || devs[0].name != "lo" || devs[3].name != "eth0" || devs[0].rxBytes == 0 || devs[0].rxBytes != devs[0].txBytes {
		t.Errorf("%+v", devs)
	}
	const head = "Inter-|   Receive\n face |bytes    packets\n"
	devs, err = parseNetDev([]byte(head+"veth:1:18446744073709551615 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"), names, devs)
	want := []netDev{{"veth:1", 1<<64 - 1, 2, 3, 4, 5, 9, 10, 11, 12}}
	if d := cmp.Diff(want, devs, cmp.AllowUnexported(netDev{})); err != nil || d != "" {
		t.Error(err, d)
	}
	var row record.NetDevRow
	netDevDelta(&netDev{rxBytes: 10}, &netDev{rxBytes: 4}, &row)
	if row.Bad == "" || row.RxBytes != -6 {
		t.Errorf("backwards: %+v", row)
	}
	for _, text := range []string{"", head + "eth0 1 2\n", head + "eth0: 1 2\n", "x\ny\neth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"} {
		if _, err := parseNetDev([]byte(text), names, nil); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestPSI(t *testing.T) {
	var p psiTotals
	if err := parsePSI(fixture(t, "vm2/pressure_memory"), &p); err != nil || p.someUs < 0 || p.fullUs < 0 {
		t.Errorf("%+v %v", p, err)
	}
	if err := parsePSI([]byte("some avg10=0.00 avg60=0.00 avg300=0.00 total=3328426\n"), &p); err != nil || p != (psiTotals{3328426, -1}) {
		t.Errorf("before 5.13: %+v %v", p, err)
	}
	for _, text := range []string{"", "some avg10=0.00\n", "some total=x\n", "full total=1\n", "few total=1\n"} {
		if parsePSI([]byte(text), &p) == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	if got := psiRefusal(syscall.EOPNOTSUPP).Error(); !strings.HasPrefix(got, "PSI is off") {
		t.Error(got)
	}
}

func TestPIDFiles(t *testing.T) {
	for text, want := range map[string]int64{
		"Limit                     Soft Limit           Hard Limit           Units     \nMax processes             95971                95971                processes \n" +
			"Max open files            1024                 524288               files     \n": 1024,
		"Max open files            unlimited            unlimited            files     \n": -1,
		"": 0, "Max open files\n": 0, "Max open files  12x  4 files\n": 0, "Max open files  99999999999999999999 4 files\n": 0,
	} {
		if got := parseOpenFilesLimit([]byte(text)); got != want {
			t.Errorf("%q: %d open files, want %d", text, got, want)
		}
	}
	if inode, ok := parseSocketLink([]byte("socket:[4711]")); !ok || inode != 4711 {
		t.Error(inode, ok)
	}
	for _, link := range []string{"", "socket:[]", "socket:[1", "socket:[1]x", "pipe:[1]", "/socket:[1]"} {
		if _, ok := parseSocketLink([]byte(link)); ok {
			t.Errorf("%q was accepted", link)
		}
	}
}

func TestProcTCP(t *testing.T) {
	var found []procTCP
	if err := parseProcTCP(fixture(t, "vm2/tcp"), func(l procTCP) { found = append(found, l) }); err != nil || len(found) == 0 {
		t.Fatalf("%v %+v", err, found)
	}
	if l := found[0]; l.local != netip.MustParseAddrPort("0.0.0.0:2024") || l.state != tcpListen || l.inode == 0 {
		t.Errorf("%+v", l)
	}
	check := func(word, want string) {
		t.Helper()
		if got, ok := parseHexAddrPort([]byte(word)); !ok || got != netip.MustParseAddrPort(want) {
			t.Errorf("%s is %s (%v), want %s", word, got, ok, want)
		}
	}
	check("0100007F:1F90", "127.0.0.1:8080")
	check("00000000000000000000000001000000:0050", "[::1]:80")
	check("B80D0120000000000000000001000000:0050", "[2001:db8::1]:80")
	check("0000000000000000FFFF00000100007F:0050", "127.0.0.1:80")
	for _, word := range []string{"", "0100007F", "0100007F:1F9", "0100007G:1F90", "0100007F:1F9G", "010000:1F90"} {
		if _, ok := parseHexAddrPort([]byte(word)); ok {
			t.Errorf("%q was accepted", word)
		}
	}
	if parseProcTCP([]byte("head\n 0: x y\n"), func(procTCP) {}) == nil {
		t.Error("a line without addresses was accepted")
	}
}

func TestTakes(t *testing.T) {
	check := func(listens, target string, want bool) {
		t.Helper()
		if got := takes(netip.MustParseAddrPort(listens), netip.MustParseAddrPort(target)); got != want {
			t.Errorf("%s takes %s: %v", listens, target, got)
		}
	}
	check("127.0.0.1:80", "127.0.0.1:80", true)
	check("0.0.0.0:80", "127.0.0.1:80", true)
	check("[::]:80", "127.0.0.1:80", true)
	check("127.0.0.2:80", "127.0.0.1:80", false)
	check("127.0.0.1:81", "127.0.0.1:80", false)
	check("127.0.0.1:80", "0.0.0.0:80", true)
}

func TestThreadsOfAPoolHaveOneName(t *testing.T) {
	for comm, want := range map[string]string{
		"exec-12": "exec-#", "GC Thread#0": "GC Thread#", "http-80-exec-3": "http-#-exec-#", "VM Thread": "VM Thread", "": "", "7": "#",
	} {
		if got := string(groupOf(comm, nil)); got != want {
			t.Errorf("%q is of %q, want %q", comm, got, want)
		}
	}
}

func TestParentPath(t *testing.T) {
	for path, up := range map[string]string{"/a/b": "/a", "/a": "/", "/": ""} {
		if got := parentPath(path); got != up {
			t.Errorf("above %s: %s", path, got)
		}
	}
}
