// Package follow feeds a live.Board from a record: a run, or the runs of a plan,
// that another process writes, or that is finished. It reads the files as they
// grow and writes nothing.
package follow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"ceiling/experiment/plan"
	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/show/live"
)

const (
	// lookEvery is how often the files are looked at: rows get to the disk every
	// half second.
	lookEvery = 250 * time.Millisecond
	// quietAfter is when the board is told that nothing more comes.
	quietAfter = 5 * time.Second
)

// Words is what only the caller knows how to say and to reckon.
type Words struct {
	// Doing says what a step of an experiment is, Takes how long a number of its
	// runs take.
	Doing func(*spec.Experiment, *record.Step) string
	Takes func(*spec.Experiment, int) time.Duration
}

// Follow feeds the board from a record's directory until the run or the plan
// has ended, or ctx is done. The error is of one line.
func Follow(ctx context.Context, dir string, board *live.Board, words Words) error {
	if record.IsPlan(dir) {
		return (&planFollower{dir: dir, board: board, words: words}).follow(ctx)
	}
	t, err := record.OpenTail(dir)
	if err != nil {
		return err
	}
	return one(ctx, t, board, func() bool { return false })
}

// one follows a run to its result. over tells that it comes to none.
func one(ctx context.Context, t *record.Tail, board *live.Board, over func() bool) (err error) {
	defer func() { err = errors.Join(err, t.Close()) }()
	board.Began(t.Start())
	grew := time.Now()
	for {
		// The result is looked for first: what it is the result of has been
		// written then.
		result, err := t.Result()
		if err != nil {
			return err
		}
		some, err := rows(ctx, t, board)
		if err != nil {
			return err
		}
		if some {
			grew = time.Now()
		} else if quiet := time.Since(grew); quiet >= quietAfter {
			board.Quiet(quiet.Seconds())
		}
		if result != nil {
			board.RunEnded(result)
			return nil
		}
		if over() || !pause(ctx, lookEvery) {
			return nil
		}
	}
}

// rows feeds all that is there.
func rows(ctx context.Context, t *record.Tail, board *live.Board) (some bool, err error) {
	for more := true; more && ctx.Err() == nil; {
		var s record.Series
		s, more, err = t.Next()
		if err != nil {
			return some, err
		}
		some = some || len(s.Load)+len(s.Observed)+len(s.NotMeasured) > 0
		board.Rows(&s)
	}
	return some, nil
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// planFollower follows one run of a plan after the other.
type planFollower struct {
	dir   string
	board *live.Board
	words Words
	told  int             // finished runs that the board knows
	seen  map[string]bool // runs that were followed
	plan  *record.Plan
}

func (f *planFollower) follow(ctx context.Context) error {
	f.seen = map[string]bool{}
	grew := time.Now()
	for {
		if err := f.look(); err != nil {
			return err
		}
		name, err := f.newest()
		if err != nil {
			return err
		}
		if name != "" {
			grew = time.Now()
			if err := f.run(ctx, name); err != nil {
				return err
			}
			if ctx.Err() == nil && f.plan.Ended == "" {
				continue
			}
		}
		if f.plan.Ended != "" {
			f.board.PlanEnded(f.plan)
			return nil
		}
		if quiet := time.Since(grew); quiet >= quietAfter {
			f.board.Quiet(quiet.Seconds())
		}
		if !pause(ctx, lookEvery) {
			return nil
		}
	}
}

// look reads what the plan has come to.
func (f *planFollower) look() error {
	p, err := record.OpenPlan(f.dir)
	if err != nil {
		return err
	}
	known := f.plan != nil && len(f.plan.Runs) == len(p.Runs)
	f.plan = p
	if known {
		return nil
	}
	e := &p.Experiment
	for ; f.told < len(p.Runs); f.told++ {
		m := p.Runs[f.told]
		f.board.Measured(live.Done{Measured: m, Doing: f.words.Doing(e, &m.Step)})
	}
	if e.Kind == spec.KindFind {
		// A search decides by the histograms; without them nothing is said of
		// what is left.
		if err := record.ReadHistograms(f.dir, p.Runs); err != nil {
			f.board.Step(live.Plan{Kind: e.Kind, Number: len(p.Runs) + 1})
			return nil
		}
	}
	d := plan.Next(e, p.Runs)
	step := live.Plan{Kind: e.Kind, Number: len(p.Runs) + 1, LeftRuns: d.Left, LeftS: f.words.Takes(e, d.Left).Seconds()}
	step.All = len(plan.Spell(e))
	if d.Next != nil {
		step.Doing = f.words.Doing(e, d.Next)
	}
	f.board.Step(step)
	return nil
}

// newest is the last run that has begun and was not followed, "" for none.
func (f *planFollower) newest() (string, error) {
	names, err := record.RunsOf(f.dir).Names()
	if err != nil {
		return "", err
	}
	if len(names) == 0 || f.seen[names[len(names)-1]] {
		return "", nil
	}
	return names[len(names)-1], nil
}

// run follows one run until it has ended, or the plan has gone on without it.
func (f *planFollower) run(ctx context.Context, name string) error {
	t, err := record.OpenTail(filepath.Join(record.RunsOf(f.dir).Dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		pause(ctx, lookEvery) // its directory is there and its spec is not yet
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f.seen[name] = true
	err = one(ctx, t, f.board, func() bool {
		next, err := f.newest()
		return err != nil || next != ""
	})
	if err != nil {
		return err
	}
	return f.look()
}
