package page

import (
	"html/template"

	"ceiling/show/chart"
)

// Drawing is a figure of estimates: a graph or a forest, with the same data as a table.
type Drawing struct {
	ID   string
	Plot Legend
	// Note describes the figure.
	Note string
	// Tall gives it more room. Zoom does not apply.
	Tall, Zoom bool
	Table      *Table
	Graph      *chart.Graph
	Forest     *chart.Forest
	Areas      []Swatch
}

// Swatch is the legend entry of a filled area; Class is its colour's.
type Swatch struct{ Name, Class string }

// Swatches returns those of its legend.
func (d Drawing) Swatches() []Swatch { return d.Areas }

// Swatches returns those of the plot's heat map.
func (f Figure) Swatches() []Swatch {
	if f.Plot.Density == nil {
		return nil
	}
	return []Swatch{{Name: "responses", Class: "density-ramp"}}
}

// Panels are stacked drawings that share their x axis: pointing at a load shows all their values
// for it in one line above them.
type Panels struct {
	Drawings []Drawing
	Loads    []PanelLoad
}

// PanelLoad is a position on the shared axis, in per cent of its width.
type PanelLoad struct {
	At   float64 `json:"at"`
	Says string  `json:"says"`
	// Run is the anchor of its first run in the table of all runs; "" for none.
	Run string `json:"run,omitempty"`
}

// Kind implements Block.
func (Panels) Kind() string { return "panels" }

func (p Panels) markdown(m *markdown) {
	for i, d := range p.Drawings {
		if i > 0 {
			m.line("")
		}
		d.markdown(m)
	}
}

// Legend names the lines of a Drawing.
type Legend struct {
	Title  string
	Groups []struct{ Lines []LegendLine }
}

// LegendLine is a name with its line's style.
type LegendLine struct {
	Name   string
	Tone   int
	Dashed bool
}

// Kind implements Block; a Drawing shares the template of Figure.
func (Drawing) Kind() string { return "figure" }

// Picture renders the graph or the forest as HTML.
func (d Drawing) Picture() (template.HTML, error) {
	if d.Graph != nil {
		return d.Graph.HTML()
	}
	return d.Forest.HTML()
}

func (d Drawing) markdown(m *markdown) {
	m.line("### %s", Escape(d.Plot.Title))
	m.line("")
	m.line("%s", Escape(d.Note))
	if d.Table != nil {
		m.line("")
		d.Table.markdown(m)
	}
}

func graphOf(id string, g chart.Graph, note string) Drawing {
	d := Drawing{ID: id, Plot: Legend{Title: g.Title}, Note: note, Graph: &g}
	var lines []LegendLine
	for i := range g.Lines {
		lines = append(lines, LegendLine{Name: g.Lines[i].Name, Tone: g.Lines[i].Tone, Dashed: g.Lines[i].Dashed})
	}
	d.Plot.Groups = []struct{ Lines []LegendLine }{{lines}}
	return d
}

func forestOf(id string, f chart.Forest, note string) Drawing {
	return Drawing{ID: id, Plot: Legend{Title: f.Title}, Note: note, Forest: &f}
}
