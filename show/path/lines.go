package path

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/layout"
)

// Style is the terminal style of the boxes.
type Style struct {
	// Mark is the prefix of a box's name; nil puts arrows between boxes.
	Mark func(i int) string
	// Strong highlights the bottleneck's name; a mark without colour is always there.
	Strong func(string) string
	// Intervals adds a line with the intervals of the shares.
	Intervals bool
}

// Line is one line with its name on the left: at most NameWidth columns, "" for the first line.
type Line struct{ Name, Text string }

// NameWidth is the width of the lines' names.
const NameWidth = len("* bottleneck")

// limitMark follows the name of the bottleneck's box.
const limitMark = "*"

// Lines lays out a path in at most width columns: in one row of boxes if there is room, else in
// two, one per direction.
func Lines(p record.Path, width int, s Style) []Line {
	boxes := Boxes(p)
	if len(boxes) == 0 {
		return nil
	}
	g := gridOf(boxes, s)
	mean, legend := "mean "+unit.FormatNsFloat(p.MeanNs), ""
	if p.MeanNs <= 0 {
		mean = ""
	}
	busy := "busy"
	if Limiting(boxes) {
		legend = limitMark + " bottleneck"
		busy = legend
	}
	intervals := func(rows []gridRow) []gridRow {
		if s.Intervals {
			rows = append(rows, gridRow{"95% interval", g.ranges})
		}
		return rows
	}
	wide := intervals([]gridRow{{"", g.names}, {mean, g.joined}, {busy, g.uses}})
	narrow := intervals([]gridRow{{"", g.names}, {mean, g.times}, {legend, g.shares}, {"busy", g.shorts}})
	tries := []gapped{{wide, 3}, {wide, 2}, {narrow, 3}, {narrow, 2}}
	if s.Mark != nil { // which separates the boxes without arrows
		tries = append(tries, gapped{narrow, 1})
	}
	for _, try := range tries {
		if widths := columns(try.rows, 0, len(boxes)); total(widths, try.gap) <= width {
			return g.lay(try.rows, 0, widths, try.gap)
		}
	}
	half := (len(boxes) + 1) / 2
	there, back := []gridRow{{"", g.names}, {mean, g.joined}}, []gridRow{{legend, g.names}, {"", g.joined}}
	widths := columns(there, 0, half)
	for i, w := range columns(back, half, len(boxes)) {
		widths[i] = max(widths[i], w)
	}
	if total(widths, 2) <= width {
		return slices.Concat(g.lay(there, 0, widths, 2), g.lay(back, half, widths[:len(boxes)-half], 2))
	}
	var lines []Line
	for i := range boxes {
		lines = append(lines, Line{"", layout.Truncate(g.names[i]+"  "+g.joined[i], width, "…")})
	}
	return lines
}

// grid is the boxes as cells of rows.
type grid struct {
	style                                              Style
	names, times, shares, joined, ranges, uses, shorts []string
}

// gapped is rows with the gap between their cells.
type gapped struct {
	rows []gridRow
	gap  int
}

// gridRow is a row with its name.
type gridRow struct {
	name  string
	cells []string
}

func gridOf(boxes []Box, s Style) grid {
	g := grid{style: s}
	for i, b := range boxes {
		name := b.Name
		if b.Limits {
			name += limitMark
		}
		if b.Limits && s.Strong != nil {
			name = s.Strong(name)
		}
		if s.Mark != nil {
			name = s.Mark(i) + name
		}
		time, share := b.Time, fmt.Sprintf("%.0f%%", 100*b.Part)
		if !b.Known {
			time, share = "not yet", "known"
		}
		g.names, g.times, g.shares = append(g.names, name), append(g.times, time), append(g.shares, share)
		g.joined = append(g.joined, strings.TrimSpace(time+" "+share))
		g.ranges = append(g.ranges, fmt.Sprintf("%.0f–%.0f%%", 100*b.Low, 100*b.High))
		g.uses, g.shorts = append(g.uses, b.Use), append(g.shorts, b.UseShort)
	}
	return g
}

// columns returns the widths of a range of boxes.
func columns(rows []gridRow, from, to int) []int {
	widths := make([]int, to-from)
	for i := range widths {
		for _, r := range rows {
			widths[i] = max(widths[i], layout.TextWidth(r.cells[from+i]))
		}
	}
	return widths
}

// total returns the width of a row.
func total(widths []int, gap int) int {
	all := gap * (len(widths) - 1)
	for _, w := range widths {
		all += w
	}
	return all
}

// lay lays out some boxes' cells in rows. It skips empty rows.
func (g *grid) lay(rows []gridRow, from int, widths []int, gap int) (lines []Line) {
	blank := strings.Repeat(" ", gap)
	arrow := blank
	if g.style.Mark == nil && gap > 1 {
		arrow = " ▸" + blank[:gap-2]
	}
	for n, r := range rows {
		var b strings.Builder
		for i, width := range widths {
			if i > 0 {
				b.WriteString([]string{arrow, blank}[min(n, 1)])
			}
			text := r.cells[from+i]
			b.WriteString(text + strings.Repeat(" ", width-layout.TextWidth(text)))
		}
		if text := strings.TrimRight(b.String(), " "); text != "" || r.name != "" {
			lines = append(lines, Line{r.name, text})
		}
	}
	return lines
}
