package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ceiling/check/selftest"
	"ceiling/internal/stat"
	"ceiling/record"
)

// notesName is the file next to the rendered page in which people explain wrong verdicts.
const notesName = "accuracy-notes.json"

// Note explains in one sentence why a plant was named wrong.
type Note struct {
	Plant string `json:"plant"`
	Named string `json:"named"`
	Why   string `json:"why"`
}

// readNotes reads the explanations; a missing file has none.
func readNotes(path string) ([]Note, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var notes []Note
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&notes); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return notes, nil
}

// renderAccuracy writes the page from the ledger of trials and the notes.
func renderAccuracy(ledger, page string) error {
	if page == "" {
		return errors.New("-accuracy-doc: a name is wanted")
	}
	list, err := readTrials(ledger)
	if err != nil {
		return err
	}
	notes, err := readNotes(filepath.Join(filepath.Dir(page), notesName))
	if err != nil {
		return err
	}
	var plants, pairs []Trial
	for _, t := range list {
		if t.Plant != nil {
			plants = append(plants, t)
		} else {
			pairs = append(pairs, t)
		}
	}
	d := &doc{}
	d.line("# Accuracy: what was planted, and what the verdict named")
	d.line("")
	d.line("Rendered by `make bench` (`go run ./cmd/bench -only accuracy` and `-only compare`) from every line of `%s`;",
		filepath.ToSlash(ledger))
	d.line("the explanations are those of `%s`. How a trial is made: [bench.md](bench.md#accuracy).", notesName)
	d.line("")
	d.made(list)
	d.plants(plants)
	d.wrong(plants, notes)
	d.pairs(pairs)
	return os.WriteFile(page, d.b.Bytes(), 0o644)
}

// doc is a page under construction.
type doc struct{ b bytes.Buffer }

func (d *doc) line(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n", args...) }

// head begins a table.
func (d *doc) head(columns ...string) {
	d.line("")
	d.row(columns...)
	d.line("|%s", strings.Repeat("---|", len(columns)))
}

func (d *doc) row(cells ...string) {
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	d.line("| %s |", strings.Join(cells, " | "))
}

// made states the dates, hosts and versions of the trials.
func (d *doc) made(list []Trial) {
	if len(list) == 0 {
		d.line("No trial was made yet.")
		return
	}
	versions, hosts := map[string]int{}, map[string]int{}
	first, last := list[0].Time, list[0].Time
	for i := range list {
		t := &list[i]
		version := fmt.Sprintf("%.12s", t.Commit)
		if t.Dirty {
			version += " with changes"
		}
		versions[version]++
		hosts[fmt.Sprintf("%s, %s, Linux %s", t.Host.CPU, count(t.Host.Cores, "CPU"), t.Host.Kernel)]++
		if t.Time.Before(first) {
			first = t.Time
		}
		if t.Time.After(last) {
			last = t.Time
		}
	}
	d.line("- trials: %d, from %s to %s UTC", len(list), first.Format("2006-01-02 15:04"), last.Format("2006-01-02 15:04"))
	d.line("- machine: %s", tally(hosts))
	d.line("- version: %s", tally(versions))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// tally lists names with their counts, most frequent first; a single name has no count.
func tally(counts map[string]int) string {
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	if len(names) == 1 {
		return names[0]
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, counts[name])
	}
	return strings.Join(names, "; ")
}

// counts reports whether a trial counts towards the verdict's accuracy.
func counts(p *PlantTrial) bool { return p.Judged == selftest.Right || p.Judged == selftest.Wrong }

// unexplained reports whether the bottleneck is right but the explanation a person needs is
// missing.
func unexplained(p *PlantTrial) bool {
	return p.Judged == selftest.Wrong && slices.Contains(p.Accepted, p.Named)
}

func (d *doc) plants(list []Trial) {
	d.line("\n## Planted bottlenecks")
	for _, kind := range []struct {
		real bool
		name string
	}{{false, "planted servers (`ceiling selftest`)"}, {true, "real software (`ceiling selftest --real`)"}} {
		var runs, right, silent, blamed, disturbed int
		var others []float64
		for i := range list {
			p := list[i].Plant
			if p.Real != kind.real {
				continue
			}
			if p.Judged == selftest.Disturbed {
				disturbed++
			}
			if !counts(p) {
				continue
			}
			runs++
			others = append(others, p.Others)
			switch {
			case p.Judged == selftest.Right:
				right++
			case unexplained(p):
				silent++
			}
			if p.Blamed {
				blamed++
			}
		}
		if runs == 0 {
			continue
		}
		d.line("")
		d.line("**%d of %d runs against %s correct (%.0f%%)**; in %d more the bottleneck is right, but the text lacks the word that a reader needs "+
			"(the pool's size, the database, the lock). A server was blamed for the generator's limit in %d.", right, runs, kind.name,
			100*float64(right)/float64(runs), silent, blamed)
		if disturbed > 0 {
			all := runs + disturbed
			d.line("Not counted: %s in which the verdict was wrong three times while other processes used more than a quarter of a core. "+
				"Counted as wrong they make it %d of %d (%.0f%%).", count(disturbed, "run"), right, all, 100*float64(right)/float64(all))
		}
		d.line("Other programs used %.1f cores in the median run.", spreadOf(others).Median)
		d.line("Rows are planted, columns named. Plain numbers are right; **bold** numbers are wrong.")
		d.matrix(list, kind.real)
		d.perPlant(list, kind.real)
	}
}

// matrix tabulates planted against named bottlenecks, over the runs that count.
func (d *doc) matrix(list []Trial, real bool) {
	type cell struct{ right, wrong int }
	cells := map[[2]string]*cell{}
	var rows, columns []string
	for i := range list {
		p := list[i].Plant
		if p.Real != real || !counts(p) {
			continue
		}
		at := [2]string{p.Accepted[0], cmp.Or(p.Named, "none")}
		if !slices.Contains(rows, at[0]) {
			rows = append(rows, at[0])
		}
		if !slices.Contains(columns, at[1]) {
			columns = append(columns, at[1])
		}
		if cells[at] == nil {
			cells[at] = &cell{}
		}
		if p.Judged == selftest.Right {
			cells[at].right++
		} else {
			cells[at].wrong++
		}
	}
	slices.Sort(rows)
	slices.Sort(columns)
	d.head(slices.Concat([]string{"planted ╲ named"}, columns)...)
	for _, planted := range rows {
		line := []string{planted}
		for _, named := range columns {
			var text []string
			if c := cells[[2]string{planted, named}]; c != nil {
				if c.right > 0 {
					text = append(text, fmt.Sprint(c.right))
				}
				if c.wrong > 0 {
					text = append(text, fmt.Sprintf("**%d**", c.wrong))
				}
			}
			line = append(line, strings.Join(text, " + "))
		}
		d.row(line...)
	}
}

// perPlant has a row per plant, in catalogue order.
func (d *doc) perPlant(list []Trial, real bool) {
	d.head("plant", "what is planted", "right is", "runs", "right", "wrong", "not counted", "confirmed")
	for _, k := range plantKinds() {
		if k.real != real {
			continue
		}
		var runs, right int
		var accepted []string
		var ratios []float64
		wrong, left := map[string]int{}, map[string]int{}
		for i := range list {
			p := list[i].Plant
			if p.Scenario != k.Name || p.Real != real {
				continue
			}
			if !counts(p) {
				left[leftOut(p)]++
				continue
			}
			accepted = p.Accepted
			runs++
			switch {
			case p.Judged == selftest.Right:
				right++
			case unexplained(p):
				wrong[p.Named+", without the word"]++
			default:
				wrong[p.Named]++
			}
			if c := p.Confirmed; c != nil {
				ratios = append(ratios, c.More/c.Planted)
			}
		}
		confirmed := ""
		if len(ratios) > 0 {
			confirmed = fmt.Sprintf("×%.2f", spreadOf(ratios).Median)
		}
		d.row(k.Name, k.Planted, strings.Join(accepted, ", "), fmt.Sprint(runs), fmt.Sprint(right), tallied(wrong), tallied(left), confirmed)
	}
	if real {
		d.line("\nconfirmed: the rate with more of the planted resource over the rate as planted, median, by Go's own client.")
	}
}

// wrong lists the wrong verdicts, each with its explanation.
func (d *doc) wrong(list []Trial, notes []Note) {
	type pair struct{ plant, named string }
	runs := map[pair]int{}
	planted := map[string]string{}
	var pairs []pair
	for i := range list {
		p := list[i].Plant
		if p.Judged != selftest.Wrong {
			continue
		}
		at := pair{p.Scenario, cmp.Or(p.Named, "none")}
		if runs[at] == 0 {
			pairs = append(pairs, at)
		}
		runs[at]++
		planted[p.Scenario] = p.Accepted[0]
	}
	if len(pairs) == 0 {
		return
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(a.plant, b.plant), cmp.Compare(a.named, b.named)) })
	d.line("\n## Why the wrong ones are wrong")
	d.head("plant", "planted", "named", "runs", "why")
	for _, at := range pairs {
		why := "not explained yet"
		i := slices.IndexFunc(notes, func(n Note) bool { return n.Plant == at.plant && n.Named == at.named })
		if i >= 0 {
			why = notes[i].Why
		}
		d.row(at.plant, planted[at.plant], at.named, fmt.Sprint(runs[at]), why)
	}
}

// leftOut returns the reason why a trial does not count.
func leftOut(p *PlantTrial) string {
	if p.Judged == selftest.NotRun {
		return p.Why
	}
	return p.Judged
}

// tallied is tally with counts always shown; "" for nothing.
func tallied(counts map[string]int) string {
	if len(counts) == 1 {
		for name, n := range counts {
			return fmt.Sprintf("%s (%d)", name, n)
		}
	}
	return tally(counts)
}

// pairs shows the decisions of `ceiling compare` where the truth is known.
func (d *doc) pairs(list []Trial) {
	d.line("\n## A server against itself")
	if len(list) == 0 {
		d.line("\nNo pair was compared yet.")
		return
	}
	var same, alarms, apart int
	var others []float64
	runMs := map[string]int{}
	for i := range list {
		p := list[i].Pair
		if p.Apart {
			apart++
		}
		runMs[fmt.Sprintf("%s of %.0f ms each", count(p.Runs, "run"), p.RunMs)]++
		if p.Planted != "" {
			continue
		}
		same++
		if p.Alarm {
			alarms++
		}
		if p.Others != nil {
			others = append(others, *p.Others)
		}
	}
	d.line("")
	d.line("**%s in %s of a server with itself** (`ceiling compare`, %s; at most 5 in 100 are aimed at).", count(alarms, "false alarm"),
		count(same, "comparison"), tally(runMs))
	d.line("An alarm is any metric that is called better or worse. Generator and servers had CPUs of their own in %d of all %d comparisons.",
		apart, len(list))
	if same < 100 {
		d.line("100 pairs are aimed at: %d are missing.", 100-same)
	}
	if len(others) > 0 {
		m := spreadOf(others)
		d.line("Other programs used %.1f cores of the host in the median of %s, %.1f at most.", m.Median, count(m.N, "comparison"), m.Max)
	}
	d.head("pair", "B differs by", "comparisons", "found", "false alarms", "no change shown", "inconclusive", "metrics")
	for _, c := range comparedOf(list) {
		found, alarmed := "", fmt.Sprint(c.Alarms)
		if c.Planted != "" {
			found, alarmed = fmt.Sprint(c.Found), ""
		}
		var shown, open, all int
		for what, n := range c.Decisions {
			all += n
			switch {
			case strings.HasSuffix(what, " "+record.NoChange):
				shown += n
			case strings.HasSuffix(what, " "+record.CannotTell):
				open += n
			}
		}
		d.row(c.Pair, cmp.Or(c.Planted, "nothing"), fmt.Sprint(c.Pairs), found, alarmed, fmt.Sprint(shown), fmt.Sprint(open), fmt.Sprint(all))
	}
	d.perMetric(list)
	d.line("\n\"no change shown\" and \"inconclusive\" count metrics: each comparison has up to four (requests/s, p50, p99, the server's CPU per request).")
	for i := range list {
		if t := &list[i]; t.Pair.Alarm {
			d.line("- alarm at %s: %s, %s; %s", t.Time.Format("15:04:05"), t.Pair.Pair, changesOf(t.Pair), othersOf(t.Pair))
		}
	}
}

// perMetric shows the decisions per metric where nothing was planted.
func (d *doc) perMetric(list []Trial) {
	type row struct {
		same, open, different int
		reaches               []float64
		judged, unlikely      int // with block ratios; of these, P at most chance
	}
	const chance = 0.05
	rows := map[string]*row{}
	for i := range list {
		p := list[i].Pair
		if p.Planted != "" {
			continue
		}
		for metric, decision := range p.Decisions {
			r := rows[metric]
			if r == nil {
				r = &row{}
				rows[metric] = r
			}
			switch decision {
			case record.NoChange:
				r.same++
			case record.CannotTell:
				r.open++
			default:
				r.different++
			}
			var low, high float64
			if _, err := fmt.Sscanf(p.Intervals[metric], "%f%% to %f%%", &low, &high); err == nil && low < high {
				r.reaches = append(r.reaches, max(-low, high))
			}
			if d, err := stat.Paired(p.Ratios[metric], 1-chance, 1); err == nil {
				r.judged++
				if d.P <= chance {
					r.unlikely++
				}
			}
		}
	}
	d.head("metric", "comparisons", "no change shown", "inconclusive", "different (false alarm)", "interval reaches to ±, median",
		"p ≤ 0.05 by itself")
	for _, metric := range slices.Sorted(maps.Keys(rows)) {
		r, reach := rows[metric], ""
		if len(r.reaches) > 0 {
			reach = fmt.Sprintf("%.1f%%", spreadOf(r.reaches).Median)
		}
		d.row(metric, fmt.Sprint(r.same+r.open+r.different), fmt.Sprint(r.same), fmt.Sprint(r.open), fmt.Sprint(r.different), reach,
			fmt.Sprintf("%d of %d", r.unlikely, r.judged))
	}
	d.line("\np by itself is that of one metric before it is corrected for four: if nothing tells A from B, 1 in 20 is at most 0.05. The first pairs have no blocks in the ledger.")
}

// changesOf lists the metrics in which a comparison saw a change, with intervals.
func changesOf(p *PairTrial) string {
	var list []string
	for metric, decision := range p.Decisions {
		if decision == record.Better || decision == record.Worse {
			list = append(list, fmt.Sprintf("%s %s (%s)", metric, decision, p.Intervals[metric]))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// othersOf states the CPU use of other programs.
func othersOf(p *PairTrial) string {
	if p.Others == nil {
		return "what other processes used was not recorded"
	}
	return fmt.Sprintf("other processes used %.1f cores", *p.Others)
}
