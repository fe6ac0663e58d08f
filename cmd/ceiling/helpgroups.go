package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ceiling/cmd/internal/command"
)

// groupFlags shows a verb's flags in groups in its help, starting with the verb's own flags under
// its name. Those that are less common are described by --help-all, and only named by --help.
func groupFlags(c *cobra.Command) {
	c.SetUsageFunc(func(c *cobra.Command) error {
		own, all := flagGroup{title: strings.ToUpper(c.Name()[:1]) + c.Name()[1:]}, allSettings()
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !slices.ContainsFunc(all, func(s setting) bool { return s.name == f.Name }) {
				own.settings = append(own.settings, setting{name: f.Name})
			}
		})
		var b strings.Builder
		fmt.Fprintf(&b, "Usage: %s\nExamples:\n%s\n\n", c.UseLine(), c.Example)
		groups, shown := append([]flagGroup{own}, new(runFlags).groups()...), 2
		if command.HelpAll(c) {
			shown = len(groups)
		}
		for _, g := range groups[:shown] {
			if set := g.of(c); set.HasAvailableFlags() {
				fmt.Fprintf(&b, "%s:\n%s", g.title, set.FlagUsages())
			}
		}
		for i, g := range groups[shown:] {
			if i == 0 {
				fmt.Fprintf(&b, "More (%s --help-all describes them):\n", c.CommandPath())
			}
			b.WriteString(g.named(c))
		}
		_, err := fmt.Fprint(c.OutOrStderr(), b.String())
		return err
	})
}

// of returns the flags of a group that a verb has.
func (g *flagGroup) of(c *cobra.Command) *pflag.FlagSet {
	set := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
	set.SortFlags = false
	for _, s := range g.settings {
		if f := c.Flags().Lookup(s.name); f != nil {
			set.AddFlag(f)
		}
	}
	return set
}

// named formats a group as flag names, in lines of at most 110 columns.
func (g *flagGroup) named(c *cobra.Command) string {
	const width, indent = 110, 16
	text := fmt.Sprintf("  %-*s", indent-2, g.title)
	column := indent
	names := 0
	g.of(c).VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if column+len(f.Name)+3 > width {
			text = strings.TrimRight(text, " ") + "\n" + strings.Repeat(" ", indent)
			column = indent
		}
		text += "--" + f.Name + " "
		column += len(f.Name) + 3
		names++
	})
	if names == 0 {
		return ""
	}
	return strings.TrimRight(text, " ") + "\n"
}

// withVerb makes "ceiling URL" equivalent to "ceiling run URL".
func withVerb(args []string) []string {
	// Other tools put flags before the URL; ours never precede a verb.
	flagsFirst := len(args) > 1 && len(args[0]) > 1 && args[0][0] == '-' &&
		slices.ContainsFunc(args, func(arg string) bool { return isURL(arg) && strings.Contains(arg, "://") })
	if len(args) == 0 || !isURL(args[0]) && !flagsFirst {
		return args
	}
	return append([]string{"run"}, args...)
}

// isURL distinguishes a target from a verb: no verb contains one of these.
func isURL(arg string) bool {
	return !strings.HasPrefix(arg, "-") && strings.ContainsAny(arg, ":/")
}
