//go:build linux

package sys

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"ceiling/internal/archive"
)

// fixture is a file read from a virtual machine with 2 CPUs, Linux 6.18, cgroup version 1.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	return archive.Read(t, "testdata/vm2.txtar", name)
}

func TestParseStatOfTwoCPUs(t *testing.T) {
	var s Stat
	if err := ParseStat(fixture(t, "stat"), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.CPUs) != 2 || s.CPUs[0].CPU != 0 || s.CPUs[1].CPU != 1 {
		t.Fatalf("CPUs %v", s.CPUs)
	}
	for i, total := range s.Total.Ticks {
		sum := s.CPUs[0].Ticks[i] + s.CPUs[1].Ticks[i]
		if d := int64(total - sum); d < 0 || d > 1 { // each is cut down to a tick
			t.Errorf("category %d: the CPUs add to %d, first line %d", i, sum, total)
		}
	}
	if s.ContextSwitches == 0 || s.Forks == 0 || s.Running == 0 {
		t.Errorf("counters %d %d %d", s.ContextSwitches, s.Forks, s.Running)
	}
}

func TestBusyAndSteal(t *testing.T) {
	c := CPUTicks{Ticks: [TickCategories]uint64{100758, 14914, 25692, 475521, 2435, 3, 2632, 128, 7, 9}}
	if got, want := c.BusyNs(), int64(100758+14914+25692+3+2632)*10e6; got != want {
		t.Errorf("busy %d ns, want %d", got, want)
	}
	if got := c.StealNs(); got != 1280e6 {
		t.Errorf("%d ns stolen", got)
	}
}

func TestParseStatRefuses(t *testing.T) {
	const tail = "ctxt 1\nprocesses 2\nprocs_running 3\n"
	for name, text := range map[string]string{
		"nothing":             "",
		"no cpu":              tail,
		"a category missing":  "cpu0 1 2 3 4 5 6 7 8 9\n" + tail,
		"in the sums":         "cpu  1 2 3\ncpu0 1 2 3 4 5 6 7 8 9 0\n" + tail,
		"not a number":        "cpu0 1 2 3 4 5 6 7 8 9 x\n" + tail,
		"not a CPU":           "cpux 1 2 3 4 5 6 7 8 9 0\n" + tail,
		"more than 64 bits":   "cpu0 1 2 3 4 5 6 7 8 9 18446744073709551616\n" + tail,
		"descending":          "cpu1 1 2 3 4 5 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n" + tail,
		"without the counter": "cpu0 1 2 3 4 5 6 7 8 9 0\nctxt 1\n",
	} {
		var s Stat
		if ParseStat([]byte(text), &s) == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// statRest follows the name in /proc/PID/stat, up to rsslim.
const statRest = " S 1 2 3 4 -1 5 6 7 8 9 14 15 16 17 18 19 20 0 22 18446744073709551615 24 25\n"

func TestPIDStat(t *testing.T) {
	var s PIDStat
	if err := ParsePIDStat(fixture(t, "pid_stat"), &s); err != nil {
		t.Fatal(err)
	}
	if string(s.Comm) != "sleep" || s.State != 'S' || s.Threads != 1 || s.StartTicks != 288188 || s.RSSPages != 428 || s.Parent != 2816 {
		t.Errorf("%+v", s)
	}
	err := ParsePIDStat([]byte("7 (a) (b))"+statRest), &s)
	if err != nil || string(s.Comm) != "a) (b)" || s.Parent != 1 || s.Group != 2 || s.UserTicks != 14 || s.SystemTicks != 15 ||
		s.ReapedTicks != 33 || s.RSSPages != 24 {
		t.Errorf("a name with parentheses: %+v %v", s, err)
	}
	for _, text := range []string{"", "7 (a", "7 a S 1", "7 (a) SS" + statRest[2:], "7 (a) S 1 2 3\n", "x (a)" + statRest, ") (" + statRest} {
		if ParsePIDStat([]byte(text), &s) == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	const upTo38 = "7 (a b) S 1 2 3 4 -1 5 6 7 8 9 14 15 16 17 18 19 20 0 22 18446744073709551615 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38"
	for text, want := range map[string]int{upTo38 + " 3 40\n": 3, upTo38: -1, "": -1, upTo38 + " x\n": -1} {
		if got := LastCPU([]byte(text)); got != want {
			t.Errorf("%q ran last on CPU %d, want %d", text, got, want)
		}
	}
}

func TestProcessesHoldThisOneAndItsParent(t *testing.T) {
	all, err := Processes()
	if err != nil {
		t.Fatal(err)
	}
	if own := all[os.Getpid()]; own == nil || own.Parent != os.Getppid() || own.Ended() {
		t.Errorf("%+v", own)
	}
	if _, err := ReadPIDStat(1 << 30); !Gone(err) {
		t.Error(err)
	}
}

// pidIOText is /proc/PID/io of Linux 6.18.
const pidIOText = "rchar: 3066\nwchar: 20\nsyscr: 9\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 1060864\ncancelled_write_bytes: 8192\n"

func TestFilesOfFields(t *testing.T) {
	var sched Schedstat
	if err := ParseSchedstat(fixture(t, "schedstat"), &sched); err != nil || sched.RunNs != 970703 {
		t.Errorf("%+v %v", sched, err)
	}
	if ParseSchedstat([]byte("1 2\n"), &sched) == nil {
		t.Error("two numbers were accepted")
	}
	var status PIDStatus
	if err := ParsePIDStatus(fixture(t, "pid_status"), &status); err != nil || string(status.CPUsAllowed) != "0-1" {
		t.Errorf("%+v %v", status, err)
	}
	if ParsePIDStatus([]byte("Uid:\t0\t0\n"), &status) == nil {
		t.Error("half a status was accepted")
	}
	var io PIDIO
	if err := ParsePIDIO([]byte(pidIOText), &io); err != nil || io != (PIDIO{4096, 1052672}) {
		t.Errorf("%+v, %v", io, err)
	}
	if ParsePIDIO([]byte(strings.Replace(pidIOText, "read_bytes", "bytes", 1)), &io) == nil {
		t.Error("a text without read_bytes passes")
	}
	var c CPUStat
	if err := ParseCPUStat(fixture(t, "cpu_stat_v1"), &c); err != nil {
		t.Error(err)
	}
	if err := ParseCPUStat([]byte("usage_usec 9\nnr_periods 3\nnr_throttled 2\nthrottled_usec 5\n"), &c); err != nil ||
		c != (CPUStat{3, 2, 5000}) {
		t.Errorf("%+v %v", c, err)
	}
	if ParseCPUStat([]byte("usage_usec 9\n"), &c) == nil {
		t.Error("a cpu.stat without the controller was accepted")
	}
}

func TestField(t *testing.T) {
	const text = "55-7f 00:00 [rollup]\nNSpid:\t17\t1\nVmHWM:\t    5120 kB\nmodel name\t: A: B\npswpin 7\nempty:\nbare\n"
	for name, want := range map[string]string{
		"NSpid": "17\t1", "VmHWM": "5120 kB", "model name": "A: B", "pswpin": "7", "empty": "", "bare": "", "model": "", "Vm": "",
	} {
		if got := Field([]byte(text), name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if n, err := FieldCount([]byte(text), "VmHWM"); n != 5120 || err != nil {
		t.Error(n, err)
	}
	for _, name := range []string{"empty", "model name", "none"} {
		if n, err := FieldCount([]byte(text), name); err == nil || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

func TestParsersDoNotAllocate(t *testing.T) {
	check := func(name string, f func(text []byte) error) {
		t.Helper()
		text := fixture(t, name)
		if err := f(text); err != nil {
			t.Fatal(name, err)
		}
		if n := testing.AllocsPerRun(10, func() { f(text) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	var stat Stat
	var ps PIDStat
	var sched Schedstat
	var status PIDStatus
	var cpu CPUStat
	check("stat", func(b []byte) error { return ParseStat(b, &stat) })
	check("pid_stat", func(b []byte) error { return ParsePIDStat(b, &ps) })
	check("schedstat", func(b []byte) error { return ParseSchedstat(b, &sched) })
	check("pid_status", func(b []byte) error { return ParsePIDStatus(b, &status) })
	check("cpu_stat_v1", func(b []byte) error { return ParseCPUStat(b, &cpu) })
}

func BenchmarkParse(b *testing.B) {
	bench := func(name string, f func(text []byte) error) {
		b.Run(name, func(b *testing.B) {
			text := fixture(b, name)
			for b.Loop() {
				if err := f(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	var ps PIDStat
	var status PIDStatus
	bench("pid_stat", func(b []byte) error { return ParsePIDStat(b, &ps) })
	bench("pid_status", func(b []byte) error { return ParsePIDStatus(b, &status) })
}

// Text of any shape: a parser may refuse it, and what it accepts is safe to use.
func FuzzProc(f *testing.F) {
	for _, name := range []string{"stat", "pid_stat", "pid_status", "schedstat", "cpu_stat_v1"} {
		f.Add(fixture(f, name))
	}
	f.Add([]byte(pidIOText))
	f.Add([]byte("7 (a) (b))" + statRest))
	f.Fuzz(func(t *testing.T, text []byte) {
		var stat Stat
		if ParseStat(text, &stat) == nil && len(stat.CPUs) == 0 {
			t.Error("no CPU")
		}
		var ps PIDStat
		if ParsePIDStat(text, &ps) == nil && (ps.PID < 0 || ps.Threads < 0 || ps.Parent < 0 ||
			!strings.Contains(string(text), "("+string(ps.Comm)+")")) {
			t.Errorf("%+v", ps)
		}
		_ = LastCPU(text)
		var status PIDStatus
		_ = ParsePIDStatus(text, &status)
		var sched Schedstat
		_ = ParseSchedstat(text, &sched)
		var io PIDIO
		_ = ParsePIDIO(text, &io)
		var cpu CPUStat
		_ = ParseCPUStat(text, &cpu)
		for name, value := range Fields(text) {
			if len(name)+len(value) >= len(text) {
				t.Errorf("%q and %q of %q", name, value, text)
			}
		}
	})
}
