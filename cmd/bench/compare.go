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

// Compared is one kind of pair that `ceiling compare` was asked about, again
// and again.
type Compared struct {
	Pair string `json:"pair"`
	// Planted is what B differs in: "" nothing.
	Planted string `json:"planted,omitempty"`
	Pairs   int    `json:"pairs"`
	// Found is how many saw what was planted; Alarms how many saw a change in a
	// metric that has none.
	Found  int `json:"found"`
	Alarms int `json:"alarms"`
	// Decisions counts "metric decision", as in "rps no change".
	Decisions map[string]int `json:"decisions"`
}

const (
	alarmLimit = 0.05 // of the pairs without a change
	missLimit  = 0.10 // of those with one
	// pairRuns and pairTime are what a comparison takes that was never made: as
	// many runs, each with a start, a warm-up and a verdict of some 0.15 s.
	pairRuns = 111
	pairTime = pairRuns * 150 * time.Millisecond
)

// pairKind is two commands that serve, and what is known of them.
type pairKind struct {
	name, a, b string
	args       []string
	// metric that was planted, and how it is decided; "" nothing was.
	metric, decision string
}

// sameKinds are servers beside themselves.
func sameKinds() []pairKind {
	var kinds []pairKind
	for _, kind := range []string{"nethttp", "fasthttp", "fiber"} {
		c := "ceiling serve " + kind + " --addr {addr}"
		kinds = append(kinds, pairKind{name: kind, a: c, b: c, args: []string{"-c", "32", "--path", "/read"}})
	}
	return kinds
}

// plantedKinds differ by what their names say. 400 µs of planted CPU are some
// 20 to 30 µs of HTTP and TCP below what a request costs, so that 21 µs more
// are 5 % of it. Every fiftieth request waits, and p99 is the middle of those.
func plantedKinds() []pairKind {
	work := "ceiling planted cpu --addr {addr} --cpu "
	wait := "ceiling planted tail --addr {addr} --every 50 --sleep "
	return []pairKind{
		{"5% CPU", work + "400us", work + "421us", []string{"-c", "16"}, "server_cpu", record.Worse},
		{"20% p99", wait + "20ms", wait + "24ms", []string{"-c", "32", "-R", "2000"}, "p99", record.Worse},
	}
}

// compared asks `ceiling compare` about pairs without a change and with one, as
// far as the ledger of trials does not have them.
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
	for i := range b.pairs / 5 { // a fifth as many have a change
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

// ask makes one comparison, unless the ledger has that many of the kind.
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

// pairTrialOf is what was decided. A planted change may show in other metrics as
// well: those are no alarms.
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

// comparedOf counts the pairs of the ledger by kind, in the order in which they
// came up.
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

// count takes in one answer.
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

// compareOnce asks once, of servers that the comparison starts: it gives the
// generator and them CPUs of their own where there are two, and says so.
func (b *bench) compareOnce(ctx context.Context, k *pairKind, seed uint64) (p *record.Plan, apart bool, err error) {
	args := append([]string{
		"compare", "--serve", k.a, "--serve", k.b, "--json", "-d", b.comparedRun.String(), "--rest", "0s", "--no-lone",
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

// planIn is a comparison in a plan's JSON.
func planIn(text []byte) (*record.Plan, error) {
	var p record.Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, err
	}
	switch {
	case p.Comparison == nil:
		return nil, errors.New("there is no comparison in the answer")
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
