package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// screen is what a window of a laptop shows at once.
const (
	screenLines   = 54
	screenColumns = 120
)

// TestHelpFitsAScreen: every verb's help fits one screen and has an example.
func TestHelpFitsAScreen(t *testing.T) {
	for _, c := range append(newRoot(&shell{}).Commands(), newRoot(&shell{})) {
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
