//go:build linux

package tune

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/nic"
	"ceiling/internal/sys"
	"ceiling/measure/observe"
)

// Two network namespaces with a veth pair of two queues between them: RPS, XPS and the
// sysctls of a namespace are the kernel's own there.

type pair struct {
	a, b *Host
	// A thread on CPU 0 in b's namespace sends while a context of work lasts, and says
	// on sent when it has ended. It takes time to get there.
	work chan context.Context
	sent chan error
}

func newPair(t *testing.T) *pair {
	t.Helper()
	needs.Root(t)
	cpus, err := sys.AllowedCPUs(0)
	if err != nil {
		t.Fatal(err)
	}
	if len(cpus) < 2 || cpus[0] != 0 || cpus[1] != 1 {
		t.Skipf("packets are moved between CPU 0 and 1; this process may use %v", cpus)
	}
	a, b := fmt.Sprintf("ceiling-tune-%d-a", os.Getpid()), fmt.Sprintf("ceiling-tune-%d-b", os.Getpid())
	for _, name := range []string{a, b} {
		ip(t, "netns", "add", name)
		t.Cleanup(func() { ip(t, "netns", "del", name) })
		ip(t, "-n", name, "link", "set", "lo", "up")
	}
	ip(t, "-n", a, "link", "add", "a0", "numrxqueues", "2", "numtxqueues", "2", "type", "veth",
		"peer", "name", "b0", "numrxqueues", "2", "numtxqueues", "2", "netns", b)
	for _, end := range [][3]string{{a, "a0", "10.97.0.1/24"}, {b, "b0", "10.97.0.2/24"}} {
		ip(t, "-n", end[0], "addr", "add", end[2], "dev", end[1])
		ip(t, "-n", end[0], "link", "set", end[1], "up")
	}
	state := t.TempDir()
	p := &pair{&Host{Namespace: a, State: filepath.Join(state, "a")}, &Host{Namespace: b, State: filepath.Join(state, "b")},
		make(chan context.Context), make(chan error)}
	go func() {
		if err := p.b.inside(p.sender); err != nil {
			p.sent <- err
		}
	}()
	t.Cleanup(func() { close(p.work) })
	if err := <-p.sent; err != nil {
		t.Fatal(err)
	}
	p.a.waitUp(t, "a0")
	p.b.waitUp(t, "b0")
	return p
}

// waitUp waits until an interface sends: the kernel takes up to a second from "up" to
// that (net/core/link_watch.c), and drops packets meanwhile.
func (h *Host) waitUp(t *testing.T, name string) {
	t.Helper()
	err := h.inside(func(h *Host) error {
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if sys.FileText(h.tree(), "sys/class/net/"+name+"/operstate") == "up" {
				return nil
			}
		}
		return fmt.Errorf("%s does not come up", name)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if text, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, text)
	}
}

// sender sends datagrams of many flows to a.
func (p *pair) sender(*Host) error {
	err := sys.Pin(0, []int{0}) // the thread ends with the function
	var fds []int
	defer func() { closeAll(fds) }()
	for range 64 {
		fd, failed := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
		err = errors.Join(err, failed)
		fds = append(fds, fd)
	}
	p.sent <- err
	to := &syscall.SockaddrInet4{Port: discardPort, Addr: [4]byte{10, 97, 0, 1}}
	for ctx := range p.work {
		for err = nil; err == nil && ctx.Err() == nil; time.Sleep(time.Millisecond) {
			for _, fd := range fds {
				failed := syscall.Sendto(fd, make([]byte, 100), 0, to)
				if failed != nil && !errors.Is(failed, syscall.ECONNREFUSED) {
					err = failed
				}
			}
		}
		p.sent <- err
	}
	return nil
}

// send has the sender send until ctx ends.
func (p *pair) send(ctx context.Context) error {
	p.work <- ctx
	return <-p.sent
}

// woken is how often RPS woke each of two CPUs while a thread on CPU 0 sent.
func (p *pair) woken(t *testing.T) (counts [2]uint32) {
	t.Helper()
	before, err := observe.SnapshotNetwork("/proc")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := p.send(ctx); err != nil {
		t.Fatal(err)
	}
	after, err := observe.SnapshotNetwork("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range after.Since(before).Softnet {
		if s.CPU < 2 {
			counts[s.CPU] = s.RPS
		}
	}
	return counts
}

func (h *Host) mustApply(t *testing.T, iface string, settings ...Setting) func() error {
	t.Helper()
	plan, err := h.Plan(Profile{Name: "test", Settings: settings}, Options{Interface: iface})
	if err != nil {
		t.Fatal(err)
	}
	undo, err := plan.Apply(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	return undo
}

func effectOf(t *testing.T, h *Host, w Watch, knob string) Evidence {
	t.Helper()
	v, err := h.Verify(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range v.Evidence {
		if e.Knob == knob {
			return e
		}
	}
	t.Fatalf("no evidence for %s: %+v", knob, v)
	return Evidence{}
}

// TestRPSByEffect: packets that CPU 0 sends are processed on CPU 1 once the mask says so,
// and verify says by what it knows; without packets it says that, and a mask that no
// packet comes by is not in effect.
func TestRPSByEffect(t *testing.T) {
	p := newPair(t)
	if n := p.woken(t); n[0]+n[1] > 0 {
		t.Fatalf("RPS is in use on this host already: %v", n)
	}
	undo := p.a.mustApply(t, "a0", Setting{Set: knobRPS, To: "1"})
	traffic := Watch{For: 300 * time.Millisecond, Traffic: p.send}
	if e := effectOf(t, p.a, traffic, knobRPS); e.Effect != InEffect || !strings.Contains(e.What, "CPU 1 ") {
		t.Errorf("%+v", e)
	}
	if n := p.woken(t); n[1] == 0 || n[0] > 0 {
		t.Errorf("woken: %v", n)
	}
	ip(t, "-n", p.a.Namespace, "link", "set", "a0", "down") // packets on the loopback only
	local := Watch{For: 300 * time.Millisecond, Traffic: loopback}
	if e := effectOf(t, p.a, local, knobRPS); e.Effect != NotInEffect {
		t.Errorf("without packets on the interface: %+v", e)
	}
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	ip(t, "-n", p.a.Namespace, "link", "set", "a0", "up")
	p.a.waitUp(t, "a0")
	p.b.waitUp(t, "b0")
	if n := p.woken(t); n[0]+n[1] > 0 {
		t.Errorf("after revert still woken: %v", n)
	}
}

// loopback has CPU 0 make packets that no interface with RPS receives; the counters are
// those of all namespaces.
func loopback(ctx context.Context) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never released: the thread ends with the goroutine
		done <- func() error {
			if err := sys.Pin(0, []int{0}); err != nil {
				return err
			}
			l, err := listenHere(1 << 10)
			if err != nil {
				return err
			}
			defer syscall.Close(l.fd)
			for ctx.Err() == nil {
				fds, err := l.connect(16)
				closeAll(fds)
				if err != nil {
					return err
				}
				time.Sleep(time.Millisecond)
			}
			return nil
		}()
	}()
	return <-done
}

// TestXPSByEffect: with XPS, what a CPU sends leaves by its queue; without, by a hash of
// each flow. A mask that another program has emptied is set back, and seen.
func TestXPSByEffect(t *testing.T) {
	p := newPair(t)
	if text, err := exec.Command("tc", "-n", p.b.Namespace, "qdisc", "add", "dev", "b0", "root", "mq").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	look := Watch{Probe: netip.MustParseAddr("10.97.0.1")}
	undo := p.b.mustApply(t, "b0", Setting{Set: knobXPS, To: "0-1"})
	for _, queue := range []int{0, 1} {
		v, err := p.b.Verify(t.Context(), look)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("CPU %d sent 2", queue) // 200, and what the kernel itself sends
		if e := v.Evidence[queue]; e.Effect != InEffect || !strings.Contains(e.What, want) {
			t.Errorf("%+v, want %s", e, want)
		}
	}
	if e := effectOf(t, p.b, Watch{}, knobXPS); e.Effect != NotShown {
		t.Errorf("without a probe: %+v", e)
	}
	// The evidence alone, where the masks are not what they were set to.
	ip(t, "netns", "exec", p.b.Namespace, "sh", "-c", "echo 0 | tee /sys/class/net/b0/queues/tx-*/xps_cpus")
	if e := effectOf(t, p.b, look, knobXPS); e.Effect != SetBack {
		t.Errorf("%+v", e)
	}
	err := p.b.inside(func(h *Host) error {
		e := effects{host: h, probe: look.Probe}
		if effect, what := e.xps(&Change{Of: "b0 tx-1", After: "2"}); effect != NotInEffect {
			t.Errorf("by a hash: %s: %s", effect, what)
		}
		return nil
	})
	if err := errors.Join(err, undo()); err != nil {
		t.Fatal(err)
	}
}

// TestSysctlsByEffect: a burst overflows a queue of 100 and fits into one of 600; ports
// come out of the range. Both are undone, and another namespace has never seen them.
func TestSysctlsByEffect(t *testing.T) {
	p := newPair(t)
	value := func(h *Host, name string) string {
		t.Helper()
		text := ""
		if err := h.inside(func(h *Host) error {
			text = sys.FileText(h.tree(), "proc/sys/"+strings.ReplaceAll(name, ".", "/"))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return text
	}
	const queue, ports = "net.core.somaxconn", "net.ipv4.ip_local_port_range"
	start, elsewhere := value(p.a, queue), value(p.b, queue)
	short := p.a.mustApply(t, "a0", Setting{Set: queue, To: "100"}, Setting{Set: ports, To: "20000 20999"})
	if e := effectOf(t, p.a, Watch{}, queue); e.Effect != InEffect || strings.HasSuffix(e.What, "ListenOverflows +0") || !strings.Contains(e.What, "takes 100: ") {
		t.Errorf("%+v", e)
	}
	if e := effectOf(t, p.a, Watch{}, ports); e.Effect != InEffect || !strings.Contains(e.What, "got ports from 20") {
		t.Errorf("%+v", e)
	}
	if err := short(); err != nil {
		t.Fatal(err)
	}
	if now := value(p.a, queue); now != start {
		t.Errorf("%s is %s, was %s", queue, now, start)
	}
	ip(t, "netns", "exec", p.a.Namespace, "sysctl", "-qw", queue+"=100")
	long := p.a.mustApply(t, "a0", Setting{Set: queue, To: "600"})
	if e := effectOf(t, p.a, Watch{}, queue); e.Effect != InEffect || !strings.Contains(e.What, "ListenOverflows +0") || !strings.Contains(e.What, "burst of 141 ") {
		t.Errorf("%+v", e)
	}
	ip(t, "netns", "exec", p.a.Namespace, "sysctl", "-qw", queue+"=50") // another program
	if e := effectOf(t, p.a, Watch{}, queue); e.Effect != SetBack || !strings.Contains(e.What, "it is 50 now") {
		t.Errorf("%+v", e)
	}
	done, err := (&Host{State: p.a.State}).Revert() // from outside of the namespace
	if err != nil || len(done) != 1 || done[0].Found != "50" || value(p.a, queue) != "100" {
		t.Errorf("%+v, %v; it is %s", done, err, value(p.a, queue))
	}
	if err := long(); err == nil {
		t.Error("reverted twice")
	}
	if now := value(p.b, queue); now != elsewhere {
		t.Errorf("the other namespace has %s, had %s", now, elsewhere)
	}
}

// TestKernelsOwnAnswers: what the kernel refuses, clamps or does not have.
func TestKernelsOwnAnswers(t *testing.T) {
	p := newPair(t)
	apply := func(s ...Setting) error {
		plan, err := p.a.Plan(Profile{Name: "test", Settings: append([]Setting{{Set: "net.core.somaxconn", To: "777"}}, s...)}, Options{Interface: "a0"})
		if err == nil {
			_, err = plan.Apply(t.Context(), owner)
		}
		return err
	}
	for _, c := range []struct {
		set, to, want string
	}{
		{"net.ipv4.tcp_fin_timeout", "soon", "the kernel takes another range"},
		{knobFlowCount, "3000", "the kernel set 4096 instead of 3000"},
		{"net.core.netdev_max_backlog", "2000", "does not exist here"}, // the host's alone
		{nicRxRing, "64", "driver veth has no rx_ring"},
		{knobIRQ, "0", "a0 has no interrupts of its own"},
		{knobMTU, "9", "the kernel takes another range"},
		{"offload no-such", "on", `no offload "no-such"`},
	} {
		if err := apply(Setting{Set: c.set, To: c.to}); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.set, err, c.want)
		}
		if in, err := p.a.InForce(); err != nil || in != nil {
			t.Errorf("%s: in force %v, %v", c.set, in, err)
		}
	}
	undo := p.a.mustApply(t, "a0", Setting{Set: "offload rx-gro", To: "on"}, Setting{Set: "offload tx-checksum-ip-generic", To: "off"},
		Setting{Set: knobFlush, To: "20000"}, Setting{Set: knobDefer, To: "2"}, Setting{Set: nicQueues, To: "1"})
	if e := effectOf(t, p.a, Watch{}, nicQueues); e.Effect != InEffect {
		t.Errorf("%+v", e)
	}
	if err := undo(); err != nil {
		t.Error(err)
	}
	if err := p.a.inside(func(h *Host) error {
		if n := len(nic.Queues(h.tree(), "a0", "rx")); n != 2 {
			t.Errorf("a0 has %d queues after revert", n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestNamespaceThatIsGone takes its values along: there is nothing to revert.
func TestNamespaceThatIsGone(t *testing.T) {
	p := newPair(t)
	ip(t, "netns", "add", p.a.Namespace+"x")
	h := &Host{Namespace: p.a.Namespace + "x", State: t.TempDir()}
	plan, err := h.Plan(Profile{Name: "test", Settings: []Setting{{Set: "net.core.somaxconn", To: "777"}}}, Options{})
	if err == nil {
		_, err = plan.Apply(t.Context(), owner)
	}
	ip(t, "netns", "del", h.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	done, err := (&Host{State: h.State}).Revert()
	if err != nil || len(done) != 1 || !strings.Contains(done[0].Gone, "namespace no longer exists") {
		t.Errorf("%+v, %v", done, err)
	}
}
