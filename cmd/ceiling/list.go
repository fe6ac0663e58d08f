package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/report"
)

// listFlags select records of a store.
type listFlags struct {
	json                         bool
	kind, target, since, verdict string
}

func newList(sh *shell) *cobra.Command {
	var f listFlags
	c := &cobra.Command{
		Use:   "list [DIR]",
		Short: "List the saved runs and plans, newest first",
		Long: `Lists your store, or a directory that runs were saved to with -o DIR. The load
is connections (c), requests in flight per connection (p) and the rate of an open
loop (R). The rate of a plan is the result of a search or the maximum of a sweep.`,
		Example: `  ceiling list
  ceiling list --kind run --target :8080/read --since 2h
  ceiling list --verdict fail --json`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) <= 1 {
				return nil
			}
			return command.Exactly(1, "at most one directory")(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			keep, err := f.filter(time.Now())
			if err != nil {
				return command.Usage(err)
			}
			return sh.list(args, &f, keep)
		},
	}
	p := c.Flags()
	p.SortFlags = false
	p.StringVar(&f.kind, "kind", "", "only these: "+strings.Join(kinds(), ", "))
	p.StringVar(&f.target, "target", "", "only targets that contain this")
	p.StringVar(&f.since, "since", "", "only runs since: 30m, 48h, or a day as 2026-11-23")
	p.StringVar(&f.verdict, "verdict", "", "only this verdict: pass, valid, fail, invalid, running, lost, …")
	p.BoolVar(&f.json, "json", false, "print one JSON document")
	for name, values := range map[string][]string{"kind": kinds(), "verdict": verdicts()} {
		if err := c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // an unknown flag name: a bug in this function
		}
	}
	return c
}

// verdicts returns what the list may have in its column of verdicts: outcomes of runs, stages of
// a record, and one-word answers of plans.
func verdicts() []string {
	return []string{string(record.Pass), string(record.Valid), string(record.Fail), string(record.Invalid), string(record.Running),
		string(record.Abandoned), unreadable, "proved", "not proved", record.Better, record.Worse, record.NoChange, record.CannotTell,
		record.EndedComplete, record.EndedConverged, record.EndedEarly, record.EndedInterrupted, record.EndedFailed}
}

const unreadable = "unreadable"

// kinds returns the kinds of entries.
func kinds() []string {
	return append([]string{report.KindRun}, spec.Kinds()...)
}

// list prints a store, or why there is nothing to print.
func (sh *shell) list(args []string, f *listFlags, keep func(*record.Entry) bool) error {
	store, err := record.DefaultStore(os.Getenv)
	if len(args) == 1 {
		store = record.Store{Dir: args[0]}
		_, err = os.Stat(args[0])
	}
	if err != nil {
		return command.Usage(err)
	}
	all, err := store.List()
	if err != nil {
		return err
	}
	entries := slices.DeleteFunc(slices.Clone(all), func(e record.Entry) bool { return !keep(&e) })
	switch {
	case f.json:
		return report.WriteListJSON(sh.Stdout, store.Dir, entries)
	case len(all) == 0:
		sh.Note("no records in %s; those made with -o DIR are listed by: ceiling list DIR", store.Dir)
		return nil
	case len(entries) == 0:
		sh.Note("none of the %s in %s match", unit.Plural(len(all), "record", "records"), store.Dir)
		return nil
	}
	return report.List(sh.Stdout, entries, time.Now(), records.Layout(sh.Stdout, false))
}

// filter returns the function that selects entries.
func (f *listFlags) filter(now time.Time) (func(*record.Entry) bool, error) {
	if f.kind != "" && !slices.Contains(kinds(), f.kind) {
		return nil, fmt.Errorf("--kind: unknown kind %q; use one of %s", f.kind, strings.Join(kinds(), ", "))
	}
	if f.verdict != "" && !slices.Contains(verdicts(), f.verdict) {
		return nil, fmt.Errorf("--verdict: unknown outcome %q; use one of %s", f.verdict, strings.Join(verdicts(), ", "))
	}
	var since time.Time
	if f.since != "" {
		ago, err := unit.ParseDuration(f.since)
		since = now.Add(-ago)
		if err != nil {
			if since, err = time.ParseInLocation(time.DateOnly, f.since, now.Location()); err != nil {
				return nil, errors.New("--since: give a duration as in 30m or 48h, or a day as in 2026-11-23")
			}
		}
	}
	return func(e *record.Entry) bool {
		verdict := cmp.Or(string(e.Progress), string(e.Outcome), e.Result)
		if e.Unreadable != "" {
			verdict = unreadable
		}
		return (f.kind == "" || cmp.Or(e.Kind, report.KindRun) == f.kind && e.Unreadable == "") && strings.Contains(e.Target, f.target) &&
			!e.Started.Before(since) && (f.verdict == "" || verdict == f.verdict)
	}, nil
}
