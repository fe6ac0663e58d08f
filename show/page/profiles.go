package page

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/profiles"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/report"
)

const (
	// flameLeast is the share below which a function has no box, and boxesMost the maximum number
	// of boxes.
	flameLeast = 0.002
	boxesMost  = 1200
	// flameLevels limits its height.
	flameLevels = 80
	// profileRows is the number of functions in a table.
	profileRows = 25
)

// profilesSection shows the results of --profile.
func profilesSection(run *chart.Run) Section {
	s := of(run, "profiles", "Profiles")
	g := run.Profiling
	if g == nil {
		return s
	}
	lines := []Item{{Text: upperFirst(report.ProfilingLine(g)) + "."}}
	for _, text := range []string{report.GCLine(g.GC), report.SchedulerLine(g.Scheduler)} {
		if text != "" {
			lines = append(lines, Item{Text: upperFirst(text) + "."})
		}
	}
	s.Blocks = append(s.Blocks, List{Items: lines})
	if missing := report.MissingProfiles(run.Run); len(missing) > 0 {
		s.Blocks = append(s.Blocks, List{Title: "Missing", Items: plain(missing), Mark: "doubt"})
	}
	onCPU := g.Of(record.ProfileOnCPU) != nil
	for i := range g.Profiles {
		p := &g.Profiles[i]
		flame := flameOf(run, p, fmt.Sprintf("%s-%s", s.ID, p.Kind))
		if i == 0 || p.Kind == record.ProfileGoBlock {
			s.Blocks = append(s.Blocks, flame)
			continue
		}
		if p.Kind == record.ProfileGoCPU && onCPU {
			flame.Boxes, flame.Levels = nil, 0 // do not draw the same graph twice
		}
		s.Blocks = append(s.Blocks, Fold{Title: flame.Title, Blocks: []Block{flame}})
	}
	if t, ok := spreadTable(g); ok {
		s.Blocks = append(s.Blocks, t)
	}
	return s
}

func upperFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// flameOf draws a profile as a flame graph, which needs the record's stacks; its table does not.
func flameOf(run *chart.Run, p *record.ProfileOf, id string) Flame {
	f := Flame{ID: id, Title: upperFirst(report.ProfileName(p.Kind)) + ", " + report.ProfileAmount(p.Total, p.Unit), Table: functionTable(p)}
	data, there := run.ProfileFiles[p.File]
	if !there {
		if p.Total > 0 {
			f.Note = "The record does not have the stacks."
		}
		return f
	}
	parsed, err := profiles.Parse(data)
	if err != nil {
		f.Note = "The stacks cannot be read: " + err.Error() + "."
		return f
	}
	value, err := profiles.ValueNamed(parsed, record.ProfileValue(p.Kind))
	if err != nil {
		f.Note = "The stacks cannot be read: " + err.Error() + "."
		return f
	}
	d := flameDrawing{unit: p.Unit}
	for least := flameLeast; ; least *= 2 {
		d.root = profiles.Tree(parsed, value, least)
		d.boxes, d.levels = nil, 0
		if d.root.Total == 0 {
			return f
		}
		d.add(d.root, 0, 0)
		if len(d.boxes) <= boxesMost {
			f.Note = fmt.Sprintf("A box is a function, as wide as its share; what it calls is below it. Functions under %s have no box. "+
				"ceiling export %s --format pprof --of %s writes all of it.", unit.Percent(least), run.ID, p.Kind)
			break
		}
	}
	f.Boxes, f.Levels = d.boxes, d.levels
	return f
}

type flameDrawing struct {
	root   *profiles.Node
	unit   string
	boxes  []Box
	levels int
}

// add draws a function at an offset, and its callees below it.
func (d *flameDrawing) add(n *profiles.Node, offset int64, level int) {
	if level >= flameLevels || len(d.boxes) > boxesMost {
		return
	}
	share := float64(n.Total) / float64(d.root.Total)
	says := fmt.Sprintf("%s\u2003%s, %s", n.Name, unit.Percent(share), report.ProfileAmount(n.Total, d.unit))
	if n.File != "" && n.File != n.Object {
		says += "\u2003" + n.File
	}
	if n.Object != "" {
		says += "\u2003" + n.Object
	}
	d.boxes = append(d.boxes, Box{Name: n.Name, Says: says, Left: 100 * float64(offset) / float64(d.root.Total), Width: 100 * share,
		Level: level, Tone: whose(n, level)})
	d.levels = max(d.levels, level+1)
	for _, c := range n.Calls {
		d.add(c, offset, level+1)
		offset += c.Total
	}
}

// whose returns the owner of a function's code.
func whose(n *profiles.Node, level int) string {
	switch {
	case level == 0:
		return "all"
	case n.Object == "kernel" || n.File == "kernel":
		return "kernel"
	case profiles.IsRuntime(n.Name, n.Object):
		return "runtime"
	case profiles.IsStandard(n.Name):
		return "library"
	}
	return "own"
}

func functionTable(p *record.ProfileOf) Table {
	t := Table{Caption: fmt.Sprintf("%s, the functions with most", upperFirst(report.ProfileName(p.Kind))),
		Columns: []Column{{Name: "function"}, {Name: "own", Figure: true}, {Name: "share", Figure: true}, {Name: "including callees", Figure: true},
			{Name: "waits in"}, {Name: "place"}}}
	if p.Total == 0 {
		t.Caption = upperFirst(report.ProfileName(p.Kind)) + ": nothing recorded"
		return t
	}
	for _, f := range p.Functions[:min(len(p.Functions), profileRows)] {
		if f.Self <= 0 {
			break
		}
		place := f.File
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		t.Rows = append(t.Rows, []Cell{{Text: f.Name, Code: true}, {Text: report.ProfileAmount(f.Self, p.Unit)},
			{Text: unit.Percent(float64(f.Self) / float64(p.Total))}, {Text: unit.Percent(float64(f.Total) / float64(p.Total))},
			{Text: f.Through, Code: true}, {Text: place, Code: true}})
	}
	return t
}

// spreadTable shows how the profiles are distributed over several processes.
func spreadTable(g *record.Profiling) (Table, bool) {
	t := Table{Caption: "Each process's part", Columns: []Column{{Name: "process"}}}
	var order, kinds []string
	shares := map[string]map[string]float64{}
	for i := range g.Profiles {
		p := &g.Profiles[i]
		if len(p.Processes) < 2 || p.Total <= 0 || shares[p.Kind] != nil {
			continue
		}
		t.Columns = append(t.Columns, Column{Name: report.ProfileName(p.Kind), Figure: true})
		shares[p.Kind] = map[string]float64{}
		kinds = append(kinds, p.Kind)
		for _, part := range p.Processes {
			if !slices.Contains(order, part.Process) {
				order = append(order, part.Process)
			}
			shares[p.Kind][part.Process] = float64(part.Value) / float64(p.Total)
		}
	}
	for _, process := range order {
		row := []Cell{{Text: process}}
		for _, kind := range kinds {
			text := "–"
			if share, there := shares[kind][process]; there {
				text = unit.Percent(share)
			}
			row = append(row, Cell{Text: text})
		}
		t.Rows = append(t.Rows, row)
	}
	return t, len(order) > 0
}
