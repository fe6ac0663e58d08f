package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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
	out := answer{From: records, isBlock: true}
	for _, one := range records {
		if one.Pending() {
			out.Pending, out.Figure = true, fmt.Sprintf("Not measured yet: %s of %s.", verb, one.Name)
			return out, nil
		}
	}
	if verb == "table" && kind == pointsTable {
		t, err := pointsOf(records[0])
		out.blocks = []page.Block{t}
		return out, err
	}
	d, err := documentOf(records)
	if err == nil {
		out.blocks, err = selected(d, verb, kind, records[0].Plan != nil)
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

// selected returns the figures or tables of a kind: figures by an anchor that equals it, or starts with it
// and a dash; tables by their section, without a kind those of the answer.
func selected(d page.Document, verb, kind string, plan bool) ([]page.Block, error) {
	sections := []string{kind}
	if kind == "" {
		sections = []string{"differences", "figures"} // of runs
		if plan {
			sections = []string{"curves", "rates", "resources", "changes", "cells"}
		}
	}
	var found []page.Block
	var names []string
	for _, s := range d.Sections {
		for _, b := range flat(s.Blocks) {
			name, wanted := s.ID, slices.Contains(sections, s.ID)
			if verb == "table" {
				b = tableOf(b)
			} else {
				name, b = figureOf(b)
				wanted = name == kind || strings.HasPrefix(name, kind+"-")
			}
			if b != nil && wanted {
				found = append(found, b)
			}
			if b != nil && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case len(names) == 0:
		return nil, fmt.Errorf("unknown %s %q: this record has nothing to draw", verb, clip(kind))
	}
	return nil, fmt.Errorf("unknown %s %q; use %s", verb, clip(kind), strings.Join(names, ", "))
}

// flat returns blocks with those inside them in their place.
func flat(blocks []page.Block) (list []page.Block) {
	for _, b := range blocks {
		switch b := b.(type) {
		case page.Fold:
			list = append(list, flat(b.Blocks)...)
		case page.Panels:
			for _, d := range b.Drawings {
				list = append(list, d)
			}
		case page.Columns:
			for _, column := range b.Of {
				list = append(list, flat(column)...)
			}
		default:
			list = append(list, b)
		}
	}
	return list
}

// figureOf returns a figure with its anchor, its table folded; nil if the block is none.
func figureOf(b page.Block) (name string, figure page.Block) {
	switch f := b.(type) {
	case page.Figure:
		f.Table = folded(f.Table, true)
		return f.ID, f
	case page.Drawing:
		f.Table = folded(f.Table, true)
		return f.ID, f
	case page.Path:
		return "stations", f.On("", nil)
	case page.HeatMaps:
		return "cores", b
	}
	return "", nil
}

// tableOf returns a table, or that of a figure, open; nil if the block has none.
func tableOf(b page.Block) page.Block {
	var t *page.Table
	switch f := b.(type) {
	case page.Tiles:
		return f
	case page.Table:
		t = &f
	case page.Drawing:
		t = f.Table
	case page.Figure:
		t = f.Table
	}
	if t == nil {
		return nil
	}
	return *folded(t, false)
}

// folded folds or opens a table, if there is one.
func folded(t *page.Table, fold bool) *page.Table {
	if t != nil {
		t.Fold = fold
	}
	return t
}
