package page

import (
	"fmt"
	"math"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/live"
	"ceiling/show/path"
)

// PathOverTime charts the path over the time of a run that takes elapsedS, if it has at least that many segments: a
// column for each, as high as its mean request time.
func PathOverTime(list []live.Stretch, elapsedS float64, least int) (Drawing, bool) {
	var stacks []chart.Stack
	seen := map[string]bool{}
	t := Table{Caption: "The mean request over time, as a table", Fold: true, Columns: []Column{{Name: "to", Figure: true}, {Name: "mean", Figure: true}}}
	for i := range list {
		s := &list[i]
		if !(s.MeanNs > 0) || math.IsInf(s.MeanNs, 0) {
			continue
		}
		to, width := float64(s.TNs)/1e9, float64(s.WidthNs)/1e9
		at := chart.Stack{X: to - width/2, Wide: width}
		shares := map[string]float64{}
		for _, st := range s.Stations {
			shares[st.Name] = st.Share
		}
		row := []Cell{{Text: clock(to, 1)}, {Text: unit.FormatNsFloat(s.MeanNs)}}
		for _, name := range record.PlaceNames() {
			share := shareOf(shares[name])
			seen[name] = true
			at.Parts = append(at.Parts, chart.StackPart{Share: share * s.MeanNs, Class: stationTone(name)})
			row = append(row, Cell{Text: unit.Percent(share)})
		}
		stacks = append(stacks, at)
		t.Rows = append(t.Rows, row)
	}
	if len(stacks) < least {
		return Drawing{}, false
	}
	for _, name := range record.PlaceNames() {
		t.Columns = append(t.Columns, Column{Name: path.LongName(name), Figure: true})
	}
	g := chart.NewTimes("The mean request over time", "service time", stacks, elapsedS)
	first, last := &list[0], &list[len(list)-1]
	g.Says = fmt.Sprintf("%s at first, %s at last.", unit.FormatNsFloat(first.MeanNs), unit.FormatNsFloat(last.MeanNs))
	d := graphOf("path-time", g, fmt.Sprintf("The boxes above in %s. Stacked: client at the bottom, then the way to the server and back.",
		unit.Plural(len(stacks), "stretch", "stretches")))
	for _, name := range record.PlaceNames() {
		if seen[name] {
			d.Areas = append(d.Areas, Swatch{path.LongName(name), stationTone(name)})
		}
	}
	d.Table = &t
	return d, true
}
