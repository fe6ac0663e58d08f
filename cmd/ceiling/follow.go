package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"ceiling/cmd/internal/command"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/show/layout"
	"ceiling/show/live"
	"ceiling/show/live/follow"
	"ceiling/show/live/terminal"
)

// words is the information that the follower of a plan lacks.
func words() follow.Labels { return follow.Labels{Doing: run.Doing, Takes: run.Takes} }

// watch serves the page until it is interrupted, even after the run has ended.
func (sh *shell) watch(ctx context.Context, file record.File, addr string) error {
	v := &view{sh: sh, board: live.NewBoard()}
	var err error
	if v.page, err = sh.servePage(addr, v.board); err != nil {
		return command.Usage(fmt.Errorf("--live: %w", err))
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
		return command.Usage(errors.New("--terminal: standard error is not a terminal that can be painted; remove it for a page in the browser"))
	}
	v := &view{sh: sh, board: live.NewBoard()}
	v.terminal = terminal.Show(sh.Stderr.(*os.File), os.Environ(), v.board)
	colours := terminal.Colours(os.Environ())
	v.keep()
	err := follow.Follow(ctx, file, v.board, words())
	v.board.Form()
	snapshot := v.board.Snapshot()
	v.settle()
	if err == nil {
		for _, line := range terminal.Frame(&snapshot, terminal.History{}, layout.Columns(sh.Stderr.(*os.File)), terminal.RowsMost) {
			fmt.Fprintln(sh.Stderr, colours.Replace(line))
		}
	}
	return err
}
