package journal

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"ceiling/internal/unit"
)

// card is an entry in the index.
type card struct {
	*Entry
	To, Day string
	Finding sentence
	Hero    *hero
	Notices []notice
	Labels  []label
	// Classes are the filters that keep it visible.
	Classes string
}

// label is a search term of entries: a status, a regime or a tag.
type label struct {
	// Kind is "status", "regime" or "tag"; Name is the displayed text.
	Kind, Name string
	// ID is its anchor, and the class of its entries: "tag-pipelining".
	ID string
	// To links to the index filtered to its entries.
	To string
	// Says explains it; Class is the colour class of a status.
	Says, Class string
	Entries     int
}

func labelOf(kind, name string) label {
	id := kind + "-" + strings.ReplaceAll(strings.ToLower(name), " ", "-")
	return label{Kind: kind, Name: name, ID: id, To: IndexPage + "#" + id}
}

// labels returns an entry's labels: its regime, then its tags.
func (e *Entry) labels() []label {
	var list []label
	if e.Regime != "" {
		list = append(list, labelOf("regime", e.Regime))
	}
	for _, t := range e.Tags {
		list = append(list, labelOf("tag", t.Text))
	}
	return list
}

// statusLabel returns a status with its explanation.
func statusLabel(s Status) label {
	l := labelOf("status", string(s))
	l.Says, l.Class = s.means(), s.Class()
	return l
}

// indexData is the content of the index page.
type indexData struct {
	Premise template.HTML
	Ladder  template.HTML // of regimes
	Legend  []label
	// Filters are the regimes and the tags in use.
	Regimes, Tags []label
	Cards         []card
}

// index renders the index page, oldest entry first.
func (j *Journal) index(texts map[*Entry]*written, premise *written) ([]byte, error) {
	var data indexData
	if premise != nil {
		data.Premise = premise.html
	}
	var err error
	if data.Ladder, err = j.indexLadder(); err != nil {
		return nil, err
	}
	entries := map[string]int{}
	for _, e := range j.Entries {
		c := card{Entry: e, To: entryPage(e), Day: day(e.Date), Finding: texts[e].finding, Hero: texts[e].hero,
			Notices: append(e.notices(), j.correctionNotices(e)...), Labels: e.labels()}
		for _, l := range append(c.Labels, statusLabel(e.Status)) {
			c.Classes += " " + l.ID
			entries[l.ID]++
		}
		data.Cards = append(data.Cards, c)
	}
	data.Regimes, data.Tags = j.inUse("regime"), j.inUse("tag")
	for _, s := range Statuses() {
		data.Legend = append(data.Legend, statusLabel(s))
	}
	var filters []label
	for _, list := range [][]label{data.Legend, data.Regimes, data.Tags} {
		for i := range list {
			list[i].Entries = entries[list[i].ID]
			filters = append(filters, list[i])
		}
	}
	main, err := execute("index", data)
	if err != nil {
		return nil, err
	}
	script, err := files.ReadFile("index.js")
	if err != nil {
		return nil, err
	}
	lead := "No entries yet."
	if n := len(j.Entries); n > 0 {
		lead = unit.Plural(n, "entry", "entries") + ", the oldest first."
	}
	title := j.Title
	if title == "Journal" {
		title = "Journal · ceiling"
	}
	return layout{Title: title, Heading: j.Title, Lead: lead, Main: main, Script: template.JS(script), Filter: filterStyle(filters),
		Card:   shareCard{Kind: "website", Says: lead, URL: j.address(IndexPage)},
		Footer: "Every figure in the entries is taken from a record by reference; its link leads to the record."}.whole()
}

// inUse returns the labels of a kind that entries have, by name.
func (j *Journal) inUse(kind string) []label {
	var list []label
	for _, e := range j.Entries {
		for _, l := range e.labels() {
			if l.Kind == kind && !slices.ContainsFunc(list, func(o label) bool { return o.ID == l.ID }) {
				list = append(list, l)
			}
		}
	}
	slices.SortFunc(list, func(a, b label) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// address returns the URL of a page; "" if the journal's URL is unknown.
func (j *Journal) address(page string) string {
	if j.URL == "" {
		return ""
	}
	return j.URL + page
}

// filterStyle returns CSS that hides entries without the anchor's label, without script. IDs
// consist of small letters, digits, dashes and dots.
func filterStyle(labels []label) template.CSS {
	var b strings.Builder
	for _, l := range labels {
		id := strings.ReplaceAll(l.ID, ".", `\.`)
		fmt.Fprintf(&b, "#%s:target~.entries>li:not(.%s){display:none}\n#%s:target~.find a[href=\"#%s\"]{color:var(--paper);background:var(--ink)}\n",
			id, id, id, l.ID)
	}
	return template.CSS(b.String())
}
