package main

import (
	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/hog"
)

// hidden verbs are for this program itself.
func hidden(sh *shell) []*cobra.Command { return []*cobra.Command{hog.New(&sh.Shell)} }

// otherPrograms are verbs that another program has.
func otherPrograms(sh *command.Shell) []*cobra.Command {
	aside := func(c *cobra.Command) *cobra.Command {
		c.Hidden = true
		return c
	}
	return []*cobra.Command{
		sh.Hand(proxyProgram, "proxy FILE", "Run the reverse proxy and static file server"),
		sh.Hand(labProgram, "race", "Race the proxy against nginx and other installed proxies"),
		sh.Hand(labProgram, "journal", "Keep a journal: entries with figures from records"),
		sh.Hand(labProgram, "selftest", "Plant known bottlenecks and check the verdicts"),
		aside(sh.Hand(labProgram, "planted KIND", "Run a server with a planted bottleneck, as selftest does")),
		aside(sh.Hand(labProgram, "baseline KIND", "Run a minimal proxy, as race does")),
	}
}
