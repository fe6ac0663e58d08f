// Package page makes one self-contained file of what records hold: HTML that
// loads nothing and can be read without script, or Markdown. A page is a list
// of sections, a section a list of blocks; each block knows how it looks in
// either form, so that what a page says is written once.
package page

import (
	"html/template"

	"ceiling/record"
	"ceiling/show/chart"
)

// Document is one page.
type Document struct {
	// Title names the browser's tab; Subtitle stands above the page, and Lead
	// below it.
	Title    string
	Subtitle string
	Lead     string
	Sections []Section
	// Footer says where the page comes from.
	Footer string
}

// Section is a part of a page with a heading of its own.
type Section struct {
	// ID is its anchor: letters and dashes.
	ID     string
	Title  string
	Blocks []Block
}

// Block is a piece of a section: one of the types of this file.
type Block interface {
	// Kind names its template.
	Kind() string
	markdown(m *markdown)
}

// Paragraph is plain text.
type Paragraph struct {
	Text string
	// Quiet is a remark: smaller, and grey.
	Quiet bool
}

// Heading is one below the section's own.
type Heading struct{ Text string }

// List is sentences, each with where in the record it is from, if anywhere.
type List struct {
	Title string
	Items []Item
	// Mark chooses the sign before each: "for", "against", "doubt" or "".
	Mark string
	// ID is its anchor, if it has one.
	ID string
}

// Item is one of a list. Href is the anchor of what shows where it is From.
type Item struct{ Text, From, Href string }

// Notice is what a reader must not overlook.
type Notice struct{ Text string }

// Code is text to be copied.
type Code struct{ Text string }

// Table has a caption, which a screen reader announces.
type Table struct {
	Caption string
	Columns []Column
	Rows    [][]Cell
	// Fields are names with values of any length.
	Fields bool
	// Fold hides it behind its caption until asked for.
	Fold bool
	// Anchor begins the anchor of each row: "run" gives run-0, run-1; "" none.
	Anchor string
}

// Column of a table.
type Column struct {
	Name   string
	Figure bool // aligned to the right
}

// Cell is one of a table: a text, or a small line, or a share with its bounds.
type Cell struct {
	Text  string
	Code  bool
	Tone  string // class of a swatch before the text; "" none
	Spark *chart.Spark
	Range *Range
}

// longFrom is the length of a text that is folded on a phone, in characters.
const longFrom = 48

// Long tells a text that needs several lines on a phone.
func (c Cell) Long() bool { return len(c.Text) >= longFrom }

// Range is a share with its interval, 0 to 1 each.
type Range struct {
	Share, Low, High float64
	Tone             string
}

// Tiles are figures in large type.
type Tiles struct{ Tiles []Tile }

// Tile is one figure with its name and what is to be said of it.
type Tile struct{ Name, Value, Note string }

// Verdict is what a run proves, or what a plan came to.
type Verdict struct {
	// Run is the run's label where the page has several.
	Run string
	// Outcome is one or two words, "pass" or "no answer"; Gloss says what they mean, and
	// Mood is the outcome of a run whose colours the card has, or lost.
	Outcome, Gloss string
	Mood           record.Outcome
	// Figure is the rate, Unit what it counts, Spread how far it varies. A card may have
	// none.
	Figure, Unit, Spread string
	// Load is how it was asked for, where the page does not say it for all.
	Load       string
	Bottleneck string
	Because    string
	// Caveats counts them, in words; Next is the command to go on with.
	Caveats, Next string
	// Lead makes it the head of the page.
	Lead bool
}

// Bar is where a request waits: stations one after another.
type Bar struct {
	Run   string
	Says  string
	Parts []Part
}

// Part of a bar.
type Part struct {
	Name  string
	Share float64
	Tone  string
	Label string // "" where there is no room for one
	// Limits: the bottleneck is here.
	Limits bool
}

// Figure is a plot with its caption and the same as a table.
type Figure struct {
	ID   string
	Plot chart.Plot
	// Note says how many points are drawn, and what they stand for.
	Note string
	// Tall gives it more room; Zoom lets script replace the picture by one that
	// can be zoomed.
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

// Flame is stacks laid over each other: a box for each function, as wide as its
// share, above the one that calls it. Script searches and zooms it; its table can be
// read without.
type Flame struct {
	ID, Title, Note string
	Levels          int
	Boxes           []Box
	Table           Table
}

// Box is a function in a Flame, in per cent of its width. Tone is whose code it is.
type Box struct {
	Name, Says  string
	Left, Width float64
	Level       int
	Tone        string
}

// Fold hides blocks behind a line until asked for.
type Fold struct {
	Title  string
	Blocks []Block
}

// Columns puts blocks side by side where there is room.
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
func (Bar) Kind() string      { return "bar" }
func (Figure) Kind() string   { return "figure" }
func (HeatMaps) Kind() string { return "heat" }
func (Flame) Kind() string    { return "flame" }
func (Fold) Kind() string     { return "fold" }
func (Columns) Kind() string  { return "columns" }

// FromRight is where the interval ends, seen from the right.
func (r *Range) FromRight() float64 { return 1 - r.High }

// Picture is the plot as HTML.
func (f Figure) Picture() (template.HTML, error) { return f.Plot.HTML() }

// Markup is the small line as HTML.
func (c Cell) Markup() (template.HTML, error) { return c.Spark.HTML() }
