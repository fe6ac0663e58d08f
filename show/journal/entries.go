package journal

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"ceiling/show/page"
)

// notice is a warning that an entry's reader must not miss.
type notice struct {
	Text string
	// To links to the entry that it is about, Name is its name.
	To, Name string
	Because  string
}

// notices returns the notices about an entry and about what it builds on.
func (e *Entry) notices() []notice {
	var list []notice
	if e.Status == Retracted {
		list = append(list, notice{Text: "This entry is retracted: " + e.RetractedBecause})
	}
	for _, g := range e.Unsound {
		n := notice{Text: "It builds on a retracted entry", To: entryPage(g.Entry), Name: g.Entry.Number + " " + g.Entry.Title,
			Because: g.Entry.RetractedBecause}
		if len(g.By) > 0 {
			var by []string
			for _, b := range g.By {
				by = append(by, b.Number)
			}
			n.Text = fmt.Sprintf("By way of %s it builds on a retracted entry", strings.Join(by, ", "))
		}
		list = append(list, n)
	}
	for i := range list {
		list[i].Text, list[i].Because = page.Text(list[i].Text), page.Text(list[i].Because)
	}
	return list
}

// day formats a date in words.
func day(date string) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date // Read validated the date
	}
	return t.Format("2 January 2006")
}

// entryPage renders the page of the i-th entry.
func (j *Journal) entryPage(i int, w *written) ([]byte, error) {
	e := j.Entries[i]
	data := struct {
		*Entry
		Day      string
		Changed  string
		Finding  template.HTML
		WhatNext template.HTML
		Labels   []label
		Setup    *setup
		Notices  []notice
		Body     template.HTML
		Rows     []row
		On       []link
		By       []link
		Previous *Entry
		Next     *Entry
	}{Entry: e, Day: day(e.Date), Finding: w.finding.HTML, WhatNext: w.next.HTML, Labels: e.labels(), Setup: e.setup(),
		Notices: append(e.notices(), j.correctionNotices(e)...), Body: w.html}
	if e.changed() != e.Date {
		data.Changed = day(e.changed())
	}
	for _, r := range e.Records {
		data.Rows = append(data.Rows, rowOf(r))
	}
	for _, other := range j.Entries {
		if slices.ContainsFunc(e.BuildsOn, func(n Named) bool { return other.is(n.Text) }) {
			data.On = append(data.On, link{Name: other.Number + " " + other.Title, To: entryPage(other), Says: string(other.Status)})
		}
		if slices.ContainsFunc(other.BuildsOn, func(n Named) bool { return e.is(n.Text) }) {
			data.By = append(data.By, link{Name: other.Number + " " + other.Title, To: entryPage(other), Says: string(other.Status)})
		}
	}
	if i > 0 {
		data.Previous = j.Entries[i-1]
	}
	if i+1 < len(j.Entries) {
		data.Next = j.Entries[i+1]
	}
	main, err := execute("entry", data)
	if err != nil {
		return nil, err
	}
	return layout{Title: e.Title + " · journal · ceiling", Heading: e.Title, Main: main,
		Trail:  []trail{{"Journal", IndexPage}, {e.Number, ""}},
		Card:   shareCard{Kind: "article", Says: w.summary(), URL: j.address(entryPage(e))},
		Footer: "Figures that are links are taken from records."}.whole()
}

// is reports whether a name means this entry.
func (e *Entry) is(name string) bool { return e.Name == name || e.Number == name || e.Slug == name }

// Page returns the path of the entry's page, for the layouts.
func (e *Entry) Page() string { return entryPage(e) }
