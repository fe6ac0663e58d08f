package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/show/live"
	"ceiling/show/live/follow"
	"ceiling/show/live/terminal"
)

func newWatch(sh *shell) *cobra.Command {
	var addr string
	var inTerminal bool
	c := &cobra.Command{
		Use:   "watch ID",
		Short: "Show a running or finished run or plan in a browser",
		Long: `Follows a run, sweep, search, proof or comparison of another process, or shows a
finished one, as a page on this machine. It only reads the record's file.
Press Ctrl-C to stop.`,
		Example: `  ceiling watch x7f2
  ceiling watch x7f2 --addr 127.0.0.1:9000
  ceiling watch x7f2 --terminal`,
		Args:              command.Exactly(1, "one ID or file"),
		ValidArgsFunction: completeRuns,
		RunE: func(c *cobra.Command, args []string) error {
			file, err := sh.findRecord(args[0])
			if err != nil {
				return err
			}
			if inTerminal && c.Flags().Changed("addr") {
				return command.Usage(errors.New("--addr: it is that of the page, which --terminal replaces; leave one of them out"))
			}
			if inTerminal {
				return watchInTerminal(sh, c.Context(), file)
			}
			return sh.watch(c.Context(), file, addr)
		},
	}
	c.Flags().StringVar(&addr, "addr", liveAddress, "address of the page; a port alone means loopback")
	c.Flags().BoolVar(&inTerminal, "terminal", false, "show it in this terminal instead, until the run has ended")
	return c
}

// words is the information that the follower of a plan lacks.
func words() follow.Words { return follow.Words{Doing: run.Doing, Takes: run.Takes} }

// watch serves the page until it is interrupted, even after the run has ended.
func (sh *shell) watch(ctx context.Context, file record.File, addr string) error {
	v := &view{sh: sh, board: live.NewBoard()}
	var err error
	if v.page, err = sh.servePage(addr, v.board); err != nil {
		return command.Usage(fmt.Errorf("--addr: %w", err))
	}
	v.link(file)
	v.keep()
	err = follow.Follow(ctx, file, v.board, words())
	if err == nil && ctx.Err() == nil {
		fmt.Fprintln(sh.Stderr, "the run has ended; the page stays until Ctrl-C")
		<-ctx.Done()
	}
	v.settle()
	v.failed(v.page.Close(lastLook))
	return err
}

// watchInTerminal paints until the run has ended.
func watchInTerminal(sh *shell, ctx context.Context, file record.File) error {
	if !command.IsTerminal(sh.Stderr) {
		return command.Usage(errors.New("--terminal: the standard error is no terminal that can be painted; leave it out for a page in the browser"))
	}
	v := &view{sh: sh, board: live.NewBoard()}
	v.terminal = terminal.Show(sh.Stderr.(*os.File), os.Environ(), v.board)
	v.keep()
	err := follow.Follow(ctx, file, v.board, words())
	v.board.Form()
	snapshot := v.board.Snapshot()
	v.settle()
	if err == nil {
		for _, line := range terminal.Frame(&snapshot, terminal.Trail{}, terminal.Columns(sh.Stderr.(*os.File)), terminal.RowsMost) {
			fmt.Fprintln(sh.Stderr, line)
		}
	}
	return err
}
