package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"ceiling/experiment/spec"
	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/show/live"
	"ceiling/show/live/page"
	"ceiling/show/live/terminal"
	"ceiling/show/report"
)

// liveAddress is where --live without an address serves: this machine alone,
// on a port that the kernel chooses.
const liveAddress = "127.0.0.1:0"

// lastLook is how long open pages may take, after the end, to fetch the end.
const lastLook = time.Second

// view shows what goes on: in the terminal, in a browser, or both. nil shows
// nothing.
type view struct {
	sh       *shell
	board    *live.Board
	terminal *terminal.View // nil: plain lines
	page     *page.Server   // nil: not asked for
	stop     context.CancelFunc
	kept     sync.WaitGroup
}

// openView makes the view that a person gets: a terminal shows it by itself
// unless only the answer is wanted, a browser where it was asked for.
func (sh *shell) openView(f *runFlags) (*view, error) {
	inTerminal := !f.plan.quiet && !f.json && isTerminal(sh.stderr)
	if !inTerminal && f.live == "" {
		return nil, nil
	}
	v := &view{sh: sh, board: live.NewBoard()}
	if f.live != "" {
		var err error
		if v.page, err = sh.servePage(f.live, v.board); err != nil {
			return nil, usage(fmt.Errorf("--live: %w", err))
		}
	}
	if inTerminal {
		v.terminal = terminal.Show(sh.stderr.(*os.File), os.Environ(), v.board)
	}
	v.keep()
	return v, nil
}

// keep has the verdict formed.
func (v *view) keep() {
	ctx, stop := context.WithCancel(context.Background())
	v.stop = stop
	v.kept.Go(func() { v.board.Keep(ctx) })
}

// servePage serves a board and says where.
func (sh *shell) servePage(addr string, board *live.Board) (*page.Server, error) {
	addr, err := pageAddress(addr)
	if err != nil {
		return nil, err
	}
	p, err := page.Start(addr, board)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(sh.stderr, "live at %s\n", p.URL())
	if !p.Local() {
		fmt.Fprintln(sh.stderr, "ceiling: anyone who can reach this machine can read it there")
	}
	return p, nil
}

// pageAddress completes an address: a port alone is one of the loopback.
func pageAddress(text string) (string, error) {
	if !strings.Contains(text, ":") {
		text = ":" + text
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf("%q is no address; give --live=127.0.0.1:9000, or --live=9000", text)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// listen adds the view to whom a run tells.
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

// listenPlan adds it to whom a plan tells: where it stands, besides.
func (v *view) listenPlan(o *run.Options, kind string) {
	if v == nil {
		return
	}
	o.Listen(func(e run.Event) {
		if e.Progress == nil || e.Progress.Plan == nil {
			return
		}
		at := e.Progress.Plan
		step := live.Plan{Kind: kind, Number: at.Number, LeftRuns: at.Left, LeftS: at.LeftS, Doing: at.Doing}
		if kind != spec.KindFind {
			step.All = at.Number - 1 + at.Left
		}
		v.board.Step(step)
	})
	v.listen(o)
}

// told shows a run of a plan that is over: as a line that stays, and in the
// list of the page.
func (sh *shell) told(e *spec.Experiment, f *runFlags, v *view) func(record.Measured, string) {
	if f.plan.quiet && v == nil {
		return nil
	}
	table := report.NewProgress(e, layout(sh.stderr, f.verbose))
	began := false
	return func(m record.Measured, doing string) {
		if v != nil {
			v.board.Measured(live.Done{Measured: m, Doing: doing})
		}
		if !f.plan.quiet {
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

// line prints a line, above the view where there is one.
func (v *view) line(sh *shell, text string) {
	if v != nil && v.terminal != nil {
		v.terminal.Print(text)
		return
	}
	fmt.Fprintln(sh.stderr, text)
}

// runEnded shows the end of a run, whose record is the file; r is nil where it came to
// nothing. A page stays until it is left.
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

// planEnded shows the end of a plan; likewise.
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

// link has the page link to the report of what has ended, if it was kept.
func (v *view) link(file record.File) {
	if v.page != nil && file.Path != "" {
		v.page.HasReport(v.sh.reportOf(file))
	}
}

// settle takes the terminal's view away and forms no verdict any more.
func (v *view) settle() {
	v.stop()
	v.kept.Wait()
	if v.terminal == nil {
		return
	}
	unprinted, err := v.terminal.Close()
	v.terminal = nil
	for _, line := range unprinted {
		fmt.Fprintln(v.sh.stderr, line)
	}
	v.failed(err)
}

// leave ends the page. In a terminal it stays until Ctrl-C, for there somebody may look
// at it; what runs in a script or was interrupted ends when readers have seen the end.
func (v *view) leave(ctx context.Context) {
	if v == nil || v.page == nil {
		return
	}
	if isTerminal(v.sh.stderr) && ctx.Err() == nil && v.board.Snapshot().Phase == live.Ended {
		fmt.Fprintf(v.sh.stderr, "the page stays at %s until Ctrl-C\n", v.page.URL())
		<-ctx.Done()
	}
	v.failed(v.page.Close(lastLook))
}

// failed tells what went wrong with the view and is nothing else: the result does not
// depend on it.
func (v *view) failed(err error) {
	if err != nil {
		fmt.Fprintf(v.sh.stderr, "ceiling: the live view: %s\n", oneLine(err))
	}
}
