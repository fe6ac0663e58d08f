package audit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ceiling/record"
)

// condition is one thing in which runs can differ. Free text does not count: nothing can be
// compared with a difference stated only in prose.
type condition struct {
	key   string
	value string // "" is not stated
}

// conditions are the conditions of a run, with the same keys in the same order for every run.
type conditions []condition

func conditionsOf(p *record.Point) conditions {
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
	return conditions{
		{"server_kind", p.ServerKind}, {"route", p.Route}, {"server_instance", p.ServerInstance}, {"vcpus", number(p.VCPUs)},
		{"server_cpus_used", number(p.ServerCPUsUsed)}, {"nic_gbps", number(p.NICGbps)},
		{"client_tool", p.ClientTool}, {"client_instance", p.ClientInstance}, {"client_vcpus", number(p.ClientVCPUs)},
		{"client_workers", number(p.ClientWorkers)}, {"connections", number(p.Connections)}, {"pipelining", number(p.Pipelining)},
		{"target_rps", number(p.TargetRPS)}, {"duration_s", number(p.DurationS)}, {"body_bytes", number(bytes)},
	}
}

// key joins the values of the named conditions.
func (c conditions) key(names ...string) string {
	return c.keyWhere(func(name string) bool { return slices.Contains(names, name) })
}

func (c conditions) keyWhere(wanted func(name string) bool) string {
	var key strings.Builder
	for _, one := range c {
		if wanted(one.key) {
			fmt.Fprintf(&key, "%q ", one.value)
		}
	}
	return key.String()
}

// contradict reports whether both runs state one of the named conditions with different values.
func (c conditions) contradict(other conditions, names ...string) bool {
	for i := range c {
		if slices.Contains(names, c[i].key) && c[i].value != "" && other[i].value != "" && c[i].value != other[i].value {
			return true
		}
	}
	return false
}

// differences lists the conditions in which two runs differ. Bytes belong to the route, CPUs to
// the instance: they count only if these are the same.
func differences(a, b conditions) []int {
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

// differencesSay says how two runs differ.
func differencesSay(a, b conditions, at []int) []record.Statement {
	var list []record.Statement
	for _, i := range at {
		list = append(list, say("point.difference", with{"key": a[i].key, "first": a[i].value, "second": b[i].value}))
	}
	return list
}

// pointsBetween finds what only several points together show.
func pointsBetween(all []*pointFacts) []Inconsistency {
	return append(identicalPoints(all), unequalPoints(all)...)
}

// maxIdentical bounds the pairs listed: a file with more is a copy.
const maxIdentical = 500

// identicalPoints finds the same figures under two labels: no two runs agree to the last digit.
func identicalPoints(all []*pointFacts) []Inconsistency {
	var out []Inconsistency
	byRate := map[float64][]int{}
	for j, b := range all {
		if !b.point.RPS.Known {
			continue
		}
		rate := b.point.RPS.Value
		same := byRate[rate]
		// A rate shared by many points is a round one; this bounds the comparisons.
		const most = 50
		for _, i := range same[:min(len(same), most)] {
			a := all[i]
			shared, ok := sharedFigures(a, b)
			if !ok || len(shared) == 0 && significantDigits(rate) < 5 || len(shared) == 1 && significantDigits(rate) < 3 {
				continue
			}
			out = append(out, Inconsistency{Kind: KindIdentical, Keys: append([]string{"rps"}, shared...), Points: []int{i, j},
				Says: say("point.identical", with{"per_s": rate, "figures": strings.Join(shared, ", "),
					"differences": differencesSay(a.conditions, b.conditions, differences(a.conditions, b.conditions)),
					"and_more":    len(out)+1 == maxIdentical})})
			if len(out) == maxIdentical {
				return out
			}
		}
		byRate[rate] = append(byRate[rate], j)
	}
	return out
}

// sharedFigures lists the measured figures that both points state with equal values; ok is false
// if one differs.
func sharedFigures(a, b *pointFacts) (keys []string, ok bool) {
	measured := []string{"p50_ms", "p75_ms", "p90_ms", "p95_ms", "p99_ms", "latency_avg_ms", "latency_stdev_ms", "latency_max_ms", "rps_stdev",
		"peak_rps",
		"total_requests", "total_requests_k", "total_read_gb", "client_throughput_mb_s", "server_cpu_pct", "client_cpu_pct", "nic_mb_s"}
	fa, fb := a.point.Figures(), b.point.Figures()
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

// significantDigits counts the digits of a figure without trailing zeros.
func significantDigits(v float64) int {
	mantissa, _, _ := strings.Cut(strconv.FormatFloat(math.Abs(v), 'e', -1, 64), "e")
	return len(strings.ReplaceAll(mantissa, ".", ""))
}

// maxCompared bounds the distinct conditions of one entry that are compared in pairs: 400 make
// 80,000 pairs.
const maxCompared = 400

// unequalPoints checks what an entry compares. Runs that differ in one thing show its effect, and
// a chain of such steps is coherent. Runs that no chain joins differ in at least two things, and
// their rates show the effect of neither.
func unequalPoints(all []*pointFacts) []Inconsistency {
	var out []Inconsistency
	var order []string
	entries := map[string][]int{}
	for i, f := range all {
		e := f.point.Entry
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

// cell holds the runs of one entry under one condition.
type cell struct {
	points     []int
	conditions conditions
	group      int
}

func unequalIn(all []*pointFacts, points []int) []Inconsistency {
	cells := cellsOf(all, points)
	if len(cells) > maxCompared {
		return []Inconsistency{{Kind: KindUnequal, Keys: []string{"entry"}, Points: points,
			Says: say("point.unequal.too-many", with{"conditions": len(cells), "most": maxCompared})}}
	}
	groups := chain(cells)
	if len(groups) < 2 {
		return nil
	}
	// The other groups are compared with the largest one.
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
			Says: say("point.unequal", with{"runs": len(pointsOf(g)),
				"differences": differencesSay(from.conditions, to.conditions, best)})})
	}
	return out
}

func cellsOf(all []*pointFacts, points []int) []*cell {
	var cells []*cell
	index := map[string]*cell{}
	for _, i := range points {
		c := all[i].conditions
		key := c.keyWhere(func(string) bool { return true })
		if index[key] == nil {
			index[key] = &cell{conditions: c}
			cells = append(cells, index[key])
		}
		index[key].points = append(index[key].points, i)
	}
	return cells
}

// chain joins cells that differ in at most one condition.
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
