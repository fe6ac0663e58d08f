package chart

import (
	"cmp"
	"math"
	"slices"
)

// row is one row of a series: an interval on the x axis and one value per line. NaN: not
// measured.
type row struct {
	from, to float64
	late     bool
	values   []float64
}

// reduce is the way to summarise several rows in one value.
type reduce int

const (
	// mean over time weights each row by its width. It is exact for rates.
	mean reduce = iota
	// middle is the median, for values that cannot be averaged, such as quantiles.
	middle
)

// gapMost is the largest distance between two rows, as a share of a row's width, that is not a
// gap: neighbours share their edge to within a few microseconds.
const gapMost = 0.5

// thin reduces rows to at most `most` points. A point covers as many neighbouring rows as
// necessary; Low and High are their minimum and maximum, so no spike is lost. Rows on both sides
// of a gap never share a point, which can add one point per gap.
func thin(name string, rows []row, lines []Line, most int) Group {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !(r.to > r.from) })
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.to, b.to) })
	g := Group{Name: name, Rows: len(rows), Each: 1, Lines: lines}
	if most = max(most, 1); len(rows) > most {
		g.Each = (len(rows) + most - 1) / most
	}
	for len(rows) > 0 {
		n := 1
		for n < min(g.Each, len(rows)) && !gap(&rows[n-1], &rows[n]) {
			n++
		}
		g.add(rows[:n])
		rows = rows[n:]
	}
	return g
}

func gap(a, b *row) bool { return b.from-a.to > gapMost*(b.to-b.from) }

// add appends one point that summarises rows.
func (g *Group) add(rows []row) {
	g.From, g.To = append(g.From, rows[0].from), append(g.To, rows[len(rows)-1].to)
	late := 0
	for i := range rows {
		if rows[i].late {
			late++
		}
	}
	if late > 0 {
		g.Late, g.LateRows = append(g.Late, len(g.To)-1), g.LateRows+late
	}
	for l := range g.Lines {
		line := &g.Lines[l]
		mid, low, high := line.reduce.of(rows, l)
		line.Mid = append(line.Mid, mid)
		if g.Each > 1 {
			line.Low, line.High = append(line.Low, low), append(line.High, high)
		}
	}
}

// of returns the summary of one line's values and their bounds; NaN if there are none.
func (r reduce) of(rows []row, line int) (mid, low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	var known []float64
	var sum, width float64
	for i := range rows {
		v := rows[i].values[line]
		if math.IsNaN(v) {
			continue
		}
		known = append(known, v)
		low, high = min(low, v), max(high, v)
		w := rows[i].to - rows[i].from
		sum, width = sum+v*w, width+w
	}
	if len(known) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	if r == middle {
		slices.Sort(known)
		return known[(len(known)-1)/2], low, high
	}
	// Rounding of the sum must not push the mean outside its bounds.
	return min(max(sum/width, low), high), low, high
}

// bounds returns the minimum and maximum of all lines; ok is false if there are no values.
func bounds(groups []Group) (low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for i := range groups {
		for l := range groups[i].Lines {
			line := &groups[i].Lines[l]
			for _, values := range []Values{line.Mid, line.Low, line.High} {
				for _, v := range values {
					if !math.IsNaN(v) && !math.IsInf(v, 0) {
						low, high = min(low, v), max(high, v)
					}
				}
			}
		}
	}
	return low, high, low <= high
}

// span returns the ends of the time axis over all groups.
func span(groups []Group) (from, to float64) {
	from, to = math.Inf(1), math.Inf(-1)
	for i := range groups {
		if g := &groups[i]; g.Points() > 0 {
			from, to = min(from, slices.Min(g.From)), max(to, slices.Max(g.To))
		}
	}
	if from > to {
		return 0, 1
	}
	return from, to
}
