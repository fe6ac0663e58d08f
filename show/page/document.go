// Package page renders records as one self-contained file: HTML that loads nothing and needs no
// script, or Markdown. A page is a list of sections, a section a list of blocks; each block
// renders itself in either form, so that a page's content is written once.
package page

import (
	"html/template"
	"slices"

	"ceiling/record"
	"ceiling/show/chart"
)

// Document is one page.
type Document struct {
	// Title is the browser tab's title; Subtitle is above the page, Lead below it.
	Title    string
	Subtitle string
	Lead     string
	Sections []Section
	// Footer states the page's origin.
	Footer string
}

// add appends the sections that have blocks.
func (d *Document) add(sections ...Section) {
	d.Sections = append(d.Sections, slices.DeleteFunc(sections, func(s Section) bool { return len(s.Blocks) == 0 })...)
}

// Section is a part of a page with its own heading.
type Section struct {
	// ID is its anchor: letters and dashes.
	ID     string
	Title  string
	Blocks []Block
}

// Block is one element of a section: one of the types in this file.
type Block interface {
	// Kind names its template.
	Kind() string
	markdown(m *markdown)
}

// Paragraph is plain text.
type Paragraph struct {
	Text string
	// Quiet marks a remark: smaller, and grey.
	Quiet bool
}

// Heading is a heading below the section's.
type Heading struct{ Text string }

// List is sentences, each with its source in the record, if any.
type List struct {
	Title string
	Items []Item
	// Mark is the sign before each: "for", "against", "doubt" or "".
	Mark string
	// ID is its anchor, if it has one.
	ID string
}

// Item is an item of a list. Href is the anchor of the block that shows the data From which it
// derives.
type Item struct{ Text, From, Href string }

// Notice is a warning that a reader must not miss.
type Notice struct{ Text string }

// Code is text to copy.
type Code struct{ Text string }

// Table is a table with a caption, which a screen reader announces.
type Table struct {
	Caption string
	Columns []Column
	Rows    [][]Cell
	// Fields marks names with values of any length.
	Fields bool
	// Fold collapses it under its caption.
	Fold bool
	// Anchor is the prefix of the rows' anchors: "run" gives run-0, run-1; "" for none.
	Anchor string
}

// Column of a table.
type Column struct {
	Name   string
	Figure bool // aligned to the right
}

// Cell is a table cell: a text, a sparkline, or a share with its interval.
type Cell struct {
	Text  string
	Code  bool
	Tone  string // class of a swatch before the text; "" none
	Spark *chart.Spark
	Range *Range
}

// longFrom is the length from which a text is folded on a phone, in characters.
const longFrom = 48

// Long reports whether a text needs several lines on a phone.
func (c Cell) Long() bool { return len(c.Text) >= longFrom }

// Range is a share with its interval, 0 to 1 each.
type Range struct {
	Share, Low, High float64
	Tone             string
}

// Tiles are figures in large type.
type Tiles struct{ Tiles []Tile }

// Tile is a figure with its name and a note.
type Tile struct{ Name, Value, Note string }

// Verdict is the card of a run's verdict or a plan's result.
type Verdict struct {
	// Run is the run's label if the page has several.
	Run string
	// Outcome is one or two words, "pass" or "no answer"; Gloss explains them. Mood sets the
	// card's colours: the outcome of a run, or lost.
	Outcome, Gloss string
	Mood           record.Outcome
	// Figure is the rate, Unit what it counts, Spread its variation. A card may have none.
	Figure, Unit, Spread string
	// Load is the load, unless the page states it for all runs.
	Load       string
	Bottleneck string
	Because    string
	// Caveats is their number, in words; Next is the suggested next command.
	Caveats, Next string
	// Lead makes it the head of the page.
	Lead bool
}

// Figure is a plot with its caption and the same data as a table.
type Figure struct {
	ID   string
	Plot chart.Plot
	// Note states how many points are drawn, and what each represents.
	Note string
	// Tall gives it more room; Zoom lets the script replace the picture with one that can be
	// zoomed.
	Tall, Zoom bool
	Table      *Table
}

// HeatMaps is one host's cores.
type HeatMaps struct {
	Title, Note string
	Cores       *chart.Cores
	Missing     bool
	Table       *Table
}

// Flame is a flame graph: a box per function, as wide as its share, above its caller. The script
// searches and zooms it; its table needs no script.
type Flame struct {
	ID, Title, Note string
	Levels          int
	Boxes           []Box
	Table           Table
}

// Box is a function in a Flame, in per cent of its width. Tone is the owner of the code.
type Box struct {
	Name, Says  string
	Left, Width float64
	Level       int
	Tone        string
}

// Fold collapses blocks under a summary line.
type Fold struct {
	Title  string
	Blocks []Block
}

// Columns places blocks side by side if there is room.
type Columns struct{ Of [][]Block }

// Kind implements Block, here and below.
func (Paragraph) Kind() string { return "paragraph" }

func (Heading) Kind() string  { return "heading" }
func (List) Kind() string     { return "list" }
func (Notice) Kind() string   { return "notice" }
func (Code) Kind() string     { return "code" }
func (Table) Kind() string    { return "table" }
func (Tiles) Kind() string    { return "tiles" }
func (Verdict) Kind() string  { return "verdict" }
func (Figure) Kind() string   { return "figure" }
func (HeatMaps) Kind() string { return "heat" }
func (Flame) Kind() string    { return "flame" }
func (Fold) Kind() string     { return "fold" }
func (Columns) Kind() string  { return "columns" }

// FromRight is the distance of the interval's end from the right.
func (r *Range) FromRight() float64 { return 1 - r.High }

// Picture renders the plot as HTML.
func (f Figure) Picture() (template.HTML, error) { return f.Plot.HTML() }

// Markup renders the sparkline as HTML.
func (c Cell) Markup() (template.HTML, error) { return c.Spark.HTML() }
