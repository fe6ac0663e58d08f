package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ceiling/record"
	"ceiling/show/chart"
	"ceiling/show/page"
)

// blocks returns the tables or figures that a reference requests.
func (e *Entry) blocks(verb string, args []string) (answer, error) {
	if len(args) == 0 {
		return answer{}, errors.New("name a record")
	}
	records, kind, err := e.leading(verb, args)
	if err != nil {
		return answer{}, err
	}
	out := answer{of: records, isBlock: true}
	for _, one := range records {
		if one.Pending() {
			out.pending, out.text = true, fmt.Sprintf("Not measured yet: %s of %s.", verb, one.Name)
			return out, nil
		}
	}
	if verb == "table" && kind == pointsTable {
		t, err := pointsOf(records[0])
		out.blocks = []page.Block{t}
		return out, err
	}
	d, err := documentOf(records)
	if err != nil {
		return out, err
	}
	if verb == "figure" {
		out.blocks, err = figuresOf(d, kind)
	} else {
		out.blocks, err = tablesOf(d, kind, records[0].Plan != nil)
	}
	return out, err
}

// leading returns the records named by the first arguments; a table accepts several runs. The
// last argument may name the table or figure.
func (e *Entry) leading(verb string, args []string) (records []*Record, kind string, err error) {
	for i, name := range args {
		one, err := e.resolve(name)
		if last := i > 0 && i == len(args)-1; last && (err != nil || verb == "figure") {
			return records, name, nil
		}
		if err != nil {
			return nil, "", err
		}
		records = append(records, one)
	}
	if len(records) > 1 && slices.ContainsFunc(records, func(one *Record) bool { return one.Plan != nil }) {
		return nil, "", errors.New("a table of several is one of single runs; give a plan its own table")
	}
	return records, "", nil
}

// documentOf returns the page of a plan, or of a comparison of runs.
func documentOf(records []*Record) (page.Document, error) {
	if records[0].Plan != nil {
		return page.Plan(records[0].Plan)
	}
	var runs []chart.Run
	for _, r := range records {
		runs = append(runs, r.shown())
	}
	return page.Runs(runs)
}

// figuresOf selects the figures of a kind: those whose anchor equals it, or starts with it and a
// dash.
func figuresOf(d page.Document, kind string) ([]page.Block, error) {
	var found []page.Block
	var names []string
	each(d.Sections, func(b page.Block) {
		name := ""
		switch f := b.(type) {
		case page.Figure:
			f.Table = folded(f.Table, true)
			name, b = f.ID, f
		case page.Drawing:
			f.Table = folded(f.Table, true)
			name, b = f.ID, f
		case page.Bar:
			name = "stations"
		case page.Path: // of one run; several runs have bars
			name, b = "stations", f.On("", nil)
		case page.HeatMaps:
			name = "cores"
		default:
			return
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if name == kind || strings.HasPrefix(name, kind+"-") {
			found = append(found, b)
		}
	})
	switch {
	case len(found) > 0:
		return found, nil
	case len(names) == 0:
		return nil, fmt.Errorf("unknown figure %q: this record has nothing to draw", clip(kind))
	}
	return nil, fmt.Errorf("unknown figure %q; use %s", clip(kind), strings.Join(names, ", "))
}

// folded returns a table, unless it is nil, folded or open.
func folded(t *page.Table, fold bool) *page.Table {
	if t == nil {
		return nil
	}
	other := *t
	other.Fold = fold
	return &other
}

// tablesOf selects the tables of a section; without a name, those of the answer.
func tablesOf(d page.Document, name string, plan bool) ([]page.Block, error) {
	want := []string{name}
	if name == "" {
		want = []string{"differences", "figures"} // of runs
		if plan {
			want = []string{"curves", "rates", "resources", "changes", "cells"}
		}
	}
	var found []page.Block
	var names []string
	for _, s := range d.Sections {
		each([]page.Section{s}, func(b page.Block) {
			var t *page.Table
			switch f := b.(type) {
			case page.Table:
				t = folded(&f, false)
			case page.Drawing:
				t = folded(f.Table, false)
			case page.Figure:
				t = folded(f.Table, false)
			}
			if t != nil {
				b = *t
			} else if _, ok := b.(page.Tiles); !ok {
				return
			}
			if slices.Contains(want, s.ID) {
				found = append(found, b)
			}
			if !slices.Contains(names, s.ID) {
				names = append(names, s.ID)
			}
		})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("unknown table %q; use %s", clip(name), strings.Join(names, ", "))
	}
	return found, nil
}

// each visits the blocks of sections, nested ones included.
func each(sections []page.Section, visit func(page.Block)) {
	var walk func(list []page.Block)
	walk = func(list []page.Block) {
		for _, b := range list {
			switch b := b.(type) {
			case page.Fold:
				walk(b.Blocks)
			case page.Panels:
				for _, d := range b.Drawings {
					visit(d)
				}
			case page.Columns:
				for _, column := range b.Of {
					walk(column)
				}
			default:
				visit(b)
			}
		}
	}
	for _, s := range sections {
		walk(s.Blocks)
	}
}

// pathOf is the path of a request, as the boxes of every other view. Those of a single run
// lead to the charts of its page.
func pathOf(of any) (answer, error) {
	return about(of, func(c condition, to *answer) error {
		var runs []*record.Run
		for _, r := range c.runs {
			runs = append(runs, r.Run)
		}
		p, ok := page.PathOf(runs)
		if !ok {
			return errors.New("where the time goes was not measured")
		}
		if c.name != "" {
			p.Says += " · " + c.name
		}
		address, d := "", page.Document{}
		if len(c.runs) == 1 {
			var err error
			if d, err = page.Runs([]chart.Run{*c.runs[0]}); err != nil {
				return err
			}
			address = recordPage(c.runs[0].ID)
		}
		to.blocks = []page.Block{p.On(address, d.Sections)}
		return nil
	})
}
