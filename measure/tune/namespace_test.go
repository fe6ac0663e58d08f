//go:build linux

package tune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/nic"
	"ceiling/internal/sys"
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
	defer func() {
		for _, fd := range fds {
			syscall.Close(fd)
		}
	}()
	for range 64 {
		fd, failed := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
		err = errors.Join(err, failed)
		fds = append(fds, fd)
	}
	p.sent <- err
	to := &syscall.SockaddrInet4{Port: 9, Addr: [4]byte{10, 97, 0, 1}}
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
func (p *pair) woken(t *testing.T) [2]uint64 {
	t.Helper()
	before := wakeups(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := p.send(ctx); err != nil {
		t.Fatal(err)
	}
	after := wakeups(t)
	return [2]uint64{after[0] - before[0], after[1] - before[1]}
}

// wakeups are received_rps of CPU 0 and 1 since boot: the tenth column of softnet_stat (net/core/net-procfs.c).
func wakeups(t *testing.T) (counts [2]uint64) {
	t.Helper()
	for i, line := range strings.Split(sys.FileText(os.DirFS("/"), "proc/net/softnet_stat"), "\n") {
		columns := strings.Fields(line)
		if i > 1 || len(columns) < 10 {
			break
		}
		var err error
		if counts[i], err = strconv.ParseUint(columns[9], 16, 64); err != nil {
			t.Fatal(err)
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

// TestRPSByEffect: packets that CPU 0 sends are processed on CPU 1 while the mask says so.
func TestRPSByEffect(t *testing.T) {
	p := newPair(t)
	if n := p.woken(t); n[0]+n[1] > 0 {
		t.Fatalf("RPS is in use on this host already: %v", n)
	}
	undo := p.a.mustApply(t, "a0", Setting{Set: knobRPS, To: "1"})
	if n := p.woken(t); n[1] == 0 || n[0] > 0 {
		t.Errorf("woken: %v", n)
	}
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	if n := p.woken(t); n[0]+n[1] > 0 {
		t.Errorf("after revert still woken: %v", n)
	}
}

// TestSysctls: set, seen when another program changes it, and undone from outside of the namespace;
// another namespace has never seen it.
func TestSysctls(t *testing.T) {
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
	const queue = "net.core.somaxconn"
	elsewhere := value(p.b, queue)
	ip(t, "netns", "exec", p.a.Namespace, "sysctl", "-qw", queue+"=100")
	plan, err := p.a.Plan(Profile{Name: "test", Settings: []Setting{{Set: queue, To: "600"}}}, Options{Interface: "a0"})
	if err != nil {
		t.Fatal(err)
	}
	undo, err := plan.Apply(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := plan.Kept(); err != nil || len(kept) != 1 || kept[0].Instead != "" {
		t.Errorf("%+v, %v", kept, err)
	}
	ip(t, "netns", "exec", p.a.Namespace, "sysctl", "-qw", queue+"=50") // another program
	if kept, err := plan.Kept(); err != nil || len(kept) != 1 || kept[0].Instead != "50" {
		t.Errorf("%+v, %v", kept, err)
	}
	done, err := (&Host{State: p.a.State}).Revert() // from outside of the namespace
	if err != nil || len(done) != 1 || done[0].Found != "50" || value(p.a, queue) != "100" {
		t.Errorf("%+v, %v; it is %s", done, err, value(p.a, queue))
	}
	if err := undo(); err == nil {
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
		{knobIRQ, "0", "a0 has no interrupts"},
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
