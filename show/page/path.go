package page

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/path"
)

// Path is the path of a request from the generator through the server and back: a bar with the
// parts of its time to scale, and a labelled box for each.
type Path struct {
	Says string
	// Mean is the mean service time that the boxes add up to, "" if unknown.
	Mean string
	// Evidence of the verdict, "" if it has none.
	Evidence string
	// Run is the run's label if the page has several.
	Run   string
	Boxes []PathBox
}

// PathBox is a place on the path, with its tone and the anchor of its chart over time.
type PathBox struct {
	path.Box
	Tone, Href string
}

// Long is the box's name without its neighbours.
func (b PathBox) Long() string { return path.LongName(b.Station) }

// Kind implements Block.
func (Path) Kind() string { return "path" }

func (p Path) markdown(m *markdown) {
	if p.Run != "" {
		m.line("**%s**", Escape(p.Run))
		m.line("")
	}
	m.line("```text")
	for _, b := range p.Boxes {
		m.line("%-24s %6s %s", strings.ReplaceAll(b.Long(), "`", "'"), unit.Percent(b.Part),
			strings.Repeat("█", int(math.Round(shareOf(b.Part)*barWidth))))
	}
	m.line("```")
	m.line("")
	m.line("| place | time | interval | share | interval | busy |")
	m.line("|---|--:|--:|--:|--:|---|")
	for i := range p.Boxes {
		b := &p.Boxes[i]
		name := Escape(b.Name)
		if b.Limits {
			name = "**" + name + "** (bottleneck)"
		}
		m.line("| %s | %s | %s | %s | %s | %s |", name, b.Time, b.TimeRange, b.Share, b.ShareRange, Escape(b.Use))
	}
}

// PathOf returns the path of the requests of runs of one condition; false if no run has one.
func PathOf(runs []*record.Run) (Path, bool) {
	of := record.PathOf(runs...)
	if len(of.Places) == 0 {
		return Path{}, false
	}
	p := Path{Says: "The path of a request, from left to right"}
	if of.MeanNs > 0 {
		p.Mean = unit.FormatNsFloat(of.MeanNs)
	}
	for _, b := range path.Boxes(of) {
		p.Boxes = append(p.Boxes, PathBox{b, stationTone(b.Station), pathHref(b.Station)})
	}
	if len(runs) == 1 && len(runs[0].Verdict.Evidence) > 0 {
		p.Evidence = "#evidence"
	}
	if of.Runs > 1 {
		p.Says += fmt.Sprintf(", of %d runs", of.Runs)
	}
	return p, true
}

// shareOf clamps a share for drawing: the record may be damaged.
func shareOf(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, 1)
}

// On returns the same path with boxes that link to the charts in these sections of a page;
// address "" is the current page. A box without a chart has no link.
func (p Path) On(address string, sections []Section) Path {
	anchors := anchorsOf(sections)
	p.Boxes = slices.Clone(p.Boxes)
	for i := range p.Boxes {
		if href := &p.Boxes[i].Href; anchors[strings.TrimPrefix(*href, "#")] {
			*href = address + *href
		} else {
			*href = ""
		}
	}
	if len(sections) == 0 {
		p.Evidence = ""
	}
	if p.Evidence != "" {
		p.Evidence = address + p.Evidence
	}
	return p
}

// pathHref returns the section that charts a place over time.
func pathHref(name string) string {
	return map[string]string{
		record.PlaceGenerator: "#figures", record.PlaceToServer: "#link", record.PlaceToClient: "#link", record.PlaceBeyond: "#link",
		record.PlaceAtServer: "#queues", record.PlaceAtClient: "#queues", record.PlaceInServer: "#processes",
	}[name]
}
