//go:build linux

package perturb

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ceiling/internal/needs"
)

// linkIn makes a network namespace, whose loopback is the link.
func linkIn(t *testing.T, number int) (space string) {
	t.Helper()
	needs.Root(t)
	needs.Program(t, "ip")
	// Named as those of the self-test, which removes what a killed test left.
	space = fmt.Sprintf("ceiling-%d-%d", os.Getpid(), number)
	if out, err := exec.Command("ip", "netns", "add", space).CombinedOutput(); err != nil {
		t.Fatalf("no network namespace can be made here: %s", out)
	}
	t.Cleanup(func() { tool(t, "ip", "netns", "delete", space) })
	tool(t, "ip", "-n", space, "link", "set", "lo", "up")
	return space
}

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

func rootOf(t *testing.T, space string) (d discipline) {
	t.Helper()
	l := &Link{name: "lo", space: space}
	err := l.inside(func(h *handle) error {
		var err error
		d, err = h.root(l.index)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func same(a, b discipline) bool {
	return a.Kind == b.Kind && a.Handle == b.Handle && bytes.Equal(a.Options, b.Options)
}

// shapes are root disciplines that somebody may have set: none, buckets with
// everything that tc knows of them, and one beyond 32 bits.
func shapes() map[string][]string {
	return map[string][]string{
		"default": nil,
		"plain":   {"tbf", "rate", "80mbit", "burst", "66000", "latency", "50ms"},
		"all": {"handle", "7:", "tbf", "rate", "80mbit", "burst", "66000", "limit", "300000", "mpu", "1514", "overhead", "24", "peakrate",
			"200mbit", "mtu", "9000"},
		"large": {"tbf", "rate", "50gbit", "burst", "8mb", "latency", "5ms"},
	}
}

func shaped(t *testing.T, space string, shape []string) discipline {
	t.Helper()
	if shape != nil {
		tool(t, "tc", append([]string{"-n", space, "qdisc", "replace", "dev", "lo", "root"}, shape...)...)
		t.Cleanup(func() { tool(t, "tc", "-n", space, "qdisc", "del", "dev", "lo", "root") })
	}
	return rootOf(t, space)
}

func TestLinkIsSlowedAndGivenBack(t *testing.T) {
	stateDir(t)
	space := linkIn(t, 1)
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			before := shaped(t, space, shape)
			l, err := findLink("lo", space, 1e9)
			if err != nil {
				t.Fatal(err)
			}
			n, left, how, err := l.slow(0.25)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(how)
			now := rootOf(t, space)
			rate, err := now.rate()
			if err != nil {
				t.Fatal(err)
			}
			want := 0.75 * 1e9 / 8
			if was, err := before.rate(); err == nil {
				want = 0.75 * float64(was)
			}
			if math.Abs(left-0.75) > 1e-3 || math.Abs(float64(rate)/want-1) > 1e-3 {
				t.Errorf("left %v, %d bytes/s, want %v", left, rate, want)
			}
			if _, _, _, err := l.slow(0.25); err == nil {
				t.Error("slowed twice")
			}
			if err := n.undo(); err != nil {
				t.Fatal(err)
			}
			if after := rootOf(t, space); !same(before, after) {
				t.Errorf("before %+v, after %+v", before, after)
			}
			nothingNoted(t)
		})
	}
}

func TestKilledLinkIsRestored(t *testing.T) {
	stateDir(t)
	space := linkIn(t, 2)
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			before := shaped(t, space, shape)
			p := start(t, "hold", "link", "lo", space)
			if err := Restore(); err != nil {
				t.Fatal(err)
			}
			slow := rootOf(t, space)
			p.kill()
			if same(before, slow) {
				t.Error("it was not slower: the test shows nothing")
			}
			if err := Restore(); err != nil {
				t.Fatal(err)
			}
			if after := rootOf(t, space); !same(before, after) {
				t.Errorf("before %+v, after %+v", before, after)
			}
			nothingNoted(t)
		})
	}
	// What somebody has changed since is theirs, and what is gone is gone.
	p := start(t, "hold", "link", "lo", space)
	p.kill()
	theirs := shaped(t, space, shapes()["plain"])
	if err := Restore(); err != nil || !same(theirs, rootOf(t, space)) {
		t.Errorf("another's: %v, %+v", err, rootOf(t, space))
	}
	nothingNoted(t)
	n := &note{Link: &heldLink{Interface: "lo", Namespace: "ceiling-nosuch"}}
	if err := n.Link.restore(); err != nil {
		t.Errorf("a namespace that is gone: %v", err)
	}
}

func TestLinkRefuses(t *testing.T) {
	stateDir(t)
	space := linkIn(t, 3)
	check := func(what, name, space string, speed float64, want string) {
		t.Helper()
		if _, err := findLink(name, space, speed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	check("no speed", "lo", space, 0, "--link-speed")
	check("no speed of the loopback here", "lo", "", 0, "--link-speed")
	check("no interface", "nosuch0", space, 1e9, "no such interface")
	check("no namespace", "lo", "ceiling-nosuch", 1e9, "no such interface")
	check("a path", "lo", "../x", 1e9, "invalid namespace name")
	shaped(t, space, []string{"htb"})
	check("htb", "lo", space, 1e9, "root queueing discipline is htb")
}

// TestScaledKeepsTheRest: only the rate and the time that the same bytes last
// change, and twice back is what it was.
func TestScaledKeepsTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := newBucket(rapid.Float64Range(2e4, 2e10).Draw(t, "bytes per second"))
		k := rapid.Float64Range(0.2, 1).Draw(t, "k")
		after, err := before.scaled(k)
		if err != nil {
			t.Fatal(err)
		}
		was, _ := before.rate()
		is, err := after.rate()
		if err != nil || math.Abs(float64(is)/float64(was)/k-1) > 1e-3 {
			t.Fatalf("%d bytes/s become %d, want %v of it (%v)", was, is, k, err)
		}
		if after.Kind != before.Kind || after.Handle != before.Handle || len(after.Options) != len(before.Options) {
			t.Fatalf("%+v becomes %+v", before, after)
		}
	})
}

func FuzzBucket(f *testing.F) {
	f.Add(newBucket(1e6).Options)
	f.Add(newBucket(1e10).Options)
	f.Fuzz(func(t *testing.T, options []byte) {
		d := discipline{Kind: "tbf", Options: options}
		rate, err := d.rate()
		if err != nil {
			return
		}
		if s, err := d.scaled(1); err == nil && rate < 1<<53 {
			if again, err := s.rate(); err != nil || again > rate {
				t.Errorf("%d becomes %d (%v)", rate, again, err)
			}
		}
	})
}
