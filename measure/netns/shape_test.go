//go:build linux

package netns

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// disciplines are the queueing disciplines of both ends of a link.
func disciplines(t *testing.T, n *Namespace) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "tc", "-d", "qdisc", "show", "dev", n.veth).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, args := n.Within("tc", "-d", "qdisc", "show", "dev", Interface)
	inner, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, inner)
	}
	return string(out) + string(inner)
}

// A link has what was last asked of it, in both directions, and nothing of what was asked before.
func TestShape(t *testing.T) {
	needs.Root(t)
	n, err := New(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Remove(); err != nil {
			t.Error(err)
		}
	}()
	packets := Shape{}
	packets.LimitPackets(1000)
	for _, c := range []struct {
		shape Shape
		want  string
	}{
		{Shape{BitsPerS: 400e6}, "tbf 1: root refcnt 2 rate 400Mbit burst 66000b/1 mpu 0b lat 50ms"},
		{Shape{BitsPerS: 1e9, BurstBytes: 100_000}, "rate 1Gbit burst 100000b"},
		{Shape{BitsPerS: 1e9}, "rate 1Gbit burst 125000b"},
		{packets, "mpu 1514b"},
		{Shape{}, ""},
		{Shape{BitsPerS: 1e6}, "rate 1Mbit"},
	} {
		if err := n.Shape(t.Context(), c.shape); err != nil {
			t.Fatalf("%+v: %v", c.shape, err)
		}
		got := disciplines(t, n)
		if c.want == "" && strings.Contains(got, "tbf") || c.want != "" && strings.Count(got, c.want) != 2 {
			t.Errorf("%+v: want %s at both ends\n%s", c.shape, c.want, got)
		}
	}
	switch err := n.Shape(t.Context(), Shape{Delay: time.Millisecond}); {
	case errors.Is(err, ErrNoDelay): // of this kernel
	case err != nil:
		t.Error(err)
	case strings.Count(disciplines(t, n), "delay 1ms") != 2:
		t.Error(disciplines(t, n))
	}
}
