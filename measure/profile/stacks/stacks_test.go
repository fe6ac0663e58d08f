//go:build linux

package stacks

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/sys"
	"ceiling/measure/profile/symbol"
	"ceiling/record"
)

// TestMain: the planted programs are this one.
func TestMain(m *testing.M) {
	switch os.Getenv("STACKS_PLANT") {
	case "burn":
		burnForever()
	case "parent":
		parentOfBurn()
	case "wait":
		waitForever()
	default:
		os.Exit(m.Run())
	}
}

//go:noinline
func plantedHot(untilNs int64) (n int) {
	for sys.ThreadCPUNs() < untilNs {
		for i := range 2000 {
			n += i * n
		}
	}
	return n
}

//go:noinline
func plantedCool(untilNs int64) (n int) {
	for sys.ThreadCPUNs() < untilNs {
		for i := range 2000 {
			n += i * n
		}
	}
	return n
}

// burnForever spends three quarters of its CPU in plantedHot, by its own clock. How long it does is drawn: 20 ms are four
// samples of 199 Hz to half a percent, which on a busy machine then found half of it where three quarters were planted.
// It stays on its thread: the clock of another one is early or late by all that the two have run.
func burnForever() {
	runtime.LockOSThread()
	fmt.Println("ready")
	go func() { // it ends with the test
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	for {
		turn := 1e6 + rand.Int64N(8e6)
		plantedHot(sys.ThreadCPUNs() + 3*turn)
		plantedCool(sys.ThreadCPUNs() + turn)
	}
}

// parentOfBurn starts it as a child once it is asked to.
func parentOfBurn() {
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		os.Exit(1)
	}
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), "STACKS_PLANT=burn")
	hold, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		os.Exit(1)
	}
	_, _ = in.ReadString('\n')
	hold.Close()
	_ = child.Wait()
	os.Exit(0)
}

// plant starts one of them; what is written to it lets it go on.
func plant(t *testing.T, name string) (pid int, tell func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "STACKS_PLANT="+name, "GOMAXPROCS=2")
	in := launch(t, cmd)
	return cmd.Process.Pid, func() { fmt.Fprintln(in, "go") }
}

// begin starts a program that says when it is ready, and ends with its input.
func begin(t *testing.T, cmd *exec.Cmd) (pid int) {
	t.Helper()
	launch(t, cmd)
	return cmd.Process.Pid
}

func launch(t *testing.T, cmd *exec.Cmd) io.Writer {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // its status says nothing
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the planted program says %q, %v", line, err)
	}
	return in
}

func addr(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// samplerOf samples whole CPUs, which takes privileges.
func samplerOf(t *testing.T, pids ...int) *CPUSampler {
	t.Helper()
	needs.Root(t)
	c, err := NewCPUSampler(pids, 1)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// enough waits until as many samples are there as a share needs.
func enough(t *testing.T, c *CPUSampler, n int, begun ...func()) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for _, do := range begun {
		do()
	}
	// A core for itself gives 199 a second; here it may get a fifth of one.
	for range 300 {
		time.Sleep(100 * time.Millisecond)
		c.members.mu.Lock()
		have := c.sampled
		c.members.mu.Unlock()
		if have >= n {
			break
		}
	}
	c.Stop()
}

func function(list []record.StackFunction, name string) (f record.StackFunction) {
	for _, f := range list {
		if strings.HasSuffix(f.Name, "."+name) {
			return f
		}
	}
	return f
}

// TestPlantedCPU: the shares of a program that divides its CPU by its own clock.
func TestPlantedCPU(t *testing.T) {
	needs.Quiet(t)
	pid, _ := plant(t, "burn")
	c := samplerOf(t, pid)
	enough(t, c, 300)
	sum := Summarize(NewTables(), c, nil)
	s, folded := sum.Stacks, sum.CPU
	hot, cool := function(s.CPU.Functions, "plantedHot"), function(s.CPU.Functions, "plantedCool")
	// 300 samples of 75%: a standard error of 2.5 points.
	if s.CPU.Samples < 300 || hot.Total < 0.62 || hot.Total > 0.88 || cool.Total < 0.12 || cool.Total > 0.38 {
		t.Errorf("of %d samples %.2f in plantedHot and %.2f in plantedCool; planted were 0.75 and 0.25", s.CPU.Samples, hot.Total, cool.Total)
	}
	if top := s.CPU.Packages[0]; !strings.HasSuffix(top.Name, "measure/profile/stacks") && !strings.HasSuffix(top.Name, "internal/sys") ||
		!strings.Contains(string(folded), "plantedHot") {
		t.Errorf("packages %+v, folded %.200s", s.CPU.Packages, folded)
	}
	if len(s.Processes) != 1 || s.Processes[0].Runtime != symbol.Go || s.Processes[0].PID != pid {
		t.Errorf("processes %+v", s.Processes)
	}
	if !strings.HasSuffix(hot.File, "stacks_test.go") || hot.Line == 0 {
		t.Errorf("plantedHot stands at %s:%d", hot.File, hot.Line)
	}
}

// TestChildrenCount: a process that the server starts while it is sampled, and the
// same by threads, as without privilege.
func TestChildrenCount(t *testing.T) {
	needs.Quiet(t)
	for _, whole := range []bool{true, false} {
		pid, tell := plant(t, "parent")
		var c *CPUSampler
		if whole {
			c = samplerOf(t, pid)
		} else {
			var err error
			c, err = newThreadSampler([]int{pid}, 1)
			if err != nil {
				t.Fatal(err)
			}
		}
		enough(t, c, 50, tell) // a child that is there before the counters open is not among them
		s := Summarize(NewTables(), c, nil).Stacks
		if f := function(s.CPU.Functions, "plantedHot"); s.CPU.Samples < 50 || f.Total < 0.3 {
			t.Errorf("whole %v: %d samples, %.2f of them in the child's plantedHot: %+v", whole, s.CPU.Samples, f.Total, s.CPU.Functions)
		}
		if len(s.Processes) < 2 {
			t.Errorf("whole %v: %+v", whole, s.Processes)
		}
		tell()
	}
}

// TestNothingIsLeft: descriptors and mappings, also of a sampler that never began
// and of a process that has ended.
func TestNothingIsLeft(t *testing.T) {
	samplerOf(t, os.Getpid()).Stop() // what is made once is made
	before, maps, tables := openFiles(t), rings(t), NewTables()
	for range 3 {
		c := samplerOf(t, os.Getpid())
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		c.Stop()
		Summarize(tables, c, nil)
		samplerOf(t, os.Getpid()).Stop()
	}
	tables.Close()
	gone := samplerOf(t, 1<<30)
	if err := gone.Start(); err != nil {
		t.Fatal(err)
	}
	gone.Stop()
	if s := Summarize(NewTables(), gone, nil).Stacks; s.CPU.Samples != 0 || len(s.Missing) != 1 {
		t.Errorf("a process that is not there: %+v", s)
	}
	if _, err := newThreadSampler([]int{1 << 30}, 1); err == nil {
		t.Error("threads of a process that is not there")
	}
	if after := openFiles(t); after > before { // fewer: the runtime has closed one of an earlier test
		t.Errorf("%d open files, %d before", after, before)
	}
	if after := rings(t); after != maps {
		t.Errorf("%d rings are mapped, %d before", after, maps)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func rings(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "perf_event")
}

// put writes a record into a ring that a test plays the kernel of.
func put(r *ring, kind uint32, body []byte) {
	b := binary.NativeEndian.AppendUint32(nil, kind)
	b = binary.NativeEndian.AppendUint16(b, 0)
	b = binary.NativeEndian.AppendUint16(b, uint16(8+len(body)))
	head := *r.counter(headAt)
	for i, one := range append(b, body...) {
		r.data[(head+uint64(i))%uint64(len(r.data))] = one
	}
	*r.counter(headAt) = head + uint64(8+len(body))
}

func sampleBody(pid, tid uint32, ips ...uint64) []byte {
	b := binary.NativeEndian.AppendUint64(nil, 1)
	b = binary.NativeEndian.AppendUint32(b, pid)
	b = binary.NativeEndian.AppendUint32(b, tid)
	b = binary.NativeEndian.AppendUint64(b, 77)
	b = binary.NativeEndian.AppendUint64(b, uint64(len(ips)))
	for _, ip := range ips {
		b = binary.NativeEndian.AppendUint64(b, ip)
	}
	return b
}

func TestRing(t *testing.T) {
	r := newRing(make([]byte, 2*4096), 4096)
	var s sample
	for round := range 200 { // round and round the end
		put(&r, recordSample, sampleBody(7, uint32(round), contextKernel, 0xffffffff81000001, contextUser, 11, 12))
		put(&r, recordLost, binary.NativeEndian.AppendUint64(make([]byte, 8), 5))
		n := 0
		r.read(func(kind uint32, body []byte) {
			n++
			switch kind {
			case recordSample:
				if !s.parse(body) || s.pid != 7 || s.tid != round || s.timeNs != 77 || !slices.Equal(s.kernel, []uint64{0xffffffff81000001}) ||
					!slices.Equal(s.user, []uint64{11, 12}) {
					t.Fatalf("round %d: %+v", round, s)
				}
			case recordLost:
				if parseLost(body) != 5 {
					t.Fatal("lost samples are not told")
				}
			}
		})
		if n != 2 {
			t.Fatalf("round %d: %d records", round, n)
		}
	}
}

func FuzzRing(f *testing.F) {
	f.Add(sampleBody(1, 1, contextUser, 5), uint64(40), uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, head, tail uint64) {
		r := newRing(make([]byte, 2*4096), 4096)
		copy(r.data, data)
		*r.counter(headAt), *r.counter(tailAt) = head, tail
		var s sample
		r.read(func(_ uint32, body []byte) {
			s.parse(body)
			parseFork(body)
			parseLost(body)
		})
		if *r.counter(tailAt) != head {
			t.Error("the ring was not emptied")
		}
	})
}

func TestBlame(t *testing.T) {
	gof := func(name string) symbol.Frame {
		pkg := name[:strings.LastIndex(name, ".")]
		pkg, _, _ = strings.Cut(pkg, ".(")
		return symbol.Frame{Name: name, Package: pkg, File: "/x/" + pkg + "/a.go", Line: 3, Mapped: true}
	}
	native := func(module, name string) symbol.Frame { return symbol.Frame{Name: name, Package: module, Mapped: true} }
	script := func(pkg, name string) symbol.Frame {
		return symbol.Frame{Name: name, Package: pkg, File: "/srv/" + pkg, Mapped: true}
	}
	kernel := func(name string) symbol.Frame { return native(symbol.Kernel, name) }
	for _, c := range []struct {
		what                     string
		thread                   string
		frames                   []symbol.Frame
		inKernel                 int
		pkg, entry, calledByName string
	}{
		{"what the runtime does for a package is the package's", "srv",
			[]symbol.Frame{gof("runtime.mallocgc"), gof("reflect.New"), gof("encoding/json.array"), gof("encoding/json.Marshal"), gof("main.handle"),
				gof("net/http.serve")}, 0, "encoding/json", "encoding/json.Marshal", "main.handle"},
		{"own code", "srv", []symbol.Frame{gof("main.inner"), gof("main.handle"), gof("net/http.serve")}, 0, "main", "main.handle", ""},
		{"Go's collector", "srv", []symbol.Frame{gof("runtime.scanobject"), gof("runtime.gcBgMarkWorker")}, 0, collector, "", ""},
		{"an interrupted collector is one", "srv", []symbol.Frame{kernel("asm_sysvec_apic_timer_interrupt"), gof("runtime.gcBgMarkWorker")}, 1,
			collector, "", ""},
		{"Java's collector", "GC Thread#", []symbol.Frame{native("libjvm.so", "")}, 0, collector, "", ""},
		{"Go's scheduler", "srv", []symbol.Frame{gof("runtime.futex"), gof("runtime.findRunnable"), gof("runtime.mcall")}, 0, scheduler, "", ""},
		{"a system call", "srv", []symbol.Frame{kernel("tcp_sendmsg"), kernel("__x64_sys_write"), kernel("do_syscall_64"), gof("syscall.Write"),
			gof("net.Write"), gof("main.handle")}, 3, symbol.Kernel, "write", "main.handle"},
		{"a script's function before its interpreter", "python3",
			[]symbol.Frame{native("libc.so.6", "malloc"), native("python3.11", "_PyEval_EvalFrameDefault"), script("shop.py", "find")}, 0, "shop.py",
			"find", ""},
		{"an interpreter without names for its scripts", "python3",
			[]symbol.Frame{native("libc.so.6", "memcpy"), native("python3.11", "dict_get")}, 0, "libc.so.6", "memcpy", ""},
		{"a library under an interpreter", "python3", []symbol.Frame{native("libssl.so.3", "SSL_read"), native("python3.11", "call")}, 0,
			"libssl.so.3", "SSL_read", ""},
		{"nothing has a name", "x", []symbol.Frame{native("app", ""), native("app", "")}, 0, "app", "", ""},
		{"nothing at all", "x", nil, 0, "unknown", "", ""},
	} {
		b := blameOf(c.thread, c.frames, c.inKernel)
		if b.pkg != c.pkg || b.entry != c.entry || b.caller.Name != c.calledByName {
			t.Errorf("%s: %s, %s called by %s; want %s, %s, %s", c.what, b.pkg, b.entry, b.caller.Name, c.pkg, c.entry, c.calledByName)
		}
	}
}

func TestThreadGroups(t *testing.T) {
	for name, want := range map[string]string{"GC Thread#12": "GC Thread##", "nginx": "nginx", "http-nio-8080-exec-10": "http-nio-#-exec-#",
		"a\x1b[31m": "a?[#m"} {
		if got := groupOf(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
