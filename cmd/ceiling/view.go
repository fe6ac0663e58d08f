package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/experiment/spec"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/show/live"
	"ceiling/show/live/page"
	"ceiling/show/live/terminal"
	"ceiling/show/report"
)

// lastLook is how long open pages may take to fetch the final state.
const lastLook = time.Second

// view is the live view: in the terminal, in a browser, or both. nil shows nothing.
type view struct {
	sh       *shell
	board    *live.Board
	terminal *terminal.View // nil for plain lines
	page     *page.Server   // nil if not requested
	stop     context.CancelFunc
	kept     sync.WaitGroup
}

// openView opens the live view: in a terminal by default, unless only the answer is wanted; in a
// browser on request.
func (sh *shell) openView(f *outputFlags) (*view, error) {
	inTerminal := !f.quiet && !f.json && command.IsTerminal(sh.Stderr)
	if !inTerminal && f.live == "" {
		return nil, nil
	}
	v := &view{sh: sh, board: live.NewBoard()}
	if f.live != "" {
		var err error
		if v.page, err = sh.servePage(f.live, v.board); err != nil {
			return nil, command.Usage(fmt.Errorf("--live: %w", err))
		}
	}
	if inTerminal {
		v.terminal = terminal.Show(sh.Stderr.(*os.File), os.Environ(), v.board)
	}
	v.keep()
	return v, nil
}

// keep keeps the verdict up to date.
func (v *view) keep() {
	ctx, stop := context.WithCancel(context.Background())
	v.stop = stop
	v.kept.Go(func() { v.board.Keep(ctx) })
}

// servePage serves a board and prints its URL.
func (sh *shell) servePage(addr string, board *live.Board) (*page.Server, error) {
	addr, err := pageAddress(addr)
	if err != nil {
		return nil, err
	}
	p, err := page.Start(addr, board)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(sh.Stderr, "live at %s\n", p.URL())
	if !p.Local() {
		fmt.Fprintln(sh.Stderr, "ceiling: anyone who can reach this machine can read it there")
	}
	return p, nil
}

// pageAddress completes an address: a bare port is on the loopback.
func pageAddress(text string) (string, error) {
	if !strings.Contains(text, ":") {
		text = ":" + text
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf("invalid address %q; give --live=127.0.0.1:9000, or --live=9000", text)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// listen adds the view to the run's listeners.
func (v *view) listen(o *run.Options) {
	if v == nil {
		return
	}
	o.Listen(func(e run.Event) {
		switch {
		case e.Began != nil:
			v.board.Began(*e.Began)
		case e.Progress != nil:
			v.progress(e.Progress)
		case e.Observed != nil:
			v.board.Observed(e.Observed)
		case e.Agent != nil:
			v.board.Agent(*e.Agent)
		}
	})
}

func (v *view) progress(p *run.Progress) {
	if p.Row.WidthNs == 0 {
		v.board.Connected(p.Established, p.Asked)
	} else {
		v.board.Interval(p.Row, p.Response, p.BatchMeanNs)
	}
}

// listenPlan adds the view to the plan's listeners, which also receive its progress.
func (v *view) listenPlan(o *run.Options, e *spec.Experiment) {
	if v == nil {
		return
	}
	o.Listen(func(ev run.Event) {
		if ev.Progress == nil || ev.Progress.Plan == nil {
			return
		}
		at := ev.Progress.Plan
		step := live.Plan{Kind: e.Kind, Number: at.Number, LeftRuns: at.Left, LeftS: at.LeftS, Doing: at.Doing}
		if !e.Searches() {
			step.All = at.Number - 1 + at.Left
		}
		v.board.Step(step)
	})
	v.listen(o)
}

// told shows a finished run of a plan: as a permanent line, and in the page's list.
func (sh *shell) told(e *spec.Experiment, f *outputFlags, v *view) func(record.Measured, string) {
	if f.quiet && v == nil {
		return nil
	}
	table := report.NewProgress(e, records.Layout(sh.Stderr, f.verbose))
	began := false
	return func(m record.Measured, doing string) {
		if v != nil {
			v.board.Measured(live.FinishedRun{Measured: m, Doing: doing})
		}
		if !f.quiet {
			lines := table.Run(&m)
			if !began {
				lines = append(table.Head(), lines...)
			}
			began = true
			for _, text := range lines {
				v.line(sh, text)
			}
		}
	}
}

// line prints a line, above the view if there is one.
func (v *view) line(sh *shell, text string) {
	if v != nil && v.terminal != nil {
		v.terminal.Print(text)
		return
	}
	fmt.Fprintln(sh.Stderr, text)
}

// runEnded shows the end of a run, whose record is the file; r is nil if it has no result. The
// page stays until leave.
func (v *view) runEnded(r *record.Run, file record.File) {
	if v == nil {
		return
	}
	if r != nil {
		v.link(file)
		v.board.RunEnded(r)
	}
	v.settle()
}

// planEnded shows the end of a plan; the page stays until leave.
func (v *view) planEnded(p *record.Plan, file record.File) {
	if v == nil {
		return
	}
	if p != nil {
		v.link(file)
		v.board.PlanEnded(p)
	}
	v.settle()
}

// link links the page to the report of the finished run or plan, if it was saved.
func (v *view) link(file record.File) {
	if v.page != nil && file.Path != "" {
		v.page.HasReport(v.sh.reportOf(file))
	}
}

// settle removes the terminal's view and stops forming verdicts.
func (v *view) settle() {
	v.stop()
	v.kept.Wait()
	if v.terminal == nil {
		return
	}
	unprinted, err := v.terminal.Close()
	v.terminal = nil
	for _, line := range unprinted {
		fmt.Fprintln(v.sh.Stderr, line)
	}
	v.failed(err)
}

// leave closes the page. In a terminal it stays until Ctrl-C, because a user may be looking at
// it; in a script or after an interrupt it closes once readers have seen the end.
func (v *view) leave(ctx context.Context) {
	if v == nil || v.page == nil {
		return
	}
	if command.IsTerminal(v.sh.Stderr) && ctx.Err() == nil && v.board.Snapshot().Phase == live.Ended {
		fmt.Fprintf(v.sh.Stderr, "the page stays at %s until Ctrl-C\n", v.page.URL())
		<-ctx.Done()
	}
	v.failed(v.page.Close(lastLook))
}

// failed reports an error of the view, which does not affect the result.
func (v *view) failed(err error) {
	if err != nil {
		fmt.Fprintf(v.sh.Stderr, "ceiling: the live view: %s\n", command.OneLine(err))
	}
}
