//go:build linux

package main

import (
	"fmt"
	"strings"
	"testing"

	"ceiling/internal/golden"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestFlagsAreDocumented: docs/flags.md is generated from the help of verbs and flags.
func TestFlagsAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Verbs and flags\n\nMade from the programs' own help.\n")
	for _, c := range ownCommands() {
		if c.HasParent() && c.Name() != "help" && c.Name() != "completion" {
			writeFlags(&b, c)
		}
	}
	golden.Text(t, "../../docs/flags.md", b.String())
}

// writeFlags writes a verb's section, and those of its own verbs. Flags that run has too are described
// there.
func writeFlags(b *strings.Builder, c *cobra.Command) {
	if c.Hidden {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n%s: `%s`\n", c.CommandPath(), c.Short, c.UseLine())
	run, _, err := newRoot(&shell{}).Find([]string{"run"})
	if err != nil {
		panic(err) // this program has no verb run
	}
	var shared, own []string
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if same := run.Flags().Lookup(f.Name); c.Name() != "run" && same != nil && same.Usage == f.Usage {
			shared = append(shared, "`--"+f.Name+"`")
		} else if !f.Hidden && f.Name != "help" {
			own = append(own, flagRow(f))
		}
	})
	if len(own) > 0 {
		fmt.Fprintf(b, "\n| flag | default | meaning |\n|---|---|---|\n%s", strings.Join(own, ""))
	}
	if len(shared) > 0 {
		fmt.Fprintf(b, "\nAs for [ceiling run](#ceiling-run): %s.\n", strings.Join(shared, ", "))
	}
	for _, verb := range c.Commands() {
		writeFlags(b, verb)
	}
}

func flagRow(f *pflag.Flag) string {
	kind, usage := pflag.UnquoteUsage(f)
	name := "`--" + strings.TrimSpace(f.Name+" "+kind) + "`"
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	value := f.DefValue
	if value == "[]" || value == "false" {
		value = ""
	}
	return fmt.Sprintf("| %s | %s | %s |\n", name, value, strings.ReplaceAll(usage, "|", `\|`))
}
