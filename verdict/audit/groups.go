package audit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// condition is one thing that a run can differ in. Free texts are none: a
// difference that stands only in prose cannot be held against anything.
type condition struct {
	key   string
	value string // "" is not stated
}

func (f *pointFacts) conditions() []condition {
	if f.stated == nil {
		f.stated = f.readConditions()
	}
	return f.stated
}

func (f *pointFacts) readConditions() []condition {
	p := &f.p
	number := func(n record.Figure) string {
		if !n.Known {
			return ""
		}
		return strconv.FormatFloat(n.Value, 'g', -1, 64)
	}
	bytes := p.BodyBytes
	if !bytes.Known {
		bytes = p.ResponseBytes
	}
	list := []condition{
		{"server_kind", p.ServerKind}, {"route", p.Route}, {"server_instance", p.ServerInstance}, {"vcpus", number(p.VCPUs)},
		{"server_cpus_used", number(p.ServerCPUsUsed)}, {"nic_gbps", number(p.NICGbps)},
		{"client_tool", p.ClientTool}, {"client_instance", p.ClientInstance}, {"client_vcpus", number(p.ClientVCPUs)},
		{"client_workers", number(p.ClientWorkers)}, {"connections", number(p.Connections)}, {"pipelining", number(p.Pipelining)},
		{"target_rps", number(p.TargetRPS)}, {"duration_s", number(p.DurationS)}, {"body_bytes", number(bytes)},
	}
	return list
}

// differences lists the conditions two runs differ in. Bytes belong to the
// route, CPUs to the instance: they count where these are the same.
func differences(a, b []condition) []int {
	var out []int
	differs := map[string]bool{}
	for i := range a {
		if a[i].value == b[i].value {
			continue
		}
		switch a[i].key {
		case "vcpus":
			if differs["server_instance"] {
				continue
			}
		case "nic_gbps":
			if differs["server_instance"] {
				continue
			}
		case "client_vcpus":
			if differs["client_instance"] {
				continue
			}
		case "body_bytes":
			if differs["route"] || a[i].value == "" || b[i].value == "" {
				continue
			}
		}
		differs[a[i].key] = true
		out = append(out, i)
	}
	return out
}

// differenceText says what two runs differ in.
func differenceText(a, b []condition, at []int) string {
	stated := func(v string) string {
		if v == "" {
			return "not stated"
		}
		return v
	}
	var parts []string
	for _, i := range at {
		parts = append(parts, fmt.Sprintf("%s (%s / %s)", a[i].key, stated(a[i].value), stated(b[i].value)))
	}
	return strings.Join(parts, ", ")
}

// pointsBetween finds what only several points together show.
func pointsBetween(all []*pointFacts) []Inconsistency {
	return append(identicalPoints(all), unequalPoints(all)...)
}

// maxIdentical bounds the pairs that are listed: a file with more is a copy.
const maxIdentical = 500

// identicalPoints finds the same figures under two labels: two runs never come
// out alike to the last digit.
func identicalPoints(all []*pointFacts) []Inconsistency {
	var out []Inconsistency
	byRate := map[float64][]int{}
	for j, b := range all {
		if !b.p.RPS.Known {
			continue
		}
		rate := b.p.RPS.Value
		same := byRate[rate]
		// A rate shared by many is a round one; what is compared stays bounded.
		const most = 50
		for _, i := range same[:min(len(same), most)] {
			a := all[i]
			shared, ok := sharedFigures(a, b)
			if !ok || len(shared) == 0 && significantDigits(rate) < 5 || len(shared) == 1 && significantDigits(rate) < 3 {
				continue
			}
			text := fmt.Sprintf("the same rate of %s", unit.FormatRate(rate))
			if len(shared) > 0 {
				text += " and the same " + strings.Join(shared, ", ")
			}
			ca, cb := a.conditions(), b.conditions()
			if d := differences(ca, cb); len(d) > 0 {
				text += "; labelled differently in " + differenceText(ca, cb, d)
			} else {
				text += "; the stated conditions of the two runs are the same"
			}
			out = append(out, Inconsistency{Kind: KindIdentical, Keys: append([]string{"rps"}, shared...), Points: []int{i, j}, Says: text})
			if len(out) == maxIdentical {
				out[maxIdentical-1].Says += "; further pairs are not listed"
				return out
			}
		}
		byRate[rate] = append(byRate[rate], j)
	}
	return out
}

// sharedFigures lists the measured figures that both points state alike; not
// ok when one differs.
func sharedFigures(a, b *pointFacts) (keys []string, ok bool) {
	measured := []string{"p50_ms", "p75_ms", "p90_ms", "p95_ms", "p99_ms", "latency_avg_ms", "latency_stdev_ms", "latency_max_ms", "rps_stdev",
		"peak_rps",
		"total_requests", "total_requests_k", "total_read_gb", "client_throughput_mb_s", "server_cpu_pct", "client_cpu_pct", "nic_mb_s"}
	fa, fb := a.p.Figures(), b.p.Figures()
	for i := range fa {
		x, y := fa[i].Figure, fb[i].Figure
		if !x.Known || !y.Known || !slices.Contains(measured, fa[i].Key) {
			continue
		}
		if x.Value != y.Value {
			return nil, false
		}
		keys = append(keys, fa[i].Key)
	}
	return keys, true
}

// significantDigits of a figure, closing zeros not counted.
func significantDigits(v float64) int {
	mantissa, _, _ := strings.Cut(strconv.FormatFloat(math.Abs(v), 'e', -1, 64), "e")
	return len(strings.ReplaceAll(mantissa, ".", ""))
}

// maxCompared bounds the distinct conditions of one entry that are compared in
// pairs: 400 make 80,000 pairs.
const maxCompared = 400

// unequalPoints looks at what an entry sets side by side. Runs that differ in
// one thing show what it does, and a chain of such steps holds together. Runs
// that no chain joins differ in two things at least, and their rates say
// nothing of either.
func unequalPoints(all []*pointFacts) []Inconsistency {
	var out []Inconsistency
	var order []string
	entries := map[string][]int{}
	for i, f := range all {
		e := f.p.Entry
		if e == "" {
			continue
		}
		if _, seen := entries[e]; !seen {
			order = append(order, e)
		}
		entries[e] = append(entries[e], i)
	}
	for _, e := range order {
		out = append(out, unequalIn(all, entries[e])...)
	}
	return out
}

// cell is the runs of one entry under one condition.
type cell struct {
	points     []int
	conditions []condition
	group      int
}

func unequalIn(all []*pointFacts, points []int) []Inconsistency {
	cells := cellsOf(all, points)
	if len(cells) > maxCompared {
		return []Inconsistency{{Kind: KindUnequal, Keys: []string{"entry"}, Points: points,
			Says: fmt.Sprintf("%d different conditions in one entry: more than the %d that are compared", len(cells), maxCompared)}}
	}
	groups := chain(cells)
	if len(groups) < 2 {
		return nil
	}
	// The largest group is what the others are set beside.
	slices.SortStableFunc(groups, func(a, b []*cell) int { return len(pointsOf(b)) - len(pointsOf(a)) })
	var out []Inconsistency
	for k, g := range groups[1:] {
		var best []int
		var from, to *cell
		for _, a := range g {
			for _, other := range groups[:k+1] {
				for _, b := range other {
					if d := differences(a.conditions, b.conditions); best == nil || len(d) < len(best) {
						best, from, to = d, a, b
					}
				}
			}
		}
		keys := make([]string, len(best))
		for i, at := range best {
			keys[i] = from.conditions[at].key
		}
		out = append(out, Inconsistency{Kind: KindUnequal, Keys: keys, Points: append(pointsOf(g), to.points[0]),
			Says: fmt.Sprintf("%s beside the last named, the nearest of the others in the entry: %s at once",
				unit.Plural(len(pointsOf(g)), "run does not stand", "runs do not stand"), differenceText(from.conditions, to.conditions, best))})
	}
	return out
}

func cellsOf(all []*pointFacts, points []int) []*cell {
	var cells []*cell
	index := map[string]*cell{}
	for _, i := range points {
		c := all[i].conditions()
		var key strings.Builder
		for _, one := range c {
			fmt.Fprintf(&key, "%q ", one.value)
		}
		if index[key.String()] == nil {
			index[key.String()] = &cell{conditions: c}
			cells = append(cells, index[key.String()])
		}
		index[key.String()].points = append(index[key.String()].points, i)
	}
	return cells
}

// chain joins cells that differ in one condition at most.
func chain(cells []*cell) [][]*cell {
	for i, c := range cells {
		c.group = i
	}
	for i, a := range cells {
		for _, b := range cells[:i] {
			if a.group == b.group || len(differences(a.conditions, b.conditions)) > 1 {
				continue
			}
			old, joined := a.group, b.group
			for _, c := range cells {
				if c.group == old {
					c.group = joined
				}
			}
		}
	}
	var groups [][]*cell
	at := map[int]int{}
	for _, c := range cells {
		if _, seen := at[c.group]; !seen {
			at[c.group] = len(groups)
			groups = append(groups, nil)
		}
		groups[at[c.group]] = append(groups[at[c.group]], c)
	}
	return groups
}

func pointsOf(g []*cell) []int {
	var out []int
	for _, c := range g {
		out = append(out, c.points...)
	}
	slices.Sort(out)
	return out
}
