package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

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
		l := Layout(out, false)
		text := l.Fold(b.String())
		if before, after, found := strings.Cut(b.String(), c.Example); found && c.Example != "" {
			text = l.Fold(before) + c.Example + l.Fold(after)
		}
		fmt.Fprint(out, text) // as in cobra: unwritable help is not an error
	})
}
