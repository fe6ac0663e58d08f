package selftest

import (
	"cmp"
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

	"ceiling/experiment/spec"
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
	// Disturbed is a wrong verdict while other programs used the cores, in every attempt: it
	// invalid.
	Disturbed = "disturbed"
	// Unconfirmed is a plant whose rate did not follow the planted resource: it is not known to
	// be the bottleneck, so the verdict cannot be checked against it.
	Unconfirmed = "unconfirmed"
)

// Result is one scenario in one round.
type Result struct {
	Scenario   string `json:"scenario"`
	Round      int    `json:"round"` // from 1
	Planted    string `json:"planted"`
	Parameters string `json:"parameters,omitempty"`
	// Accepted are the correct bottlenecks, the planted one first.
	Accepted []string `json:"accepted,omitempty"`
	Named    string   `json:"named,omitempty"`
	Judged   string   `json:"judged"` // Right, Wrong, Disturbed, Unconfirmed, NotRun or Failed
	// Confirmed is how the rate followed the planted resource, for plants in real software.
	Confirmed *Confirmation `json:"confirmed,omitempty"`
	// Attempts is their number; Others is the CPU use of other programs during the last, in
	// cores.
	Attempts int     `json:"attempts,omitempty"`
	Others   float64 `json:"others_cores"`
	Why      string  `json:"why,omitempty"`
	// Blamed marks the most serious error: the verdict named the server although the generator
	// was the bottleneck.
	Blamed  bool            `json:"blamed,omitempty"`
	Verdict *record.Verdict `json:"verdict,omitempty"`
	Rate    float64         `json:"completed_per_s,omitempty"`
	Record  string          `json:"record,omitempty"` // its directory, if kept
	Took    time.Duration   `json:"took_ns"`
}

// Options of a self-test. The zero value runs everything once, with seed 0.
type Options struct {
	Seed   uint64
	Rounds int      // 0: 1
	Only   []string // names of scenarios; nil: all
	Real   bool     // RealScenarios instead of Scenarios
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
	chosen, err := choose(o.scenarios(), o.Only)
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
		programs = append(programs, strings.Fields(chosen[i].needs.software)...)
	}
	g.paths, g.missing = findSoftware(ctx, programs)
	keep, err := newKeeper(o.Keep)
	if err != nil {
		return nil, err
	}
	var results []Result
	first := max(1, o.First)
	for round := first; round < first+max(1, o.Rounds); round++ {
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

func (o *Options) scenarios() []Scenario {
	if o.Real {
		return RealScenarios()
	}
	return Scenarios()
}

// choose returns the named scenarios, in catalogue order.
func choose(all []Scenario, names []string) ([]Scenario, error) {
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	var chosen []Scenario
	for _, s := range all {
		known = append(known, s.Name)
		if slices.Contains(names, s.Name) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range names {
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
	r = Result{Scenario: s.Name, Round: round, Planted: s.Planted}
	if r.Why = g.lacks(s.needs); r.Why != "" {
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
		r = Result{Scenario: s.Name, Round: round, Planted: s.Planted, Parameters: p.says, Attempts: attempt + 1}
		for _, a := range p.accept {
			r.Accepted = append(r.Accepted, string(a.ceiling))
		}
		try(ctx, o, g, &p, number+attempt, keep, &r)
		if r.Judged != Disturbed && r.Judged != Unconfirmed {
			break
		}
	}
	r.Took = time.Since(started)
	return r
}

// try sets a plan up, measures, strikes it, and judges the result.
func try(ctx context.Context, o *Options, g *prereqs, p *plan, number int, keep *recordStore, r *Result) {
	st, err := setUp(ctx, o.Program, g, number, p)
	var done *run.Result
	if err == nil {
		done, r.Others, err = measure(ctx, o, st, p, keep.file(r.Scenario, r.Round))
	}
	if err == nil && p.relieved != nil {
		r.Confirmed, err = confirm(ctx, o, g, number, st, p)
	}
	if struck := st.teardown(); struck != nil {
		err = errors.Join(err, struck)
	}
	if done != nil {
		r.Verdict, r.Named, r.Rate = &done.Run.Verdict, string(done.Run.Verdict.Bottleneck), done.Run.Rate.CompletedPerS
	}
	switch {
	case ctx.Err() != nil:
		r.Judged, r.Why = NotRun, "interrupted"
	case err != nil:
		r.Judged, r.Why = Failed, err.Error()
	default:
		if r.Judged, r.Why = p.judge(r.Verdict, st.helper); r.Judged == Right && p.bare != nil {
			r.Judged, r.Why = p.judgeBare(done.File, st.helper)
		}
		if r.Judged == Wrong && r.Others > othersMax {
			r.Judged, r.Why = Disturbed, fmt.Sprintf("other processes used %.1f cores", r.Others)
		} else if r.Confirmed != nil && !r.Confirmed.Holds() {
			r.Judged, r.Why = Unconfirmed, "the rate did not follow the planted resource"
		}
		r.Blamed = r.Judged == Wrong && p.generator && (strings.HasPrefix(r.Named, "server") || strings.HasPrefix(r.Named, "workers"))
	}
	if done != nil {
		r.Record, err = keep.settle(done.File.Path, r.Judged)
		if err != nil {
			r.Judged, r.Why = Failed, err.Error()
		}
	}
}

// measure does the run, and the plan's deed to the subject during it. It returns how many cores
// others used.
func measure(ctx context.Context, o *Options, st *fixture, p *plan, file string) (*run.Result, float64, error) {
	s := p.spec
	s.Targets = []spec.Target{{Method: cmp.Or(p.method, "GET"), Body: []byte(p.body), URL: "http://" + st.addr + st.path, Header: st.header, Weight: 1}}
	due := p.during
	var deeds sync.WaitGroup
	var mu sync.Mutex
	var failed error
	during := func(e run.Event) {
		for e.Progress != nil && len(due) > 0 && e.Progress.ElapsedS >= due[0].at*s.Duration.Seconds() {
			do := due[0].do
			due = due[1:]
			deeds.Go(func() {
				if err := do(st); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
				}
			})
		}
	}
	before, err := use(st.groups)
	if err != nil {
		return nil, 0, err
	}
	options := run.Options{Out: file, Command: []string{"ceiling", "selftest"}, Version: o.Version}
	options.Listen(during)
	done, err := run.Do(ctx, s, options)
	deeds.Wait()
	after, used := use(st.groups)
	if done != nil {
		err = errors.Join(err, done.KeepErr, done.RestoreErr)
		if len(due) > 0 && ctx.Err() == nil {
			err = errors.Join(err, errors.New("the run ended before everything was done to the subject"))
		}
	}
	return done, after.others(before), errors.Join(err, used, failed)
}

// judge compares a verdict with the plant. helper is the first helper's address.
func (p *plan) judge(v *record.Verdict, helper string) (judged, why string) {
	for _, a := range p.accept {
		if v.Bottleneck != a.ceiling {
			continue
		}
		if !a.given(v) {
			return Wrong, fmt.Sprintf("it is %s, but without a word of: %s", a.ceiling, strings.Join(a.reasons, ", "))
		}
		if !p.explained(v, helper) {
			return Wrong, fmt.Sprintf("it is %s, but nothing in the text matches: %s", a.ceiling, strings.Join(p.patterns, "  "))
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
	bare := plan{accept: p.accept, patterns: p.bare}
	if judged, why = bare.judge(&v, helper); judged != Right {
		why = strings.TrimSuffix(fmt.Sprintf("without stacks and the database's account: %s: %s: %s", v.Bottleneck, prose.Sentence(v.Because), why), ": ")
	}
	return judged, why
}

// explained reports whether the verdict's text matches one of the patterns.
func (p *plan) explained(v *record.Verdict, helper string) bool {
	if len(p.patterns) == 0 {
		return true
	}
	text := said(v)
	for _, phrase := range vague() {
		text = strings.ReplaceAll(text, phrase, "")
	}
	return slices.ContainsFunc(p.patterns, func(pattern string) bool {
		return regexp.MustCompile(strings.ReplaceAll(pattern, "{helper}", regexp.QuoteMeta(helper))).MatchString(text)
	})
}

// vague are phrases that fit whatever requests wait for: they explain nothing.
func vague() []string {
	return []string{
		"a pool, a number of workers, or a downstream server that serves few requests at a time", "a lock, or a single worker",
		"a rate limit, a timer, a lock held longer under load", "an interpreter lock, a lock held during computation, a single worker",
		"a lock, a pool, or a downstream server that serves few requests at a time", "(a lock, a pool)",
		"(for a lock, or work to do)", "block and mutex profiles", "the stacks of its threads", "its connections to other services",
	}
}

// given reports whether the verdict states one of the reasons.
func (a *answer) given(v *record.Verdict) bool {
	if len(a.reasons) == 0 {
		return true
	}
	text := said(v)
	return slices.ContainsFunc(a.reasons, func(word string) bool { return strings.Contains(text, word) })
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
func (k *recordStore) file(name string, round int) string {
	path := filepath.Join(k.base, fmt.Sprintf("%s-%d.ndjson.gz", name, round))
	for i := 2; ; i++ {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return path
		}
		path = filepath.Join(k.base, fmt.Sprintf("%s-%d.%d.ndjson.gz", name, round, i))
	}
}

// settle keeps or removes the record, and returns its path.
func (k *recordStore) settle(file, judged string) (string, error) {
	if k.all || judged != Right {
		return file, nil
	}
	return "", os.Remove(file)
}

// done removes the directory if it is empty.
func (k *recordStore) done() error {
	entries, err := os.ReadDir(k.base)
	if err != nil || len(entries) > 0 || k.all {
		return err
	}
	return os.Remove(k.base)
}
