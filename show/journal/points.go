package journal

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
	"ceiling/verdict/prose"
)

// A sweep's points with the figures to check them by: percentiles with their standard deviation
// over the repeats, and the measured requests in flight next to those of Little's law.

// pointsTable is the table's name in a reference.
const pointsTable = "points"

// pointOf is one condition of a sweep.
type pointOf struct {
	curve *record.Curve
	condition
}

// points returns all conditions of a sweep with their counted runs. A point whose runs have no
// record has no runs.
func points(of *Record) ([]pointOf, error) {
	if of.Plan == nil || of.Plan.Sweep == nil {
		return nil, fmt.Errorf("%s is not a sweep: it has no points", of.Name)
	}
	var list []pointOf
	for i := range of.Plan.Sweep.Curves {
		c := &of.Plan.Sweep.Curves[i]
		for j := range c.Points {
			at, err := condition{source: source{of: of}, point: &c.Points[j]}.opened()
			if err != nil && !errors.Is(err, errNoRuns) {
				return nil, err
			}
			list = append(list, pointOf{c, at})
		}
	}
	return list, nil
}

// curveNames returns the words that distinguish the curve of each point; for a single curve, its server.
func curveNames(list []pointOf) []string {
	differs := func(k int) bool {
		return slices.ContainsFunc(list, func(p pointOf) bool { return wordsOf(p.curve)[k] != wordsOf(list[0].curve)[k] })
	}
	one := !differs(0) && !differs(1) && !differs(2)
	var names []string
	for i := range list {
		var parts []string
		for k, word := range wordsOf(list[i].curve) {
			if word != "" && (differs(k) || one && k == 0) {
				parts = append(parts, word)
			}
		}
		names = append(names, page.Shown(strings.Join(parts, ", ")))
	}
	return names
}

// pointFigure is a figure of a point with its spread over the repeats, for the table and the CSV.
type pointFigure struct {
	// name is its column in the table, "" if it has none; field is that in the CSV.
	name, field string
	of          func(p *pointOf) spread
	format      func(v float64) string
}

// pointFigures are in the order of both.
func pointFigures() []pointFigure {
	over := func(figure func(r *chart.Run) float64) func(*pointOf) spread {
		return func(p *pointOf) spread { return p.over(figure) }
	}
	list := []pointFigure{{"req/s", "per_s", (*pointOf).rate, rounded}}
	for _, percent := range []string{"50", "75", "90", "95", "99"} {
		q, _ := strconv.ParseFloat("."+percent, 64)
		list = append(list, pointFigure{"P" + percent, "p" + percent + "_ns", over(quantileNs(q)), unit.FormatNsFloat})
	}
	return append(list, pointFigure{"read", "read_bytes_per_s", over(readPerSecond), kindBytesPS.format},
		pointFigure{field: "server_cores", of: over(serverCores)}, pointFigure{field: "generator_cores", of: over(generatorCores)},
		pointFigure{field: "in_flight_little", of: over(inFlight)})
}

// rate is requests per second, taken from the point if its runs have no record.
func (p *pointOf) rate() spread {
	if len(p.runs) == 0 {
		return spread{mean: p.point.PerS.Mid, n: 1}
	}
	return p.over(perSecond)
}

// pointsOf returns the table of a sweep.
func pointsOf(of *Record) (page.Table, error) {
	list, err := points(of)
	t := page.Table{Caption: "Every point, mean ± standard deviation over its repeats; in flight: connections × pipelining of a closed loop. ≥: Little's law is broken by more than 10%, so the percentiles are lower bounds",
		Columns: columns("of", "load", "req/s", "P50", "P75", "P90", "P95", "P99", "read", "in flight", "Little's law", "runs")}
	if err != nil {
		return t, err
	}
	names := curveNames(list)
	for i := range list {
		p := &list[i]
		row := []string{names[i], page.Text(p.load())}
		law, kept := p.over(inFlight), p.over(slots)
		broken := kept.n > 0 && math.Abs(law.mean/kept.mean-1) > record.LittleWithin
		for _, f := range pointFigures() {
			switch s := f.of(p); {
			case f.name == "":
			case broken && strings.HasPrefix(f.name, "P"): // the requests that no run saw end are the slow ones
				row = append(row, "≥ "+s.only(f.format))
			default:
				row = append(row, s.formatted(f.format))
			}
		}
		little := law.only(unit.FormatSI)
		if broken {
			little = "broken: " + little
		}
		t.Rows = append(t.Rows, page.Cells(append(row, kept.only(rounded), little, fmt.Sprint(p.point.Runs))...))
	}
	return t, nil
}

// only formats the mean without deviation, for a value that is the same in all runs.
func (s spread) only(format func(float64) string) string {
	s.n = min(s.n, 1)
	return s.formatted(format)
}

// load formats the load in which the point differs from its neighbours.
func (p *pointOf) load() string {
	if p.curve.Over == "" {
		return fmt.Sprintf("%d × %d", p.point.Connections, p.point.Pipelining)
	}
	return rounded(p.point.X)
}

// pointsCSV writes the points as RFC 4180 CSV with a header. Times are nanoseconds, sizes bytes;
// a figure that was not measured is empty. Text that a spreadsheet would read as a formula gets a
// leading apostrophe.
func pointsCSV(of *Record) ([]byte, error) {
	list, err := points(of)
	if err != nil {
		return nil, err
	}
	head := []string{"server", "requests", "fixed", "over", "load", "connections", "pipelining", "target_per_s", "runs", "invalid", "outcome", "bottleneck"}
	for _, f := range pointFigures() {
		head = append(head, f.field, f.field+"_deviation")
	}
	rows := [][]string{append(head, "in_flight")}
	for i := range list {
		rows = append(rows, list[i].fields())
	}
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	w.UseCRLF = true
	if err := w.WriteAll(rows); err != nil {
		return nil, fmt.Errorf("write %s: %w", csvPage(of.ID), err)
	}
	return out.Bytes(), nil
}

func (p *pointOf) fields() []string {
	plain := func(v float64, known bool) string { // nine digits, never with an exponent
		rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 8, 64), 64)
		if !known || err != nil {
			return ""
		}
		return strconv.FormatFloat(rounded, 'f', -1, 64)
	}
	c, at := p.curve, p.point
	row := []string{c.Server, c.Mix, prose.Fixed(c), string(c.Over), plain(at.X, true), fmt.Sprint(at.Connections),
		fmt.Sprint(at.Pipelining), plain(at.TargetPerS, at.TargetPerS > 0), fmt.Sprint(at.Runs), fmt.Sprint(at.Invalid),
		string(at.Outcome), string(at.Bottleneck)}
	for i, cell := range row {
		if cell = page.Shown(cell); cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
			cell = "'" + cell
		}
		row[i] = cell
	}
	for _, f := range pointFigures() {
		s := f.of(p)
		row = append(row, plain(s.mean, s.n > 0), plain(s.deviation, s.n > 1))
	}
	kept := p.over(slots)
	return append(row, plain(kept.mean, kept.n > 0))
}
