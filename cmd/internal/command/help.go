package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// helpAll is the flag of HelpAll.
const helpAll = "help-all"

// addHelpAll gives every verb of a root --help-all, which includes --help.
func addHelpAll(root *cobra.Command, args []string) []string {
	root.PersistentFlags().Bool(helpAll, false, "describe the less common flags, too")
	root.PersistentFlags().Lookup(helpAll).Hidden = true // the help of verbs that have some says so
	if i := slices.Index(args, "--"+helpAll); i >= 0 && !slices.Contains(args[:i], "--") {
		return slices.Insert(slices.Clone(args), i, "--help")
	}
	return args
}

// HelpAll reports whether a verb's help is to describe all of its flags.
func HelpAll(c *cobra.Command) bool { return c.Flags().Changed(helpAll) }

// foldHelp wraps every help screen to the terminal's width, except examples, which are meant to
// be copied.
func foldHelp(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		var b strings.Builder
		out := c.OutOrStdout()
		c.SetOut(&b)
		help(c, args)
		c.SetOut(out)
		l := Output(out)
		text := l.Fold(b.String())
		if before, after, found := strings.Cut(b.String(), c.Example); found && c.Example != "" {
			text = l.Fold(before) + c.Example + l.Fold(after)
		}
		fmt.Fprint(out, text) // as in cobra: unwritable help is not an error
	})
}
