package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroup is flags that a help screen shows together.
type flagGroup struct {
	title string
	flags []string
}

// manuals is how many groups, the last ones, run --help only names.
const manuals = 3

// runGroups orders the flags of every verb that measures: the common ones first.
func runGroups() []flagGroup {
	return []flagGroup{
		{"Common", []string{"connections", "duration", "rate", "slo", "live", "json"}},
		{"Load and SLO", []string{"expect", "requests", "pipelining", "threads", "warmup", "arrivals", "method", "header", "body", "targets",
			"http", "new-connections", "connect-ramp",
			"timeout", "engine", "seed", "no-lone", "repeats", "rest", "dry-run"}},
		{"Server", []string{"pin-generator", "pin-server", "apart", "link", "pprof", "database", "profile"}},
		{"Output", []string{"out", "verbose", "quiet", "keep-secrets", "prometheus", "otlp"}},
		{"gRPC and push", []string{"grpc", "proto", "subscribe", "fragment"}},
		{"TLS", []string{"insecure", "cacert", "cert", "key", "sni", "tls-version", "ciphers", "curves", "resume"}},
		{"Hosts", []string{"resolve", "unix", "source-ips", "agents", "observe", "allow-loss", "controller"}},
	}
}

// groupFlags has the help of a verb show its flags in groups; flags of the verb
// alone come first, under its name. Other verbs than run only name those that are less
// common, and run those with a manual of their own.
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
		groups := append([]flagGroup{own}, runGroups()...)
		shown, as := 2, "As in ceiling run --help"
		if c.Name() == "run" { // the last ones have a manual, and the screen an end
			shown, as = len(groups)-manuals, "In docs/protocols.md and docs/fleet.md"
		}
		groups, rest := groups[:shown], groups[shown:]
		for _, g := range groups {
			if set := g.of(c); set.HasAvailableFlags() {
				fmt.Fprintf(&b, "%s:\n%s", g.title, set.FlagUsages())
			}
		}
		for i, g := range rest {
			if i == 0 {
				b.WriteString(as + ":\n")
			}
			b.WriteString(g.named(c))
		}
		_, err := fmt.Fprint(c.OutOrStderr(), b.String())
		return err
	})
}

// foldHelp has every help screen as wide as the terminal. Examples stay as they are: they
// are there to be copied.
func foldHelp(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		var b strings.Builder
		out := c.OutOrStdout()
		c.SetOut(&b)
		help(c, args)
		c.SetOut(out)
		l := layout(out, false)
		before, after, found := strings.Cut(b.String(), c.Example)
		text := l.Fold(before)
		if found && c.Example != "" {
			text += c.Example + l.Fold(after)
		}
		fmt.Fprint(out, text) // as cobra does: help that cannot be written is no error
	})
}

// of is the flags of a group that a verb has.
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

// named is a group as its flags' names, in lines of at most 110 columns.
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

// withVerb has "ceiling URL" do what "ceiling run URL" does.
func withVerb(args []string) []string {
	// Other tools have their flags before the URL: no flag of ours stands before a verb.
	flagsFirst := len(args) > 1 && len(args[0]) > 1 && args[0][0] == '-' &&
		slices.ContainsFunc(args, func(arg string) bool { return isURL(arg) && strings.Contains(arg, "://") })
	if len(args) == 0 || !isURL(args[0]) && !flagsFirst {
		return args
	}
	return append([]string{"run"}, args...)
}

// isURL tells a target from a verb: no verb has one of these in it.
func isURL(arg string) bool {
	return !strings.HasPrefix(arg, "-") && strings.ContainsAny(arg, ":/")
}
