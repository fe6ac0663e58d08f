package selftest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/sys"
	"ceiling/measure/netns"
)

// TestMain builds the program whose verbs the scenarios start.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ceiling-selftest-program-")
	if err == nil {
		programName = filepath.Join(dir, labProgram)
		var out []byte
		if out, err = exec.Command("go", "build", "-o", programName, "ceiling/cmd/ceiling-lab").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the program:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// labProgram is the name of the program with the verbs.
const labProgram = "ceiling-lab"

var programName string

// standing surveys this host, and looks in the end for what the test has left.
func standing(t *testing.T) *prereqs {
	t.Helper()
	g, err := survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nothingLeft(t, os.Getpid()) })
	return &g
}

// nothingLeft fails where something on the host bears a process's number.
func nothingLeft(t *testing.T, pid int) {
	t.Helper()
	if left := belongings(t, pid); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func belongings(t *testing.T, pid int) []string {
	t.Helper()
	names := append(list("/run/netns", "/var/run/netns"), list("/sys/class/net")...)
	if h, err := cpuHierarchy(); err == nil {
		names = append(names, list(h.root)...)
	}
	var left []string
	for _, name := range names {
		if netns.Owner(name) == pid {
			left = append(left, name)
		}
	}
	return left
}

// set stages a plan and strikes it when the test ends.
func set(t *testing.T, g *prereqs, number int, p plan) *fixture {
	t.Helper()
	st, err := setUp(t.Context(), programName, g, number, &p)
	t.Cleanup(func() {
		if err := st.teardown(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// get keeps n requests under way for a time and answers how many a second were
// answered, and with how many bytes of body.
func get(t *testing.T, addr string, n int, d time.Duration) (perSecond, bytesPerSecond float64) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	var answers, bytes atomic.Int64
	var clients sync.WaitGroup
	started := time.Now()
	for range n {
		clients.Go(func() {
			for time.Since(started) < d {
				res, err := client.Get("http://" + addr + "/")
				if err != nil {
					t.Error(err)
					return
				}
				k, err := io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if err != nil {
					t.Error(err)
					return
				}
				answers.Add(1)
				bytes.Add(k)
			}
		})
	}
	clients.Wait()
	s := time.Since(started).Seconds()
	return float64(answers.Load()) / s, float64(bytes.Load()) / s
}

func between(t *testing.T, what string, got, low, high float64) {
	t.Helper()
	if !(got >= low && got <= high) {
		t.Errorf("%s is %.4g, planted was %.4g to %.4g", what, got, low, high)
	}
}

func TestLinkCarriesWhatItSays(t *testing.T) {
	needs.Quiet(t)
	needs.Root(t)
	g := standing(t)
	if g.lack["namespaces"] != "" {
		t.Fatal(g.lack["namespaces"])
	}
	const bits = 80e6
	st := set(t, g, 1, plan{Bits: bits, Subject: host{Serve: "planted loop --bytes 20000"}})
	_, bytes := get(t, st.addr, 16, time.Second)
	// The bucket holds 66 kB more, and counts Ethernet, IP and TCP heads.
	between(t, "bodies, bit/s", bytes*8, 0.7*bits, 1.01*bits)

	const packets = 5000
	st = set(t, g, 2, plan{Packets: packets, Subject: host{Serve: "planted loop --bytes 40"}})
	answers, bytes := get(t, st.addr, 32, time.Second)
	// Each answer is a packet; some acknowledgements are packets of their own.
	between(t, "answers a second", answers, 0.5*packets, 1.05*packets)
	if bytes*8 > packets*1514*8/4 {
		t.Errorf("%.3g bit/s of bodies: the packets were to be small", bytes*8)
	}
}

func TestQuotaThrottles(t *testing.T) {
	needs.Quiet(t)
	needs.Root(t)
	g := standing(t)
	if g.lack["cgroup"] != "" {
		t.Fatal(g.lack["cgroup"])
	}
	const cores = 0.3
	st := set(t, g, 3, plan{Quota: cores, Subject: host{Serve: "planted cpu --cpu 500us"}})
	dir := filepath.Join(g.hierarchy.root, netns.Name(3))
	before := throttled(t, dir)
	answers, _ := get(t, st.addr, 8, time.Second)
	between(t, "answers a second", answers, 0.2*cores/500e-6, 1.5*cores/500e-6) // a period's quota more
	if n := throttled(t, dir) - before; n < 3 {
		t.Errorf("throttled in %d periods of 10", n)
	}
}

func throttled(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(line, "nr_throttled "); ok {
			v, _ := strconv.Atoi(strings.TrimSpace(n))
			return v
		}
	}
	t.Fatalf("no nr_throttled in %s", b)
	return 0
}

func TestGeneratorComesHome(t *testing.T) {
	needs.Root(t)
	g := standing(t)
	if g.lack["cgroup"] != "" {
		t.Fatal(g.lack["cgroup"])
	}
	home, err := g.hierarchy.ownGroup()
	if err != nil {
		t.Fatal(err)
	}
	st := set(t, g, 4, plan{GeneratorQuota: 0.5, Subject: host{Serve: "planted cpu"}})
	away, err := g.hierarchy.ownGroup()
	if err != nil || away.dir == home.dir {
		t.Errorf("in %v, %v, as before", away, err)
	}
	if err := st.teardown(); err != nil {
		t.Fatal(err)
	}
	if now, err := g.hierarchy.ownGroup(); err != nil || now.dir != home.dir {
		t.Errorf("in %v, %v, before in %v", now, err, home)
	}
}

func TestFrozenIsStruck(t *testing.T) {
	needs.Quiet(t)
	g := standing(t)
	st := set(t, g, 5, plan{Subject: host{Serve: "planted cpu"}})
	if err := st.act("stop"); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if err := st.teardown(); err != nil {
		t.Fatal(err)
	}
	if !st.subject.Ended() || time.Since(started) > 2*time.Second {
		t.Errorf("ended %v after %v", st.subject.Ended(), time.Since(started))
	}
}

func TestFailureLeavesNothing(t *testing.T) {
	needs.Root(t)
	g := standing(t)
	if g.lack["namespaces"] != "" {
		t.Fatal(g.lack["namespaces"])
	}
	bad := host{Serve: "planted pool"} // without its numbers: it does not come up
	st, err := setUp(t.Context(), programName, g, 6, &plan{Bits: 1e6, Helper: host{Serve: "planted cpu"}, Subject: bad})
	if err == nil || !strings.Contains(err.Error(), "pool needs") {
		t.Errorf("%v", err)
	}
	if err := st.teardown(); err != nil {
		t.Error(err)
	}
	if _, err := newNamespace(t.Context(), 7, 1, 0); err == nil {
		t.Error("a link without a rate was made")
	}
	nothingLeft(t, os.Getpid())
}

func TestInterruptLeavesNothing(t *testing.T) {
	needs.Engine(t)
	g := standing(t)
	goroutines := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []Result)
	name := "bandwidth"
	if g.lack["namespaces"] != "" {
		name = "pool"
	}
	go func() {
		results, _ := Run(ctx, Options{Program: programName, Only: []string{name}, Keep: t.TempDir()})
		done <- results
	}()
	time.AfterFunc(1500*time.Millisecond, cancel) // somewhere in the middle
	for _, r := range <-done {
		if r.Judged != NotRun {
			t.Errorf("%+v", r)
		}
	}
	// The look for a pprof endpoint leaves its connection in net/http's own pool.
	http.DefaultClient.CloseIdleConnections()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 64<<10)
			t.Fatalf("%d goroutines, before %d:\n%s", runtime.NumGoroutine(), goroutines, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// TestKilledLeavesWhatIsSwept kills the program in the middle of a scenario.
func TestKilledLeavesWhatIsSwept(t *testing.T) {
	needs.Root(t)
	g := standing(t)
	if g.lack["namespaces"] != "" {
		t.Fatal(g.lack["namespaces"])
	}
	cmd := exec.Command(programName, "selftest", "--only", "packets", "--patience", "0s", "--keep", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	waitFor(t, "a server in a namespace", func() bool {
		return len(belongings(t, pid)) > 0 && len(servers(t, pid)) > 0
	})
	children := servers(t, pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	waitFor(t, "the end of its children", func() bool {
		for _, child := range children {
			if syscall.Kill(child, 0) == nil {
				return false
			}
		}
		return true
	})
	// What there was before the kill is left; another selftest of this host may sweep it first.
	if _, err := sweep(); err != nil {
		t.Error(err)
	}
	nothingLeft(t, pid)
}

// servers are the processes of the program that a process has started.
func servers(t *testing.T, parent int) []int {
	t.Helper()
	all, err := sys.Processes()
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for pid, p := range all {
		if p.Parent == parent && string(p.Comm) == labProgram && p.State != 'Z' {
			pids = append(pids, pid)
		}
	}
	return pids
}

// waitFor polls: other processes tell nobody.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("this did not come: %s", what)
		}
	}
}

func TestSweepLeavesTheLivingAlone(t *testing.T) {
	needs.Root(t)
	g := standing(t)
	if g.lack["cgroup"] != "" {
		t.Fatal(g.lack["cgroup"])
	}
	living := filepath.Join(g.hierarchy.root, "ceiling-1-1")
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(g.hierarchy.root, fmt.Sprintf("ceiling-%d-1", cmd.Process.Pid))
	for _, dir := range []string{living, dead} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Remove(living)
	removed, err := sweep()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(living); err != nil {
		t.Error("the group of a living process was removed")
	}
	if _, err := os.Stat(dead); err == nil {
		t.Errorf("the group of a dead one is still there; removed: %v", removed)
	}
}

// TestOthersAreMeasured: an own child is no other, and a foreign busy loop is. What others use only grows, so
// that it holds at any load of the machine.
func TestOthersAreMeasured(t *testing.T) {
	needs.Root(t)
	g := standing(t)
	st := set(t, g, 8, plan{Subject: host{Serve: "planted neighbour --n 1"}})
	const least = 200 * time.Millisecond
	loops := func() (ns int64) {
		all, err := sys.Processes()
		if err != nil {
			t.Fatal(err)
		}
		for pid, p := range all {
			if within(all, pid, st.groups) {
				ns += int64(p.UserTicks+p.SystemTicks) * sys.TickNs
			}
		}
		return ns
	}
	waitFor(t, "the loop has looped", func() bool { return loops() >= int64(least) })
	with, err := othersNs(st.groups)
	if err != nil {
		t.Fatal(err)
	}
	if without, err := othersNs(nil); err != nil || without-with < int64(least)/2 { // both are counted in ticks
		t.Errorf("others used %d ns with the busy loop as ours, %d with it as foreign, %v", with, without, err)
	}
}

func TestDescendantsBelongToAGroup(t *testing.T) {
	table := map[int]*sys.PIDStat{1: {Group: 1}, 10: {Parent: 1, Group: 10}, 11: {Parent: 10, Group: 11}, 12: {Parent: 11, Group: 12},
		20: {Parent: 1, Group: 20}, 30: {Parent: 31}, 31: {Parent: 30}}
	ours := map[int]bool{10: true}
	for pid, want := range map[int]bool{1: false, 10: true, 11: true, 12: true, 20: false, 30: false, 40: false} {
		if got := within(table, pid, ours); got != want {
			t.Errorf("process %d: %v, want %v", pid, got, want)
		}
	}
}
