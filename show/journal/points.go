package journal

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
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

// percentilesShown are the percentiles in the table and the CSV.
var percentilesShown = []struct {
	name string
	q    float64
}{{"p50", .5}, {"p75", .75}, {"p90", .9}, {"p95", .95}, {"p99", .99}} // read-only

// pointOf is one condition of a sweep.
type pointOf struct {
	curve *record.Curve
	point *record.CurvePoint
	measured
}

// points returns all conditions of a sweep with their counted runs. A point whose runs have no
// record has no runs.
func (e *Entry) points(of *Record) ([]pointOf, error) {
	if of.Plan == nil || of.Plan.Sweep == nil {
		return nil, fmt.Errorf("%s is not a sweep: it has no points", of.Name)
	}
	var list []pointOf
	for i := range of.Plan.Sweep.Curves {
		c := &of.Plan.Sweep.Curves[i]
		for j := range c.Points {
			p := pointOf{c, &c.Points[j], measured{of: of}}
			if len(p.point.RunIDs) > 0 {
				m, err := e.measuredPoint(of, p.point)
				if err != nil {
					return nil, err
				}
				p.measured = m
			}
			list = append(list, p)
		}
	}
	return list, nil
}

// parts returns the parts of the curve's name.
func (p *pointOf) parts() [3]string {
	return [3]string{p.curve.Server, p.curve.Mix, prose.Fixed(p.curve)}
}

// namesOf returns the name parts that distinguish the curves; for a single curve, its server.
func namesOf(list []pointOf) []string {
	var differ [3]bool
	for i := range list {
		for k, part := range list[i].parts() {
			differ[k] = differ[k] || part != list[0].parts()[k]
		}
	}
	if differ == [3]bool{} {
		differ[0] = true
	}
	var names []string
	for i := range list {
		var parts []string
		for k, part := range list[i].parts() {
			if differ[k] && part != "" {
				parts = append(parts, part)
			}
		}
		names = append(names, page.Shown(strings.Join(parts, ", ")))
	}
	return names
}

// rate is requests per second, taken from the point if its runs have no record.
func (p *pointOf) rate() spread {
	if len(p.runs) == 0 {
		return spread{mean: p.point.PerS.Mid, n: 1}
	}
	return p.over(perSecond)
}

func (p *pointOf) megabytes() spread {
	return p.over(func(r *chart.Run) float64 { return over(bytesIn(r), r.ElapsedS) })
}

// pointsOf returns the table of a sweep.
func (e *Entry) pointsOf(of *Record) (page.Table, error) {
	list, err := e.points(of)
	t := page.Table{Caption: "Every point, mean ± standard deviation over its repeats; in flight: connections × pipelining of a closed loop"}
	if err != nil {
		return t, err
	}
	t.Columns = []page.Column{{Name: "of"}, {Name: "load", Figure: true}, {Name: "req/s", Figure: true}}
	for _, q := range percentilesShown {
		t.Columns = append(t.Columns, page.Column{Name: strings.ToUpper(q.name), Figure: true})
	}
	for _, name := range []string{"read", "in flight", "Little's law", "runs"} {
		t.Columns = append(t.Columns, page.Column{Name: name, Figure: true})
	}
	names := namesOf(list)
	for i := range list {
		p := &list[i]
		row := []page.Cell{{Text: names[i]}, {Text: page.Text(p.load())}, {Text: p.rate().formatted(count)}}
		for _, q := range percentilesShown {
			row = append(row, page.Cell{Text: p.over(quantileNs(q.q)).formatted(unit.FormatNsFloat)})
		}
		row = append(row, page.Cell{Text: p.megabytes().formatted(func(v float64) string { return unit.FormatBytesSI(int64(v)) + "/s" })},
			page.Cell{Text: p.over(slots).only(count)}, page.Cell{Text: p.over(inFlight).only(three)}, page.Cell{Text: fmt.Sprint(p.point.Runs)})
		t.Rows = append(t.Rows, row)
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
	return count(p.point.X)
}

// csvPage is the path of a sweep's points as CSV.
func csvPage(id string) string { return "runs/" + id + ".csv" }

// pointsCSV writes the points as RFC 4180 CSV with a header. Times are nanoseconds, sizes bytes;
// a figure that was not measured is empty. Text that a spreadsheet would read as a formula gets a
// leading apostrophe.
func (e *Entry) pointsCSV(of *Record) ([]byte, error) {
	list, err := e.points(of)
	if err != nil {
		return nil, err
	}
	head := []string{"server", "requests", "fixed", "over", "load", "connections", "pipelining", "target_per_s", "runs", "invalid", "outcome", "bottleneck"}
	for _, name := range []string{"per_s", "p50_ns", "p75_ns", "p90_ns", "p95_ns", "p99_ns", "read_bytes_per_s", "server_cores", "generator_cores",
		"in_flight_little"} {
		head = append(head, name, name+"_deviation")
	}
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	w.UseCRLF = true
	rows := [][]string{append(head, "in_flight")}
	for i := range list {
		rows = append(rows, list[i].fields())
	}
	if err := w.WriteAll(rows); err != nil {
		return nil, fmt.Errorf("write %s: %w", csvPage(of.ID), err)
	}
	return out.Bytes(), nil
}

func (p *pointOf) fields() []string {
	plain := func(v float64) string { // nine digits, never with an exponent
		rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 8, 64), 64)
		if err != nil {
			rounded = v
		}
		return strconv.FormatFloat(rounded, 'f', -1, 64)
	}
	c, at := p.curve, p.point
	row := []string{cellText(c.Server), cellText(c.Mix), cellText(prose.Fixed(c)), c.Over, plain(at.X), fmt.Sprint(at.Connections),
		fmt.Sprint(at.Pipelining), "", fmt.Sprint(at.Runs), fmt.Sprint(at.Invalid), cellText(string(at.Outcome)), cellText(string(at.Bottleneck))}
	if at.TargetPerS > 0 {
		row[7] = plain(at.TargetPerS)
	}
	figures := []spread{p.rate()}
	for _, q := range percentilesShown {
		figures = append(figures, p.over(quantileNs(q.q)))
	}
	for _, s := range append(figures, p.megabytes(), p.over(serverCores), p.over(generatorCores), p.over(inFlight)) {
		mean, deviation := "", ""
		if s.n > 0 && !math.IsNaN(s.mean) {
			mean = plain(s.mean)
		}
		if s.n > 1 {
			deviation = plain(s.deviation)
		}
		row = append(row, mean, deviation)
	}
	kept := ""
	if s := p.over(slots); s.n > 0 {
		kept = plain(s.mean)
	}
	return append(row, kept)
}

// cellText makes text from a record safe for spreadsheets.
func cellText(text string) string {
	text = page.Shown(text)
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
