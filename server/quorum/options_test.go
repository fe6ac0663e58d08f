package quorum

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
)

func TestParse(t *testing.T) {
	t.Parallel()
	o, err := Parse("replicas=3,delay=1ms,mirror=yes,sync=always,net=loopback,bound=50ms,timeout=1s,within=5s")
	want := Options{Replicas: 3, Delay: time.Millisecond, Mirror: true, Sync: true, Net: Loopback, Bound: 50 * time.Millisecond,
		Timeout: time.Second, Within: 5 * time.Second}
	if o != want || err != nil {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := Parse("own"); o != Standard() || err != nil {
		t.Errorf("%+v, %v", o, err)
	}
	for _, text := range []string{"", "replicas=2", "replicas=x", "delay=1ms", "replicas=3,delay=-1ms", "replicas=3,delay=1s", "mirror", "sync=yes",
		"net=lan", "bound=1ms", "speed=1", "timeout=0s", "within=2m"} {
		if _, err := Parse(text); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Without the right to make namespaces replicas are on the loopback, and where namespaces were asked for it is said.
func TestChooseNet(t *testing.T) {
	needs.Program(t, "ip")
	for _, test := range []struct {
		asked string
		user  int
		want  string
		why   string
	}{
		{"", 0, Namespaces, ""}, {Loopback, 0, Loopback, ""}, {"", 1000, Loopback, ""}, {Namespaces, 1000, "", "takes root; use net=loopback"},
	} {
		got, err := chooseNet(test.asked, test.user)
		if got != test.want || (err == nil) != (test.why == "") || err != nil && !strings.Contains(err.Error(), test.why) {
			t.Errorf("%q for user %d: %q, %v", test.asked, test.user, got, err)
		}
	}
	t.Setenv("PATH", os.DevNull)
	if got, err := chooseNet("", 0); got != Loopback || err != nil {
		t.Errorf("without ip: %q, %v", got, err)
	}
}

func TestCheckKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{"a": true, "A-1_b": true, "": false, "_a": false, "a.b": false, "a b": false, "*": false, ">": false,
		strings.Repeat("a", 201): false, "\u00e4": false} {
		if err := CheckKey(key); (err == nil) != want {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// A delay costs a write one round trip, and not two; a replica that nobody waits for costs none. Every commit takes two delays at
// least, whatever else the machine does, and the one in the middle less than four.
func TestDelayIsOneRoundTrip(t *testing.T) {
	needs.Quiet(t)
	t.Parallel()
	const delay = 25 * time.Millisecond
	for _, test := range []struct {
		name, options string
		trips         int
	}{
		{"a quorum of three", "replicas=3,delay=25ms,net=loopback", 1},
		{"a mirror", "mirror=yes,delay=25ms,net=loopback", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := started(t, test.options)
			until(t, "the leader is known", func() bool { b.look(); return b.lead.changes.Load() > 0 || b.lead.at.Load() == 0 })
			for name, do := range map[string]func() error{
				"write": func() error { _, err := b.Put(t.Context(), Any(1), nil); return err },
				"read":  func() error { _, err := b.Get(t.Context(), Any(1)); return err },
			} {
				var took []time.Duration
				for range 15 {
					begun := time.Now()
					if err := do(); err != nil {
						t.Fatal(err)
					}
					took = append(took, time.Since(begun))
				}
				slices.Sort(took)
				least, median := took[0], took[len(took)/2]
				trip := time.Duration(2*test.trips) * delay
				if least < trip || median >= trip+2*delay {
					t.Errorf("a %s takes %v at least and %v in the middle; a round trip is %v, and %d are wanted", name, least, median, 2*delay, test.trips)
				}
				t.Logf("%s: %v at least, %v in the middle", name, least, median)
			}
		})
	}
}
