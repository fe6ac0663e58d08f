package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"ceiling/measure/run"
	"ceiling/record"
	"ceiling/verdict"
	"ceiling/verdict/prose"
)

// Outcomes of a scenario.
const (
	Right  = "right"
	Wrong  = "wrong"
	NotRun = "not run" // the host lacks its needs: Why
	Failed = "failed"  // it could not run: Why
	// Disturbed is a wrong verdict while other programs used the cores, in every attempt: it counts
	// for nothing.
	Disturbed = "disturbed"
	// Unconfirmed is a plant whose rate did not follow the planted resource: it is not known to
	// be the bottleneck, so the verdict cannot be checked against it.
	Unconfirmed = "unconfirmed"
)

// Outcome is one scenario in one round, as the ledger of trials has it too.
type Outcome struct {
	Scenario   string `json:"scenario"`
	Round      int    `json:"round"` // from 1
	Planted    string `json:"planted"`
	Parameters string `json:"parameters,omitempty"`
	// Accepted are the correct bottlenecks, the planted one first.
	Accepted []string `json:"accepted,omitempty"`
	Named    string   `json:"named,omitempty"`
	Judged   string   `json:"judged"` // Right, Wrong, Disturbed, Unconfirmed, NotRun or Failed
	Why      string   `json:"why,omitempty"`
	// Blamed marks the most serious error: the verdict named the server although the generator
	// was the bottleneck.
	Blamed bool `json:"blamed,omitempty"`
	// Others is the CPU use of other programs during the last attempt, in cores.
	Others float64 `json:"others_cores"`
}

// Result is an outcome with what it rests on.
type Result struct {
	Outcome
	// Confirmed is how the rate followed the planted resource, for plants in real software.
	Confirmed *Confirmation   `json:"confirmed,omitempty"`
	Attempts  int             `json:"attempts,omitempty"`
	Verdict   *record.Verdict `json:"verdict,omitempty"`
	Rate      float64         `json:"completed_per_s,omitempty"`
	Record    string          `json:"record,omitempty"` // its directory, if kept
	Took      time.Duration   `json:"took_ns"`
}

// Options of a self-test. The zero value runs everything once, with seed 0.
type Options struct {
	Seed   uint64
	Rounds int      // 0: 1
	Only   []string // names of scenarios of any kind; nil: all Scenarios
	Real   bool     // all RealScenarios instead
	// First is the number of the first round; 0: 1. Each round has other parameters, so a series
	// can be continued.
	First int
	// Program has the verb planted; "" is this program.
	Program string
	// Keep is the directory for all records; "" keeps only those of wrong verdicts, in a
	// temporary directory.
	Keep    string
	Version string // of this program, for the records
	// Patience is how long it waits, in total, for other programs to leave the cores alone.
	Patience time.Duration
	// Told is called with every result as it arrives, and Note with other messages; both may be
	// nil.
	Told func(Result)
	Note func(string)
}

// Run runs the scenarios in sequence. An error concerns the self-test as a whole; the results so
// far come with it.
func Run(ctx context.Context, o Options) ([]Result, error) {
	chosen, err := o.chosen()
	if err != nil {
		return nil, err
	}
	removed, err := sweep()
	for _, name := range removed {
		o.note("removed " + name + ", left over by a self-test that was killed")
	}
	if err != nil {
		return nil, err
	}
	if o.Program == "" {
		if o.Program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	g, err := survey(ctx)
	if err != nil {
		return nil, err
	}
	var programs []string
	for i := range chosen {
		programs = append(programs, strings.Fields(chosen[i].Needs)...)
	}
	g.paths, g.missing = findSoftware(ctx, programs)
	keep, err := newKeeper(o.Keep)
	if err != nil {
		return nil, err
	}
	var results []Result
	from := max(1, o.First)
	for round := from; round < from+max(1, o.Rounds); round++ {
		for i := range chosen {
			if ctx.Err() != nil {
				return results, errors.Join(ctx.Err(), keep.done())
			}
			r := play(ctx, &o, &g, &chosen[i], len(results)*attempts+1, round, keep)
			results = append(results, r)
			if o.Told != nil {
				o.Told(r)
			}
		}
	}
	return results, keep.done()
}

func (o *Options) note(text string) {
	if o.Note != nil {
		o.Note(text)
	}
}

// chosen returns the scenarios that are asked for, in the order of the files.
func (o *Options) chosen() ([]Scenario, error) {
	switch {
	case len(o.Only) == 0 && o.Real:
		return RealScenarios(), nil
	case len(o.Only) == 0:
		return Scenarios(), nil
	}
	var known []string
	var chosen []Scenario
	for _, s := range All() {
		known = append(known, s.Name)
		if slices.Contains(o.Only, s.Name) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range o.Only {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%w: no scenario is called %q: there are %s", ErrUnknown, name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

// ErrUnknown wraps the name of an unknown scenario.
var ErrUnknown = errors.New("unknown scenario")

// play runs one scenario, repeatedly if disturbed. It uses numbers from number on for what it
// creates.
func play(ctx context.Context, o *Options, g *prereqs, s *Scenario, number, round int, keep *recordStore) (r Result) {
	started := time.Now()
	r.Outcome = Outcome{Scenario: s.Name, Round: round, Planted: s.Planted}
	if r.Why = g.lacks(s.Needs); r.Why != "" {
		r.Judged = NotRun
		return r
	}
	for attempt := range attempts {
		if err := awaitQuiet(ctx, &o.Patience); err != nil {
			r.Judged, r.Why = NotRun, err.Error()
			break
		}
		d := &params{seedOf(o.Seed, round, s.Name), g.cpus}
		p := s.draw(d)
		d.anyWay(&p, g)
		r = Result{Outcome: Outcome{Scenario: s.Name, Round: round, Planted: s.Planted, Parameters: p.Says, Accepted: p.accepted()},
			Attempts: attempt + 1}
		try(ctx, o, g, &p, number+attempt, keep, &r)
		if r.Judged != Disturbed && r.Judged != Unconfirmed {
			break
		}
	}
	r.Took = time.Since(started)
	return r
}

// try sets a plan up, measures, tears it down, and judges the result.
func try(ctx context.Context, o *Options, g *prereqs, p *plan, number int, keep *recordStore, r *Result) {
	st, err := setUp(ctx, o.Program, g, number, p)
	var done *run.Result
	var made *record.Plan
	var files []string
	if err == nil && (p.Kind == "" || p.Searches()) {
		r.Others, err = watch(st.groups, func() (err error) {
			done, err = measure(ctx, o, st, p, keep.file(r.Scenario, r.Round, ".ndjson.gz"))
			return err
		})
	}
	if err == nil && p.Kind != "" {
		files = append(files, keep.file(r.Scenario, r.Round, ""))
		r.Others, err = watch(st.groups, func() (err error) {
			made, err = examine(ctx, o, st, p, number, files[0])
			return err
		})
	}
	if err == nil && p.relieved != nil {
		r.Confirmed, err = confirm(ctx, g, number, st, p)
	}
	err = errors.Join(err, st.teardown())
	if done != nil {
		files = append(files, done.File.Path)
		r.Rate = done.Run.Rate.CompletedPerS
		if p.Kind == "" {
			r.Verdict, r.Named = &done.Run.Verdict, string(done.Run.Verdict.Bottleneck)
		}
	}
	switch {
	case ctx.Err() != nil:
		r.Judged, r.Why = NotRun, "interrupted"
	case err != nil:
		r.Judged, r.Why = Failed, err.Error()
	case made != nil:
		r.Named, r.Why = p.answered(made, r.Rate)
		r.Judged = Wrong
		if slices.Contains(r.Accepted, r.Named) {
			r.Judged = Right
		}
	default:
		if r.Judged, r.Why = p.judge(r.Verdict, p.Text, st.helper); r.Judged == Right && p.Bare != nil {
			r.Judged, r.Why = p.judgeBare(done.File, st.helper)
		}
		r.Blamed = r.Judged == Wrong && p.Generator && (strings.HasPrefix(r.Named, "server") || strings.HasPrefix(r.Named, "workers"))
	}
	switch judged := r.Judged == Right || r.Judged == Wrong; {
	case r.Judged == Wrong && r.Others > othersMax && !p.HasSides(): // a comparison promises to allow for others
		r.Judged, r.Why, r.Blamed = Disturbed, strings.TrimPrefix(fmt.Sprintf("%s; other processes used %.1f cores", r.Why, r.Others), "; "), false
	case judged && r.Confirmed != nil && !r.Confirmed.Holds():
		r.Judged, r.Why, r.Blamed = Unconfirmed, "the rate did not follow the planted resource", false
	}
	for _, file := range files {
		if r.Record, err = keep.settle(file, r.Judged); err != nil {
			r.Judged, r.Why = Failed, err.Error()
		}
	}
}

// measure does the run, and the plan's actions on the subject during it.
func measure(ctx context.Context, o *Options, st *fixture, p *plan, file string) (*run.Result, error) {
	s, err := p.run("http://" + st.addr)
	if err != nil {
		return nil, err
	}
	due := p.During
	var actions sync.WaitGroup
	failed := make(chan error, len(due))
	options := run.Options{Out: file, Command: []string{"ceiling", "selftest"}, Version: o.Version}
	options.Listen(func(e run.Event) {
		for e.Progress != nil && len(due) > 0 && e.Progress.ElapsedS >= due[0].At*s.Duration.Seconds() {
			do := due[0].Do
			due = due[1:]
			actions.Go(func() { failed <- st.act(do) })
		}
	})
	done, err := run.Do(ctx, s, options)
	actions.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	if done != nil {
		err = errors.Join(err, done.KeepErr, done.RestoreErr)
		if len(due) > 0 && ctx.Err() == nil {
			err = errors.Join(err, errors.New("the run ended before everything was done to the subject"))
		}
	}
	return done, err
}

// judge compares a verdict with the plant; its text must match one of the patterns.
func (p *plan) judge(v *record.Verdict, patterns []string, helper string) (judged, why string) {
	text := said(v)
	for _, a := range p.Accept {
		name, words, _ := strings.Cut(a, " saying ")
		if string(v.Bottleneck) != name {
			continue
		}
		if !slices.ContainsFunc(strings.Split(words, "|"), func(word string) bool { return strings.Contains(text, word) }) {
			return Wrong, fmt.Sprintf("it is %s, but without a word of: %s", name, strings.ReplaceAll(words, "|", ", "))
		}
		if !explained(text, patterns, helper) {
			return Wrong, fmt.Sprintf("it is %s, but nothing in the text matches: %s", name, strings.Join(patterns, "  "))
		}
		return Right, ""
	}
	return Wrong, ""
}

// judgeBare compares with the plant a verdict on the record without stacks and the database's
// data.
func (p *plan) judgeBare(file record.File, helper string) (judged, why string) {
	r, series, err := record.Open(file)
	if err != nil {
		return Failed, err.Error()
	}
	r.Stacks, r.Database, series.Observed.Databases, series.Observed.Statuses = nil, nil, nil, nil
	v := verdict.Judge(r, &series)
	if judged, why = p.judge(&v, p.Bare, helper); judged != Right {
		why = strings.TrimSuffix(fmt.Sprintf("without stacks and the database's account: %s: %s: %s", v.Bottleneck, prose.Sentence(v.Because), why), ": ")
	}
	return judged, why
}

// explained reports whether a verdict's text matches one of the patterns, helper being the address in them.
func explained(text string, patterns []string, helper string) bool {
	for _, phrase := range vague() {
		text = strings.ReplaceAll(text, phrase, "")
	}
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool {
		return regexp.MustCompile(strings.ReplaceAll(pattern, "{helper}", regexp.QuoteMeta(helper))).MatchString(text)
	})
}

// vague are phrases that fit whatever requests wait for: they explain nothing.
func vague() []string {
	return []string{
		"a pool, a number of workers, or a downstream server that serves few requests at a time", "a lock, or one worker",
		"a rate limit, a timer, a lock held longer under load", "an interpreter lock, a lock held during computation, a single worker",
		"a lock, a pool, or a downstream server that serves few requests at a time", "(a lock, a pool)",
		"(for a lock, or work to do)", "block and mutex profiles", "the stacks of its threads", "its connections to other services",
	}
}

// said returns the verdict's whole text in lower case.
func said(v *record.Verdict) string {
	said := slices.Concat(prose.Texts(v.Because), prose.Texts(v.Next), prose.Texts(v.Caveats))
	for _, e := range v.Evidence {
		said = append(said, prose.Text(e.Says))
	}
	return strings.ToLower(strings.Join(said, "\n"))
}

// recordStore manages the records' files.
type recordStore struct {
	base string
	all  bool // keep those of right verdicts too
}

func newKeeper(dir string) (*recordStore, error) {
	if dir != "" {
		return &recordStore{dir, true}, os.MkdirAll(dir, 0o755)
	}
	base, err := os.MkdirTemp("", "ceiling-selftest-")
	return &recordStore{base, false}, err
}

// file returns a new file for one record.
func (k *recordStore) file(name string, round int, ending string) string {
	path := filepath.Join(k.base, fmt.Sprintf("%s-%d%s", name, round, ending))
	for i := 2; ; i++ {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return path
		}
		path = filepath.Join(k.base, fmt.Sprintf("%s-%d.%d%s", name, round, i, ending))
	}
}

// settle keeps or removes the record, and returns its path.
func (k *recordStore) settle(file, judged string) (string, error) {
	if k.all || judged != Right {
		return file, nil
	}
	return "", os.RemoveAll(file)
}

// done removes the directory if it is empty.
func (k *recordStore) done() error {
	entries, err := os.ReadDir(k.base)
	if err != nil || len(entries) > 0 || k.all {
		return err
	}
	return os.Remove(k.base)
}
