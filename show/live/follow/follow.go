// Package follow feeds a live.Board from the record of a run, or of a plan's runs, that another
// process is writing or has finished. It reads the files as they grow and writes nothing.
package follow

import (
	"context"
	"errors"
	"slices"
	"time"

	"ceiling/experiment/plan"
	"ceiling/experiment/spec"
	"ceiling/internal/pause"
	"ceiling/record"
	"ceiling/show/live"
)

const (
	// lookEvery is the polling interval of the files: rows reach the disk every half second.
	lookEvery = 250 * time.Millisecond
	// quietAfter is the silence after which the board shows a warning.
	quietAfter = 5 * time.Second
)

// Labels are texts and estimates that only the caller can provide.
type Labels struct {
	// Doing describes a step of an experiment; Takes estimates the duration of a number of its
	// runs.
	Doing func(*spec.Experiment, *record.Step) string
	Takes func(*spec.Experiment, int) time.Duration
}

// Follow feeds the board from a record until the run or the plan has ended, or ctx is done. The
// error is one line.
func Follow(ctx context.Context, f record.File, board *live.Board, words Labels) (err error) {
	t, err := record.OpenTail(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	w := follower{board: board, words: words}
	grew, abandoned := time.Now(), false
	for ctx.Err() == nil && !w.over {
		e, err := t.Next()
		if err != nil {
			return err
		}
		if e != nil {
			w.tell(e)
			grew = time.Now()
			continue
		}
		if abandoned { // and nothing has arrived since
			board.Killed()
			return nil
		}
		if w.plan != nil && w.plan.Ended != "" { // nothing follows the answer
			board.PlanEnded(w.plan)
			return nil
		}
		if quiet := time.Since(grew); quiet >= quietAfter {
			board.Quiet(quiet.Seconds())
		}
		pause.For(ctx, lookEvery)
		abandoned = time.Since(grew) >= abandonedAfter && t.Abandoned()
	}
	return nil
}

// abandonedAfter is the silence after which follow checks that the writer is still alive: twice
// the write interval.
const abandonedAfter = time.Second

// follower passes a record's content to the board.
type follower struct {
	board *live.Board
	words Labels
	plan  *record.Plan // nil for a single run
	over  bool
}

func (w *follower) tell(e *record.Event) {
	switch {
	case e.Start != nil:
		w.board.Began(*e.Start)
	case e.Rows != nil:
		w.board.Rows(e.Rows)
	case e.Result != nil:
		w.board.RunEnded(e.Result)
		w.over = w.plan == nil
	case e.Plan != nil:
		w.plan = e.Plan
		if e.Measured != nil {
			w.board.Measured(live.FinishedRun{Measured: *e.Measured, Doing: w.words.Doing(&e.Plan.Experiment, &e.Measured.Step)})
		}
		if e.Plan.Ended == "" {
			w.step()
		}
	}
}

// step announces the next run.
func (w *follower) step() {
	e, runs := &w.plan.Experiment, w.plan.Runs
	if e.Searches() && slices.ContainsFunc(runs, func(m record.Measured) bool { return m.Histogram == nil && m.Run != "" }) {
		// A search needs the histograms to choose its next run; without them the time left is
		// unknown.
		w.board.Step(live.Plan{Kind: e.Kind, Number: len(runs) + 1})
		return
	}
	d := plan.Next(e, runs)
	step := live.Plan{Kind: e.Kind, Number: len(runs) + 1, LeftRuns: d.Left, LeftS: w.words.Takes(e, d.Left).Seconds()}
	step.All = len(plan.Enumerate(e))
	if d.Next != nil {
		step.Doing = w.words.Doing(e, d.Next)
	}
	w.board.Step(step)
}
