package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// Compared is a kind of pair that `ceiling compare` was run on repeatedly.
type Compared struct {
	Pair string `json:"pair"`
	// Planted is B's planted difference; "" for none.
	Planted string `json:"planted,omitempty"`
	Pairs   int    `json:"pairs"`
	// Found counts comparisons that saw the planted change; Alarms counts those that saw a change
	// in an unchanged metric.
	Found  int `json:"found"`
	Alarms int `json:"alarms"`
	// Decisions counts "metric decision", as in "rps no change".
	Decisions map[string]int `json:"decisions"`
}

const (
	alarmLimit = 0.05 // of the pairs without a change
	missLimit  = 0.10 // of those with one
	// pairRuns and pairTime are the assumed cost of a comparison never made: that many runs, each
	// with a start, a warm-up and a verdict of about 0.15 s.
	pairRuns = 111
	pairTime = pairRuns * 150 * time.Millisecond
)

// pairKind is two serve commands and the known difference between them.
type pairKind struct {
	name, a, b string
	args       []string
	// metric that was planted, and the expected decision; "" for none.
	metric, decision string
}

// sameKinds are A/A pairs.
func sameKinds() []pairKind {
	var kinds []pairKind
	for _, kind := range []string{"nethttp", "fasthttp", "fiber"} {
		c := "ceiling serve " + kind + " --addr {addr}"
		kinds = append(kinds, pairKind{name: kind, a: c, b: c, args: []string{"-c", "32", "--path", "/read"}})
	}
	return kinds
}

// plantedKinds differ as their names say. HTTP and TCP add about 20 to 30 µs to the 400 µs of
// planted CPU per request, so 21 µs more are 5 %. Every fiftieth request waits, so p99 is the
// median of those.
func plantedKinds() []pairKind {
	work := "ceiling planted cpu --addr {addr} --cpu "
	wait := "ceiling planted tail --addr {addr} --every 50 --sleep "
	return []pairKind{
		{"5% CPU", work + "400us", work + "421us", []string{"-c", "16"}, "server_cpu", record.Worse},
		{"20% p99", wait + "20ms", wait + "24ms", []string{"-c", "32", "-R", "2000"}, "p99", record.Worse},
	}
}

// compared runs `ceiling compare` on pairs with and without a change, unless the ledger of trials
// has them already.
func (b *bench) compared(ctx context.Context, e *Entry) {
	t, err := b.openTrials(e)
	if err != nil {
		b.failed(ctx, onlyCompare, err)
		return
	}
	same, changed := sameKinds(), plantedKinds()
	for i := range b.pairs {
		b.ask(ctx, t, &same[i%len(same)], i/len(same))
	}
	for i := range b.pairs / 5 { // a fifth as many with a change
		for k := range changed {
			b.ask(ctx, t, &changed[k], i)
		}
	}
	e.Compared = comparedOf(t.list)
	var pairs, alarms int
	for _, c := range e.Compared {
		if c.Planted == "" {
			pairs, alarms = pairs+c.Pairs, alarms+c.Alarms
			continue
		}
		e.Targets = append(e.Targets, target(c.Planted+" not found", 1-float64(c.Found)/float64(c.Pairs), missLimit, "share"))
	}
	if pairs > 0 {
		e.Targets = append(e.Targets, target(fmt.Sprintf("false alarms of %d pairs without a change", pairs), float64(alarms)/float64(pairs),
			alarmLimit, "share"))
	}
}

// ask makes one comparison, unless the ledger already has enough of its kind.
func (b *bench) ask(ctx context.Context, t *trials, k *pairKind, number int) {
	is := func(t *Trial) bool { return t.Pair != nil && t.Pair.Pair == k.name }
	made := 0
	for i := range t.list {
		if is(&t.list[i]) {
			made++
		}
	}
	takes := t.longest(func(t *Trial) bool { return is(t) && t.Pair.RunMs == float64(b.comparedRun.Milliseconds()) })
	if takes == 0 {
		takes = pairTime + pairRuns*b.comparedRun
	}
	if ctx.Err() != nil || made > number || !t.room(takes) {
		return
	}
	b.progress("comparison %d of %s", made+1, k.name)
	begin, seed := time.Now(), b.seed+uint64(made)
	answer, apart, err := b.compareOnce(ctx, k, seed)
	if err == nil {
		p := pairTrialOf(k, answer.Comparison)
		p.Seed, p.Apart, p.RunMs, p.Runs = seed, apart, float64(b.comparedRun.Milliseconds()), len(answer.Runs)
		p.Others = new(float64)
		for i := range answer.Runs {
			*p.Others += answer.Runs[i].OtherCores / float64(len(answer.Runs))
		}
		err = t.add(b, Trial{Pair: p}, time.Since(begin))
	}
	b.failed(ctx, "compare "+k.name, err)
}

// pairTrialOf records the decisions. A planted change may also affect other metrics: those are
// not false alarms.
func pairTrialOf(k *pairKind, c *record.Comparison) *PairTrial {
	p := &PairTrial{Pair: k.name, Blocks: c.Blocks, Decisions: map[string]string{}, Intervals: map[string]string{},
		Ratios: map[string][]float64{}}
	if k.metric != "" {
		p.Planted = k.name
	}
	for i := range c.Changes {
		ch := &c.Changes[i]
		p.Decisions[ch.Metric] = ch.Decision
		p.Intervals[ch.Metric] = fmt.Sprintf("%+.2f%% to %+.2f%%", ch.Relative.Low*100, ch.Relative.High*100)
		for _, ratio := range ch.PerBlock {
			p.Ratios[ch.Metric] = append(p.Ratios[ch.Metric], math.Round(ratio*1e5)/1e5)
		}
		changed := ch.Decision == record.Better || ch.Decision == record.Worse
		p.Alarm = p.Alarm || k.metric == "" && changed
		p.Found = p.Found || k.metric != "" && ch.Metric == k.metric && ch.Decision == k.decision
	}
	return p
}

// comparedOf counts the ledger's pairs by kind, in order of appearance.
func comparedOf(list []Trial) []Compared {
	var rows []Compared
	for i := range list {
		p := list[i].Pair
		if p == nil {
			continue
		}
		at := slices.IndexFunc(rows, func(c Compared) bool { return c.Pair == p.Pair })
		if at < 0 {
			at = len(rows)
			rows = append(rows, Compared{Pair: p.Pair, Planted: p.Planted, Decisions: map[string]int{}})
		}
		rows[at].count(p)
	}
	return rows
}

// count adds one comparison.
func (row *Compared) count(p *PairTrial) {
	row.Pairs++
	for metric, decision := range p.Decisions {
		row.Decisions[metric+" "+decision]++
	}
	if p.Alarm {
		row.Alarms++
	}
	if p.Found {
		row.Found++
	}
}

// compareOnce runs one comparison that starts its own servers. apart reports whether generator
// and servers had separate CPUs, which takes two or more.
func (b *bench) compareOnce(ctx context.Context, k *pairKind, seed uint64) (p *record.Plan, apart bool, err error) {
	args := append([]string{
		"compare", "--serve", k.a, "--serve", k.b, "--json", "-d", b.comparedRun.String(), "--pause", "0s", "--no-unloaded",
		"--blocks", fmt.Sprint(b.comparedBlocks), "--seed", fmt.Sprint(seed),
	}, k.args...)
	text, err := b.document(ctx, args...)
	if err != nil {
		return nil, false, err
	}
	if p, err = planIn(text); err != nil {
		return nil, false, err
	}
	return p, p.CPUs != nil && p.CPUs.Generator != "", nil
}

// planIn parses a comparison from a plan's JSON.
func planIn(text []byte) (*record.Plan, error) {
	var p record.Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, err
	}
	switch {
	case p.Comparison == nil:
		return nil, errors.New("the answer has no comparison")
	case p.Ended != record.EndedComplete:
		return nil, fmt.Errorf("the plan is %s: %s", p.Ended, prose.Text(p.Because))
	case p.Comparison.Incomparable != nil:
		return nil, errors.New(prose.Sentence(p.Comparison.Incomparable))
	}
	return &p, nil
}

func printCompared(w io.Writer, e *Entry) {
	if len(e.Compared) == 0 {
		return
	}
	head(w, "Comparisons: what was seen of what was planted", "pair", "pairs", "found", "alarms", "decisions")
	for _, c := range e.Compared {
		found := "-"
		if c.Planted != "" {
			found = fmt.Sprint(c.Found)
		}
		var decisions []string
		for what, n := range c.Decisions {
			decisions = append(decisions, fmt.Sprintf("%s %d", what, n))
		}
		slices.Sort(decisions)
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t\n", c.Pair, c.Pairs, found, c.Alarms, strings.Join(decisions, ", "))
	}
}
