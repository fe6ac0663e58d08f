package quorum

import (
	"os"
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
