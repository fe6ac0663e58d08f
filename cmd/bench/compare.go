package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"ceiling/record"
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
	// comparedRun is the time of each of the 111 runs of a comparison: 100 pairs
	// take an hour and a half.
	comparedRun = 250 * time.Millisecond
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
		{"5 % CPU", work + "400us", work + "421us", []string{"-c", "16"}, "server_cpu", record.Worse},
		{"20 % p99", wait + "20ms", wait + "24ms", []string{"-c", "32", "-R", "2000"}, "p99", record.Worse},
	}
}

// compared asks `ceiling compare` about pairs without a change and with one.
func (b *bench) compared(ctx context.Context, e *Entry) {
	same := sameKinds()
	for i := range b.pairs {
		b.ask(ctx, e, &same[i%len(same)], i)
	}
	for _, k := range plantedKinds() {
		for i := range max(b.pairs/5, 1) {
			b.ask(ctx, e, &k, i)
		}
	}
	var pairs, alarms int
	for _, c := range e.Compared {
		if c.Planted == "" {
			pairs, alarms = pairs+c.Pairs, alarms+c.Alarms
			continue
		}
		e.Targets = append(e.Targets, target(c.Planted+" not found", 1-float64(c.Found)/float64(c.Pairs), missLimit, "share"))
	}
	if pairs > 0 {
		e.Targets = append(e.Targets, target(fmt.Sprintf("false alarms of %d pairs without a change", pairs), float64(alarms)/float64(pairs), alarmLimit, "share"))
	}
}

// ask makes one comparison and counts its decisions.
func (b *bench) ask(ctx context.Context, e *Entry, k *pairKind, number int) {
	if ctx.Err() != nil {
		return
	}
	b.progress("comparison %d of %s", number+1, k.name)
	c, err := b.compareOnce(ctx, k, b.seed+uint64(number))
	if err != nil {
		b.failed(ctx, "compare "+k.name, err)
		return
	}
	at := slices.IndexFunc(e.Compared, func(c Compared) bool { return c.Pair == k.name })
	if at < 0 {
		at = len(e.Compared)
		e.Compared = append(e.Compared, Compared{Pair: k.name, Decisions: map[string]int{}})
		if k.metric != "" {
			e.Compared[at].Planted = k.name
		}
	}
	e.Compared[at].count(k, c)
}

// count takes in one answer. A planted change may show in other metrics as
// well: those are no alarms.
func (row *Compared) count(k *pairKind, c *record.Comparison) {
	row.Pairs++
	alarm := false
	for i := range c.Changes {
		ch := &c.Changes[i]
		row.Decisions[ch.Metric+" "+ch.Decision]++
		changed := ch.Decision == record.Better || ch.Decision == record.Worse
		alarm = alarm || k.metric == "" && changed
		if k.metric != "" && ch.Metric == k.metric && ch.Decision == k.decision {
			row.Found++
		}
	}
	if alarm {
		row.Alarms++
	}
}

// compareOnce asks once.
func (b *bench) compareOnce(ctx context.Context, k *pairKind, seed uint64) (*record.Comparison, error) {
	args := append([]string{"compare", "--serve", k.a, "--serve", k.b, "--json", "-d", comparedRun.String(), "--rest", "0s", "--seed", fmt.Sprint(seed)}, k.args...)
	text, err := b.document(ctx, args...)
	if err != nil {
		return nil, err
	}
	return comparisonIn(text)
}

// comparisonIn is the answer in a plan's JSON.
func comparisonIn(text []byte) (*record.Comparison, error) {
	var p record.Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, err
	}
	switch {
	case p.Comparison == nil:
		return nil, errors.New("there is no comparison in the answer")
	case p.Ended != record.EndedComplete:
		return nil, fmt.Errorf("the plan is %s: %s", p.Ended, p.Because)
	case p.Comparison.Incomparable != "":
		return nil, errors.New(p.Comparison.Incomparable)
	}
	return p.Comparison, nil
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
