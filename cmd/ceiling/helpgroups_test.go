//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ceiling/cmd/internal/command"
	laboratory "ceiling/cmd/internal/lab"
	"ceiling/cmd/internal/proxies"
	"ceiling/experiment/spec"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestEveryFlagStandsOnce: a flag that is missing from the groups would not be shown where a reader looks
// for it, its key leads to an experiment file's, and no key of a load is without a flag.
func TestEveryFlagStandsOnce(t *testing.T) {
	c := newRun(&shell{})
	c.Flags().VisitAll(func(f *pflag.Flag) {
		n := 0
		for _, s := range allSettings() {
			if s.name == f.Name {
				n++
			}
		}
		if n != 1 && !f.Hidden && f.Name != "help" {
			t.Errorf("--%s stands %d times", f.Name, n)
		}
	})
	for _, s := range allSettings() {
		at := reflect.TypeFor[spec.Experiment]()
		if s.key == beside || s.key == "" {
			continue
		}
		for part := range strings.SplitSeq(strings.ReplaceAll(s.key, "[]", ""), ".") {
			for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice {
				at = at.Elem()
			}
			fields := reflect.VisibleFields(at)
			i := slices.IndexFunc(fields, func(f reflect.StructField) bool { return strings.Split(f.Tag.Get("yaml"), ",")[0] == part })
			if i < 0 {
				t.Errorf("--%s: an experiment has no key %s", s.name, s.key)
				break
			}
			at = fields[i].Type
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[spec.Load]()) {
		key := strings.Split(f.Tag.Get("yaml"), ",")[0]
		is := func(s setting) bool {
			return s.key == "load."+key || strings.HasPrefix(s.key, "load."+key+".") || s.key == beside && s.name == key
		}
		if key != "" && key != "kind" && key != "apart" && !slices.ContainsFunc(allSettings(), is) { // the URL's scheme; --separate-cpus
			t.Errorf("load.%s of an experiment has no flag", key)
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

// screen is what a window of a laptop shows at once.
const (
	screenLines   = 54
	screenColumns = 120
)

// ownCommands are the verbs of the three programs, each where it is carried out, and the programs.
func ownCommands() (list []*cobra.Command) {
	for _, root := range []*cobra.Command{newRoot(&shell{}), proxies.New(&command.Shell{}), laboratory.New(&command.Shell{})} {
		for _, c := range append(root.Commands(), root) {
			if !c.DisableFlagParsing {
				list = append(list, c)
			}
		}
	}
	return list
}

// helpOf prints a command's help as its program does, and returns the exit code.
func helpOf(c *cobra.Command, stdout, stderr io.Writer) int {
	args := append(strings.Fields(c.CommandPath()), "--help")
	if args[0] == "ceiling" {
		return execute(args, nil, stdout, stderr)
	}
	sh := &command.Shell{Args: args, Stdout: stdout, Stderr: stderr}
	root := proxies.New(sh)
	if args[0] == labProgram {
		root = laboratory.New(sh)
	}
	return sh.Execute(context.Background(), root, args[1:], nil)
}

// TestHelpFitsAScreen: every verb's help fits one screen and has an example.
func TestHelpFitsAScreen(t *testing.T) {
	for _, c := range ownCommands() {
		if c.Hidden || c.Name() == "completion" || c.Name() == "help" {
			continue
		}
		checkHelp(t, c)
	}
}

func checkHelp(t *testing.T, c *cobra.Command) {
	t.Helper()
	var out bytes.Buffer
	c.SetOut(&out)
	if err := c.Help(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	if len(lines) > screenLines {
		t.Errorf("%s --help has %d lines", c.Name(), len(lines))
	}
	for _, line := range lines {
		if n := len([]rune(line)); n > screenColumns {
			t.Errorf("%s --help has a line of %d columns: %s", c.Name(), n, line)
		}
	}
	if c.Example == "" {
		t.Errorf("%s has no example", c.Name())
	}
}

// TestEveryHelpHasText: --help of every command prints its use, whoever parses its flags.
func TestEveryHelpHasText(t *testing.T) {
	root := newRoot(&shell{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	tried := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		var stdout, stderr bytes.Buffer
		code := helpOf(c, &stdout, &stderr)
		if code != 0 || !strings.Contains(stdout.String(), "Usage:") || !strings.Contains(stdout.String(), c.CommandPath()) {
			t.Errorf("%s: exit code %d, it says %q and %q", c.CommandPath(), code, stdout.String(), stderr.String())
		}
		tried++
		for _, sub := range c.Commands() {
			if sub.Annotations["program"] == "" { // to carry out another program's verb ends this one
				walk(sub)
			}
		}
	}
	walk(root)
	for _, c := range ownCommands() {
		if c.Root().Name() != root.Name() && c.HasParent() {
			walk(c)
		}
	}
	if tried < 45 {
		t.Errorf("%d commands", tried)
	}
}

// TestHelpFoldsInATerminal: no line of any help is wider than a narrow terminal, but
// those that are there to be copied.
func TestHelpFoldsInATerminal(t *testing.T) {
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = ptmx.Close(), tty.Close() })
	t.Setenv("TERM", "xterm")
	if err := pty.Setsize(ptmx, &pty.Winsize{Rows: 50, Cols: 60}); err != nil {
		t.Fatal(err)
	}
	read := bufio.NewScanner(ptmx)
	for _, c := range ownCommands() {
		go func() {
			if code := helpOf(c, tty, tty); code != 0 {
				fmt.Fprintf(tty, "exit code %d\n", code)
			}
			fmt.Fprintln(tty, "that is all")
		}()
		lines := 0
		for read.Scan() && !strings.HasPrefix(read.Text(), "that is all") {
			line := strings.TrimRight(read.Text(), "\r")
			lines++
			if w := ansi.StringWidth(line); w > 60 && !strings.Contains(c.Example, line) && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%s: %d columns: %q", c.Name(), w, line)
			}
		}
		if lines < 5 {
			t.Errorf("%s: its help has %d lines", c.Name(), lines)
		}
	}
}
