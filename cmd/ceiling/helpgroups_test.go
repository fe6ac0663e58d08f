package main

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// TestEveryRunFlagIsInOneGroup: a flag that is missing would not be shown where a
// reader looks for it.
func TestEveryRunFlagIsInOneGroup(t *testing.T) {
	c := newRun(&shell{})
	c.Flags().VisitAll(func(f *pflag.Flag) {
		n := 0
		for _, g := range runGroups() {
			if slices.Contains(g.flags, f.Name) {
				n++
			}
		}
		if n != 1 && !f.Hidden && f.Name != "help" {
			t.Errorf("--%s is in %d groups", f.Name, n)
		}
	})
	for _, g := range runGroups() {
		for _, name := range g.flags {
			if c.Flags().Lookup(name) == nil {
				t.Errorf("%s has --%s, which run has not", g.title, name)
			}
		}
	}
}

func TestWithVerb(t *testing.T) {
	for _, k := range []struct {
		arg string
		run bool
	}{{"http://a/", true}, {"localhost:8080", true}, {"127.0.0.1/read", true}, {"unix:/x", true}, {"list", false}, {"--help", false},
		{"-h", false}} {
		if got := withVerb([]string{k.arg, "x"}); (got[0] == "run") != k.run {
			t.Errorf("%s becomes %q", k.arg, got)
		}
	}
	if got := withVerb(nil); len(got) != 0 {
		t.Errorf("nothing becomes %q", got)
	}
}
