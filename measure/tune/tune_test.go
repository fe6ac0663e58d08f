//go:build linux

package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"ceiling/internal/needs"
	"ceiling/internal/nic"
)

func load(t testing.TB, name string) Profile {
	t.Helper()
	p, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func planOf(t testing.TB, h *Host, p Profile) *Plan {
	t.Helper()
	plan, err := h.Plan(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

var owner = Owner{Who: "a test"} // read-only

// TestProfilesApplyAndRevert: on both fixtures every profile that comes with the program
// is applied, is in force, needs nothing more, and leaves nothing behind when reverted.
func TestProfilesApplyAndRevert(t *testing.T) {
	t.Parallel()
	profiles, err := Profiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"c8i", "virtio"} {
		for _, p := range profiles {
			t.Run(name+" "+p.Name, func(t *testing.T) {
				t.Parallel()
				h := fixture(t, name)
				before := snapshot(t, h.Root)
				plan := planOf(t, h, p)
				if len(plan.Changes) == 0 {
					t.Fatal("nothing to change")
				}
				undo, err := plan.Apply(t.Context(), owner)
				if err != nil {
					t.Fatal(err)
				}
				if again := planOf(t, h, p); len(again.Changes) > 0 {
					t.Errorf("still to change: %v", &again.Changes[0])
				}
				if in, err := h.InForce(); err != nil || in == nil || in.Profile != p.Name || !in.Complete || len(in.Changes) != len(plan.Changes) {
					t.Errorf("in force: %v, %v", in, err)
				}
				if err := undo(); err != nil {
					t.Fatal(err)
				}
				untouched(t, h, before)
				if err := undo(); !errors.Is(err, ErrNotTuned) {
					t.Errorf("undone twice: %v", err)
				}
			})
		}
	}
}

// values of the changes whose name has a word, by what they belong to.
func values(changes []Change, knob string) string {
	var list []string
	for i := range changes {
		if c := &changes[i]; c.Knob == knob {
			list = append(list, fmt.Sprintf("%s=%s", c.Of, strings.ReplaceAll(c.After, "\n", `\n`)))
		}
	}
	return strings.Join(list, " ")
}

// TestPlans: what profiles come to on the fixtures, where it is not the number that
// stands in the file.
func TestPlans(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	for _, c := range []struct{ host, profile, knob, want string }{
		// Eight cores of 32 on the NIC's node: four queues each, the management
		// interrupt left alone.
		{"c8i", "irq-pinned", knobIRQ, "ens5 IRQ 102 (ens5-Tx-Rx-1)=1 "},
		{"c8i", "irq-pinned", knobIRQ, "ens5 IRQ 109 (ens5-Tx-Rx-8)=0 "},
		{"c8i", "irq-pinned", knobIRQBalance, "=stopped"},
		{"c8i", "rps-rfs", knobRPS, "ens5 rx-0=ffffffff,00000000,ffffffff "},
		{"c8i", "rps-rfs", knobFlowCount, "ens5 rx-31=1024"},
		{"virtio", "rps-rfs", knobRPS, "eth0 rx-0=3"},
		{"virtio", "rps-rfs", knobFlowCount, "eth0 rx-0=32768"},
		{"virtio", "irq-pinned", knobIRQ, "eth0 IRQ 38 (virtio2-input.0)=0 eth0 IRQ 39 (virtio2-output.0)=0"},
	} {
		plan := planOf(t, fixture(t, c.host), load(t, c.profile))
		if got := values(plan.Changes, c.knob); !strings.Contains(got+" ", c.want) {
			t.Errorf("%s %s: %s is %s, want %s", c.host, c.profile, c.knob, got, c.want)
		}
	}
	// XPS of the fixture is already one queue a CPU; a value that is higher stays.
	plan := planOf(t, fixture(t, "c8i"), load(t, "rps-rfs"))
	if got := values(plan.Changes, knobXPS); got != "" {
		t.Errorf("XPS changes: %s", got)
	}
	if got := values(plan.Changes, knobIRQ); strings.Contains(got, "mgmnt") {
		t.Error("the management interrupt is moved")
	}
	if c := plan.Cores; len(c.Interrupts) != 8 || len(c.Workers) != 112 || slices.Contains(c.Workers, 64) {
		t.Errorf("interrupts %v, workers %v", c.Interrupts, c.Workers)
	}
	h := fixture(t, "virtio")
	if err := os.WriteFile(filepath.Join(h.Root, "proc/sys/net/core/somaxconn"), []byte("100000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := values(planOf(t, h, load(t, "server")).Changes, "net.core.somaxconn"); got != "" {
		t.Errorf("a longer queue is shortened to %s", got)
	}
}

// faults wraps a fixture: what writes of a path do.
type faults struct {
	backend
	write_ map[string]func(value string) (string, error)
}

func (f *faults) write(kind, path, value string) error {
	if change := f.write_[path]; change != nil {
		var err error
		if value, err = change(value); err != nil {
			return &fs.PathError{Op: "write", Path: path, Err: err}
		}
	}
	return f.backend.write(kind, path, value)
}

// TestFailedChangesUndoTheOnesBefore: whatever fails at the last change, the error is one
// clear line and everything is as it was.
func TestFailedChangesUndoTheOnesBefore(t *testing.T) {
	t.Parallel()
	const last = "proc/sys/net/ipv4/tcp_fin_timeout"
	fails := func(err error) func(*testing.T, *Host) {
		return func(_ *testing.T, h *Host) {
			h.back = &faults{h.back, map[string]func(string) (string, error){last: func(v string) (string, error) {
				if v == "60" { // the way back
					return v, nil
				}
				return "", err
			}}}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*testing.T, *Host)
		want  string
	}{
		"read-only /sys": {fails(syscall.EROFS), "mounted read-only, as in a container"},
		"no privilege":   {fails(syscall.EACCES), "only root may"},
		"refused":        {fails(syscall.EINVAL), "the kernel takes another range"},
		"clamped": {func(_ *testing.T, h *Host) {
			h.back = &faults{h.back, map[string]func(string) (string, error){last: func(v string) (string, error) {
				return strings.Replace(v, "15", "20", 1), nil
			}}}
		}, "the kernel set 20 instead of 15"},
		"changed back": {func(_ *testing.T, h *Host) {
			// Another program writes when ours has gone on to the next.
			h.back = &faults{h.back, map[string]func(string) (string, error){last: func(v string) (string, error) {
				return v, os.WriteFile(filepath.Join(h.Root, "proc/sys/net/core/somaxconn"), []byte("4096\n"), 0o644)
			}}}
		}, "net.core.somaxconn is 4096 again and was set to 65535: another program changes it back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := fixture(t, "virtio")
			before := snapshot(t, h.Root)
			c.spoil(t, h)
			p := load(t, "server")
			p.Settings = slices.DeleteFunc(p.Settings, func(s Setting) bool { return s.Set == "net.ipv4.tcp_slow_start_after_idle" })
			_, err := planOf(t, h, p).Apply(t.Context(), owner)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") ||
				!strings.HasSuffix(err.Error(), "nothing is changed: what was set before it is undone") {
				t.Errorf("%v, want %q", err, c.want)
			}
			untouched(t, h, before)
		})
	}
}

func TestInterruptedApplyIsUndone(t *testing.T) {
	t.Parallel()
	h := fixture(t, "virtio")
	before := snapshot(t, h.Root)
	ctx, cancel := context.WithCancel(t.Context())
	h.back = &faults{h.back, map[string]func(string) (string, error){
		"proc/sys/net/ipv4/tcp_tw_reuse": func(v string) (string, error) { cancel(); return v, nil }}}
	if _, err := planOf(t, h, load(t, "server")).Apply(ctx, owner); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	untouched(t, h, before)
}

// TestFullDisk: the journal cannot be written at its head, nor in its middle, on a disk
// of one page.
func TestFullDisk(t *testing.T) {
	needs.Root(t)
	for _, left := range []int{0, 1000} {
		h := fixture(t, "c8i")
		before := snapshot(t, h.Root)
		if err := os.Mkdir(h.State, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", h.State, "tmpfs", 0, "size=8k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(h.State, syscall.MNT_DETACH) })
		if left == 0 {
			if err := os.WriteFile(filepath.Join(h.State, "full"), make([]byte, 8192), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		_, err := planOf(t, h, load(t, "rps-rfs")).Apply(t.Context(), owner) // some 12 kB of journal
		if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "nothing") {
			t.Errorf("with %d bytes left: %v", left, err)
		}
		untouched(t, h, before)
	}
}

func TestMissingSysctl(t *testing.T) {
	t.Parallel()
	h := fixture(t, "virtio")
	p := Profile{Name: "mine", Settings: []Setting{{Set: "net.core.somaxconn", To: "9000"}, {Set: "net.core.warp_speed", To: "9"}}}
	_, err := h.Plan(p, Options{})
	if err == nil || !strings.Contains(err.Error(), "net.core.warp_speed does not exist here (/proc/sys/net/core/warp_speed)") {
		t.Error(err)
	}
	p.Settings[1].Optional = true
	plan := planOf(t, h, p)
	if len(plan.Changes) != 1 || len(plan.Skipped) != 1 || plan.Skipped[0].Knob != "net.core.warp_speed" {
		t.Errorf("%+v", plan)
	}
	for set, want := range map[string]string{"queues": "this host only", "governor": "no cpufreq"} {
		if _, err := h.Plan(Profile{Settings: []Setting{{Set: set, To: "4"}}}, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", set, err)
		}
	}
	if _, err := h.Plan(p, Options{Interface: "eth7"}); err == nil || !strings.Contains(err.Error(), "no interface eth7") {
		t.Error(err)
	}
}

// TestOneTuningAtATime: while one is in force or being made there is no second.
func TestOneTuningAtATime(t *testing.T) {
	t.Parallel()
	h := fixture(t, "virtio")
	before := snapshot(t, h.Root)
	undo, err := planOf(t, h, load(t, "client")).Apply(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := planOf(t, h, load(t, "server")).Apply(t.Context(), owner); !errors.Is(err, ErrTuned) || !strings.Contains(err.Error(), "profile client, by a test") {
		t.Error(err)
	}
	if err := h.Restore(); err != nil { // its process, this one, lives
		t.Error(err)
	}
	unlock, err := h.lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := undo(); !errors.Is(err, ErrTuned) {
		t.Errorf("reverted under a lock: %v", err)
	}
	unlock()
	if err := undo(); err != nil {
		t.Error(err)
	}
	untouched(t, h, before)
}

// TestReboot: the kernel has its own values again.
func TestReboot(t *testing.T) {
	t.Parallel()
	h := fixture(t, "virtio")
	if _, err := planOf(t, h, load(t, "server")).Apply(t.Context(), Owner{Who: "a test", Stays: true}); err != nil {
		t.Fatal(err)
	}
	somaxconn := filepath.Join(h.Root, "proc/sys/net/core/somaxconn")
	for path, text := range map[string]string{somaxconn: "128\n", filepath.Join(h.Root, "proc/sys/kernel/random/boot_id"): "another\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	done, err := h.Revert()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(somaxconn); err != nil || string(text) != "128\n" {
		t.Errorf("the new boot's value was changed to %s, %v", text, err)
	}
	if gone := slices.ContainsFunc(done, func(r Reverted) bool { return r.Gone != "" && strings.Contains(r.Gone, "started again") }); !gone {
		t.Errorf("%+v", done)
	}
}

// TestRevertTellsOfOthers: a value that another program has set meanwhile is given the
// state before, and that is said; what is gone has nothing to be undone.
func TestRevertTellsOfOthers(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	h := fixture(t, "c8i")
	before := snapshot(t, h.Root)
	undo := planOf(t, h, load(t, "irq-pinned"))
	if _, err := undo.Apply(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.Root, "proc/irq/102/smp_affinity_list"), []byte("77\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(h.Root, "proc/irq/103")); err != nil {
		t.Fatal(err)
	}
	done, err := h.Revert()
	if err != nil {
		t.Fatal(err)
	}
	found, gone := 0, 0
	for _, r := range done {
		if r.Found == "77" && strings.Contains(r.String(), "IRQ 102") {
			found++
		}
		if r.Gone != "" && strings.Contains(r.String(), "IRQ 103") {
			gone++
		}
	}
	if found != 1 || gone != 1 {
		t.Errorf("%d found, %d gone", found, gone)
	}
	delete(before, "proc/irq/103")
	delete(before, "proc/irq/103/smp_affinity_list")
	untouched(t, h, before)
}

// TestKilledAtEveryStep: wherever a process that applies is killed, the next start finds
// the host as it was; and one that is killed while it reverts is finished by the next
// revert.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"before", "half", "after"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := fixture(t, "virtio")
			before := snapshot(t, h.Root)
			step := 1
			for ; killedAt(t, h, "apply", "client", step, how); step++ {
				if err := h.Restore(); err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				// The last step notes that all is made: killed after it, it stays.
				if in, err := h.InForce(); err != nil || in != nil && (how != "after" || !in.Complete) {
					t.Fatalf("step %d: in force %v, %v", step, in, err)
				} else if in != nil {
					if _, err := h.Revert(); err != nil {
						t.Fatal(err)
					}
				}
				untouched(t, h, before)
				if t.Failed() {
					t.Fatalf("step %d", step)
				}
			}
			if step < 8 {
				t.Fatalf("%d steps", step)
			}
			// Applied whole now, and reverted in pieces.
			for step := 1; killedAt(t, h, "revert", "", step, how); step++ {
				if _, err := h.Revert(); err != nil {
					t.Fatal(err)
				}
				untouched(t, h, before)
				if killedAt(t, h, "apply", "client", 1000, how) || t.Failed() {
					t.Fatalf("reverting, step %d", step)
				}
			}
			untouched(t, h, before)
		})
	}
}

func TestBrokenJournalIsNotGuessed(t *testing.T) {
	t.Parallel()
	h := fixture(t, "virtio")
	before := snapshot(t, h.Root)
	if err := os.Mkdir(h.State, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.State, journalName)
	for _, text := range []string{"{}\n", "x\n", `{"head":{"schema":"other/1"}}` + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := h.Revert()
		if err == nil || !strings.Contains(err.Error(), path+":1") {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := planOf(t, h, load(t, "client")).Apply(t.Context(), owner); err == nil {
			t.Errorf("%q: tuned over it", text)
		}
	}
	sameTree(t, before, snapshot(t, h.Root))
}

func TestProfilesThatAreNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "it is empty",
		"name: x":                          "no settings",
		"nam: x\nsettings: []":             "p.yaml:1: unknown field",
		"settings: [{set: a}]":             `unknown knob "a"`,
		"settings: [{set: ../mtu, to: 1}]": "unknown knob",
		"settings: [{set: net.core/../../x, to: 1}]": "unknown knob",
		"settings: [{set: mtu}]":                     "mtu has no value",
		"settings: [{set: mtu, to: [1]}]":            "p.yaml",
	} {
		if _, err := ParseProfile([]byte(text), "p.yaml"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Load("sever"); err == nil || !strings.Contains(err.Error(), "use client, irq-pinned, low-latency, rps-rfs, server") {
		t.Error(err)
	}
	profiles, err := Profiles()
	if err != nil || len(profiles) != 5 {
		t.Fatal(profiles, err)
	}
	for _, p := range profiles {
		for _, s := range p.Settings {
			if s.Why == "" || len(p.About) < 40 {
				t.Errorf("%s: %s has no reason", p.Name, s.Set)
			}
		}
	}
}

// TestValuesThatAreRefused before anything is written.
func TestValuesThatAreRefused(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	h := fixture(t, "c8i")
	for set, c := range map[string]struct{ to, want string }{
		knobRPS:        {"some", "names no CPUs"},
		knobIRQ:        {"none", "needs CPUs"},
		knobFlowCount:  {"many", "invalid number of flows"},
		knobIRQBalance: {"off", "running or stopped"},
	} {
		if _, err := h.Plan(Profile{Settings: []Setting{{Set: set, To: c.to}}}, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", set, err, c.want)
		}
	}
	if _, err := h.Plan(load(t, "irq-pinned"), Options{Interrupts: []int{0, 500}}); err == nil || !strings.Contains(err.Error(), "not all of them are online") {
		t.Error(err)
	}
	plan, err := h.Plan(load(t, "irq-pinned"), Options{Interrupts: []int{2, 3}})
	if err != nil || !strings.Contains(values(plan.Changes, knobIRQ), "(ens5-Tx-Rx-0)=2 ") || slices.Contains(plan.Cores.Workers, 66) {
		t.Errorf("%+v, %v", plan, err)
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	h := fixture(t, "c8i")
	var b strings.Builder
	for _, name := range []string{"irq-pinned", "server"} {
		if err := planOf(t, h, load(t, name)).Text(&b, true); err != nil {
			t.Fatal(err)
		}
	}
	text := b.String()
	for _, want := range []string{
		"systemctl stop irqbalance.service", "echo 1 > /proc/irq/102/smp_affinity_list", "sysctl -w net.ipv4.ip_local_port_range='1024 65535'",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	inside := Host{Namespace: "srv"}
	for param, want := range map[string]string{
		"eth0/queues": "ethtool -L eth0 combined 1", "eth0/adaptive_rx": "ethtool -C eth0 adaptive-rx on", "eth0/offload gro": "ethtool -K eth0 gro 1",
	} {
		if got := inside.command(&Change{Kind: KindNIC, Path: param, After: "1"}); got != "ip netns exec srv sh -c '"+want+"'" {
			t.Errorf("%s: %s", param, got)
		}
	}
}

func TestMasks(t *testing.T) {
	t.Parallel()
	for text, cpus := range map[string][]int{"0": nil, "3": {0, 1}, "1,00000000": {32}, "80000000,00000001": {0, 63}} {
		if got := nic.Mask(cpus); got != text {
			t.Errorf("%v: %s, want %s", cpus, got, text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		cpus := rapid.SliceOfDistinct(rapid.IntRange(0, 300), func(c int) int { return c }).Draw(t, "cpus")
		slices.Sort(cpus)
		got, err := nic.ParseMask("00000000," + nic.Mask(cpus))
		if err != nil || !slices.Equal(got, cpus) {
			t.Fatalf("%v came back as %v, %v", cpus, got, err)
		}
		if !same(knobRPS, "0,"+nic.Mask(cpus), nic.Mask(cpus)) {
			t.Fatal("leading zeros make it another mask")
		}
	})
	if same(knobRPS, "1", "2") || same("net.core.somaxconn", "01", "1") || !same("net.ipv4.ip_local_port_range", "1\t2", "1 2") || !same(knobIRQ, "0,1", "0-1") {
		t.Error("same")
	}
	if _, err := nic.ParseMask("g"); err == nil {
		t.Error("g is a mask")
	}
}

// TestCores: siblings stay together, a small machine still has workers.
func TestCores(t *testing.T) {
	t.Parallel()
	for online, want := range map[string][2]string{"0": {"[0]", "[0]"}, "0-1": {"[0]", "[1]"}, "0-7": {"[0 1]", "[2 3 4 5 6 7]"}} {
		root := fstest.MapFS{"sys/devices/system/cpu/online": {Data: []byte(online)}}
		c, err := coresOf(root, &nic.Interface{Node: -1, Rx: 2}, nil)
		if err != nil || fmt.Sprint(c.Interrupts) != want[0] || fmt.Sprint(c.Workers) != want[1] {
			t.Errorf("%s: %+v, %v", online, c, err)
		}
	}
}

// TestShow: every knob is there on the fixtures and on this host, with what the profiles
// would change.
func TestShow(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	for _, h := range []*Host{fixture(t, "c8i"), fixture(t, "virtio"), {State: t.TempDir()}} {
		s, err := h.Show(Options{})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := s.Text(&b); err != nil {
			t.Fatal(err)
		}
		if h.Root != "" && (!strings.Contains(b.String(), "sysctl -w net.core.somaxconn=65535") || len(s.Plans) < 3) {
			t.Error(b.String())
		}
	}
}

func FuzzParseProfile(f *testing.F) {
	profiles, err := fs.Glob(embeddedProfiles, "profiles/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range profiles {
		data, err := embeddedProfiles.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	h := fixture(f, "virtio")
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParseProfile(data, "p.yaml")
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %v", err)
			}
			return
		}
		plan, err := h.Plan(p, Options{})
		if err != nil {
			return
		}
		for _, c := range plan.Changes {
			if c.Kind == KindValue && !strings.HasPrefix(c.Path, "proc/sys/") && !strings.HasPrefix(c.Path, "sys/") && !strings.HasPrefix(c.Path, "proc/irq/") {
				t.Errorf("writes %s", c.Path)
			}
		}
	})
}

// TestReaches: what a load crosses decides what a tuning can act on. The load goes over the
// loopback, or over a unix socket; the host has a NIC with 32 queues.
func TestReaches(t *testing.T) {
	needs.Time(t)
	loopback := Target{URL: "http://127.0.0.1:80", Server: netip.MustParseAddrPort("127.0.0.1:80"), Here: true}
	socket := Target{URL: "unix:/run/x.sock:/"}
	h := fixture(t, "c8i")
	const wrong = "cannot act on the load: requests to http://127.0.0.1:80 cross lo, not ens5; write interface: lo, or give"
	for _, c := range []struct {
		to       *Target
		settings string // KNOB=value, blanks in between
		want     string // in the error; "": none
	}{
		{&loopback, "irq_affinity=interrupts", wrong},
		{&loopback, "rps_cpus=all", wrong},
		{&loopback, "rps_flow_cnt=4096", wrong},
		{&loopback, "xps_cpus=all", wrong},
		{&loopback, "napi_defer_hard_irqs=2", wrong},
		{&loopback, "mtu=1500", wrong},
		{&loopback, "net.core.netdev_max_backlog=5000 rps_cpus=all", wrong},
		{&loopback, "net.core.netdev_max_backlog=5000", ""},
		{&loopback, "net.core.somaxconn=100", ""},
		{&loopback, "net.ipv4.tcp_fin_timeout=30", ""},
		{&socket, "rps_cpus=all", "unix:/run/x.sock:/ is a unix socket, and its bytes cross no interface; give the server a TCP address"},
		{&socket, "net.ipv4.tcp_fin_timeout=30", "is a unix socket"},
		{&socket, "net.core.netdev_max_backlog=5000", "is a unix socket"},
		{&socket, "net.core.somaxconn=100", ""},
	} {
		p := Profile{Name: "test"}
		for _, text := range strings.Fields(c.settings) {
			knob, value, _ := strings.Cut(text, "=")
			p.Settings = append(p.Settings, Setting{Set: knob, To: value})
		}
		plan, err := h.Plan(p, Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.settings, err)
		}
		err = plan.Reaches(c.to)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s, %s: %v, want %q", c.to.URL, c.settings, err, c.want)
		}
	}
}
