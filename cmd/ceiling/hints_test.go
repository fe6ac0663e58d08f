package main

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"conections", "connections", 1}, {"list", "lst", 1}, {"ab", "ba", 2}, {"", "abc", 3}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestOtherVerbs: what is to be typed instead is a command that there is, and no verb of
// our own is in the way.
func TestOtherVerbs(t *testing.T) {
	root := newRoot(&shell{})
	for name, command := range otherVerbs() {
		if c, _, err := root.Find([]string{name}); err == nil && c != root {
			t.Errorf("%s is a verb of its own", name)
		}
		verb := strings.Fields(command)[1]
		if c, _, err := root.Find([]string{verb}); !strings.HasPrefix(verb, "-") && (err != nil || c == root) {
			t.Errorf("%s: there is no %q", name, command)
		}
	}
	flags := newRun(&shell{}).Flags()
	for name, meant := range otherFlags() {
		if flags.Lookup(meant) == nil || flags.Lookup(name) != nil {
			t.Errorf("--%s for --%s", meant, name)
		}
	}
}
