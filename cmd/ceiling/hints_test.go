//go:build linux

package main

import (
	"regexp"
	"strings"
	"testing"

	"ceiling/cmd/internal/command"
	"ceiling/internal/needs"
)

// TestOtherVerbs: what is to be typed instead is a command that there is, and no verb of
// our own is in the way.
func TestOtherVerbs(t *testing.T) {
	root := newRoot(&shell{})
	for name, typed := range otherVerbs() {
		if c, _, err := root.Find([]string{name}); err == nil && c != root {
			t.Errorf("%s is a verb of its own", name)
		}
		verb := strings.Fields(typed)[1]
		if c, _, err := root.Find([]string{verb}); !strings.HasPrefix(verb, "-") && (err != nil || c == root) {
			t.Errorf("%s: there is no %q", name, typed)
		}
	}
}

// TestTheirFlags: habits of other tools get an answer whose flags there are, and none of them is in
// the way of ours.
func TestTheirFlags(t *testing.T) {
	needs.Processes(t)
	run := newRun(&shell{})
	flags := regexp.MustCompile(`(?:^|[ (;,])(-[a-zA-Z]|--[a-z-]+)`)
	theirs := regexp.MustCompile(`[a-z0-9]+'s( and [a-z0-9]+'s)? -[a-zA-Z]|without ab's -[a-zA-Z]`)
	for name, says := range command.Theirs() {
		typed, want := "--"+name, says
		switch {
		case len(name) == 1 && run.Flags().ShorthandLookup(name) != nil, len(name) > 1 && run.Flags().Lookup(name) != nil:
			t.Errorf("%s is ours", name)
		case len(name) == 1:
			typed = "-" + name
		case len(says) == 2:
			want = command.Theirs()[says[1:]]
		case !strings.HasPrefix(says, "--"):
			want = says
		default:
			want = "did you mean " + says + "?"
		}
		for _, found := range flags.FindAllStringSubmatch(theirs.ReplaceAllString(want, ""), -1) {
			name, long := strings.CutPrefix(found[1], "--")
			known := long && (run.Flags().Lookup(name) != nil || name == "format" || name == "version") ||
				!long && run.Flags().ShorthandLookup(found[1][1:]) != nil
			if !known {
				t.Errorf("%s: there is no %s", typed, found[1])
			}
		}
		if _, err := resolve("run", typed, nowhere); want == "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", typed, err)
		}
	}
	for args, want := range map[string]string{
		"-t 10s": "the time is -d 10s", "-m 10": "-d 10", "-p body.json": "-b @FILE", `-d {"a":1}`: "is -b", "-d @body": "is -b",
	} {
		if _, err := resolve(append([]string{"run", nowhere}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestSingleDash: a long flag with one dash is not read as letters.
func TestSingleDash(t *testing.T) {
	for arg, want := range map[string]string{
		"-rate=50": "--rate=50", "-duration=10s": "--duration=10s", "-duration": "--duration;", "-connections=3": "--connections=3",
		"-json": "--json;", "-qps=3": "--rate=3", "-cpus=2": "--pin-generator=2", "-disable-keepalive": "--new-connections;",
	} {
		args := []string{"run", arg, nowhere}
		if err := command.SingleDash(newRoot(&shell{}), args); err == nil || !command.IsUsage(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
	for _, args := range [][]string{{"run", "-c5", "-d3s", nowhere}, {"run", "-vc", "5", nowhere}, {"run", "-b-text", nowhere}, {"run", "--rate=5", nowhere},
		{"list", "-rate"}, {"nosuch"}, {"run", "--", "-rate"}} {
		if err := command.SingleDash(newRoot(&shell{}), args); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}
