package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ceiling/cmd/internal/command"
)

// flagGroup is a group of flags in a help screen.
type flagGroup struct {
	title string
	flags []string
}

// runGroups orders the flags of the measuring verbs. The first group is what --help describes;
// --help-all describes all.
func runGroups() []flagGroup {
	return []flagGroup{
		{"Common", []string{"connections", "duration", "rate", "requests", "pipelining", "method", "header", "user", "body", "timeout", "slo", "repeats",
			"live", "out", "json", "verbose"}},
		{"Load", []string{"targets", "curl", "feed", "once", "session", "lua", "lua-arg", "abort-errors", "expect", "threads", "warmup", "arrivals", "http", "new-connections", "connect-ramp", "engine", "seed",
			"no-unloaded"}},
		{"Plan", []string{"pause", "resume", "dry-run"}},
		{"Server", []string{"pin-generator", "pin-server", "separate-cpus", "link-speed", "pprof", "database", "profile"}},
		{"Output", []string{"quiet", "keep-secrets", "prometheus"}},
		{"TLS", []string{"insecure", "cacert", "cert", "key", "sni", "tls-version", "ciphers", "curves", "tls-resume"}},
		{"Hosts", []string{"proxy", "location", "resolve", "all-addresses", "unix", "source-ips", "agents", "observe", "allow-loss", "controller"}},
	}
}

// groupFlags shows a verb's flags in groups in its help, starting with the verb's own flags under
// its name. Those that are less common are described by --help-all, and only named by --help.
func groupFlags(c *cobra.Command) {
	c.SetUsageFunc(func(c *cobra.Command) error {
		own := flagGroup{title: strings.ToUpper(c.Name()[:1]) + c.Name()[1:]}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			in := func(g flagGroup) bool { return slices.Contains(g.flags, f.Name) }
			if f.Name != "help" && !slices.ContainsFunc(runGroups(), in) {
				own.flags = append(own.flags, f.Name)
			}
		})
		var b strings.Builder
		fmt.Fprintf(&b, "Usage: %s\nExamples:\n%s\n\n", c.UseLine(), c.Example)
		groups, shown := append([]flagGroup{own}, runGroups()...), 2
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
	for _, name := range g.flags {
		if f := c.Flags().Lookup(name); f != nil {
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
